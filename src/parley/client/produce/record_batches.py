"""From a chunk of gathered records to encoded batches. In any thread; numbers come later.

Batches are encoded before it is known which sequences they get, so that a chunk needs no turn for
it: `Producer.number` stamps them in the order in which they are handed to the sender.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parley.arrow import ProduceColumns
from parley.client.options.client_options import CODECS, ProduceOptions
from parley.client.produce.chunk import BatchCall, Headers, RecordChunk
from parley.client.produce.partitioners import KeyHash
from parley.client.produce.rows import Sticky, TopicPlan, assign, check_format, encode
from parley.client.produce.state import OutBatch
from parley.errors import KafkaError
from parley.records import Buffer, Columns, HeadersColumn, VarColumn, int32s, var_column
from parley.types import TopicPartition


class BatchPolicy(NamedTuple):
    """What all batches of a producer have in common."""

    options: ProduceOptions
    key_hash: KeyHash | None
    timeout_ms: int
    """Of a Produce request."""


def make_batches(
    chunk: RecordChunk,
    plan: TopicPlan,
    sticky: Sticky,
    policy: BatchPolicy,
    newest_magic: Callable[[TopicPartition], int],
) -> tuple[list[OutBatch], list[tuple[BatchCall, KafkaError]], bool]:
    """Return a chunk's batches, those that cannot be, and whether records were spread.

    Mutates: the chunk's lists are empty afterwards.
    """
    times = _times_ms(chunk)
    columns = _columns(chunk, times)
    hashed = None
    if policy.key_hash is not None and columns.key is not None:
        hashed = policy.key_hash.partitions(chunk.keys, plan.partition_count)
    elif policy.key_hash is not None and not policy.key_hash.spread_null:
        hashed = policy.key_hash.partitions([None] * chunk.rows, plan.partition_count)
    rows = ProduceColumns(columns, None, _explicit_partitions(chunk))
    groups = assign(rows, plan, None, sticky, policy.options, hashed)
    made: list[OutBatch] = []
    calls: list[BatchCall] = []
    impossible: list[tuple[BatchCall, KafkaError]] = []
    order: list[tuple[int, Sequence[int]]] = []
    place = 0
    for partition, chosen in groups:
        tp = TopicPartition(chunk.topic, partition)
        count = chunk.rows if chosen is None else len(chosen) // 4
        try:
            magic = min(plan.magic(partition), newest_magic(tp))
            check_format(columns, plan, partition, magic)
            batches = encode(columns, chosen, magic, policy.options, now_ms=-1, numbers=None)
            for batch in batches:
                call = BatchCall(chunk, tp, place + batch.start, batch.records)
                calls.append(call)
                made.append(_batch(chunk, call, batch.data, magic, policy))
        except KafkaError as error:
            call = BatchCall(chunk, tp, place, count)
            calls.append(call)
            impossible.append((call, error))
        if chosen is not None:
            order.append((place, int32s(chosen)))
        place += count
    spread = columns.key is None or columns.key.null_count > 0
    chunk.made(calls, order or None, times)
    return made, impossible, spread


def _batch(
    chunk: RecordChunk, call: BatchCall, data: Buffer, magic: int, policy: BatchPolicy
) -> OutBatch:
    options = policy.options
    return OutBatch(
        tp=call.partition,
        data=data,
        records=call.records,
        magic=magic,
        codec=CODECS.index(options.compression_type),
        call=call,
        acks=options.required_acks,
        deadline_ms=chunk.created_ms + options.delivery_timeout_ms,
        timeout_ms=policy.timeout_ms,
        needs_idempotence=bool(options.enable_idempotence),
    )


def _times_ms(chunk: RecordChunk) -> memoryview:
    seconds = pa.Array.from_buffers(pa.float64(), chunk.rows, [None, pa.py_buffer(chunk.times)])
    found = pc.cast(pc.multiply(seconds, 1000.0), pa.int64(), safe=False)
    times = memoryview(found.buffers()[1]).cast("B")[: 8 * chunk.rows].cast("q")
    if chunk.timestamps_ms:
        exact = array("q", times)
        for row, time_ms in chunk.timestamps_ms.items():
            exact[row] = time_ms
        return memoryview(exact)
    return times


def _columns(chunk: RecordChunk, times: memoryview) -> Columns:
    return Columns(
        rows=chunk.rows,
        timestamps=times.cast("B"),
        key=_column(chunk.keys),
        value=_column(chunk.values),
        headers=_headers(chunk.headers, chunk.rows) if chunk.headers else None,
    )


def _column(values: list[bytes | None]) -> VarColumn | None:
    column = var_column(values)
    return None if column.null_count == len(values) else column


def _headers(headers: dict[int, Headers], rows: int) -> HeadersColumn:
    ends = array("i", (0,))
    names: list[bytes | None] = []
    values: list[bytes | None] = []
    for row in range(rows):
        for name, value in headers.get(row, ()):
            names.append(name)
            values.append(value)
        ends.append(len(names))
    return HeadersColumn(ends.tobytes(), var_column(names), var_column(values), len(names))


def _explicit_partitions(chunk: RecordChunk) -> pa.Array | None:
    if not chunk.partitions:
        return None
    get = chunk.partitions.get
    return pa.array([get(row) for row in range(chunk.rows)], pa.int32())
