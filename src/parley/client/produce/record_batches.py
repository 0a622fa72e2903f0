"""From chunks of gathered records to encoded batches. In any thread; numbers come later.

Batches are encoded before it is known which sequences they get, so that a chunk needs no turn for
it: `Producer.number` stamps them in the order in which they are handed to the sender.

With thousands of topics a chunk has few records, and a call for each of them costs more than the
records: the columns of all chunks that are made at a time are built together (`Gathered`), and a
chunk's rows are a view of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
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


class Made(NamedTuple):
    """What became of a chunk: its batches, those that cannot be, and whether records were spread
    that may go to any partition.
    """

    batches: list[OutBatch]
    impossible: list[tuple[BatchCall, KafkaError]]
    spread: bool


class Gathered:
    """The rows of several closed chunks as columns."""

    def __init__(self, chunks: Sequence[RecordChunk]) -> None:
        self._chunks = chunks
        one = len(chunks) == 1
        self._times = _times_ms(chunks)
        self._key = _column(
            chunks[0].keys if one else list(chain.from_iterable(each.keys for each in chunks))
        )
        self._value = _column(
            chunks[0].values if one else list(chain.from_iterable(each.values for each in chunks))
        )
        self._headers = _headers(chunks) if any(each.headers for each in chunks) else None

    def rows(self, index: int, first: int) -> tuple[Columns, memoryview]:
        """Return a chunk's columns, and the time of each row in milliseconds. `first`: how many
        rows the chunks before it have.
        """
        chunk = self._chunks[index]
        if len(self._chunks) == 1:
            times = _exact(chunk, self._times)
            return Columns(
                rows=chunk.rows,
                timestamps=times.cast("B"),
                key=self._key,
                value=self._value,
                headers=self._headers,
            ), times
        stop = first + chunk.rows
        # a copy: acknowledgements keep the times of their chunk, not those of all
        times = _exact(chunk, memoryview(bytes(self._times[first:stop])).cast("q"))
        headers = self._headers
        if headers is not None and chunk.headers:
            ends = _numbers(headers.offsets, first, stop)
            found = int32s(ends)
            headers = HeadersColumn(ends, headers.keys, headers.values, found[-1] - found[0])
        else:
            headers = None
        return Columns(
            rows=chunk.rows,
            timestamps=times.cast("B"),
            key=_part(self._key, chunk.keys, first, stop),
            value=_part(self._value, chunk.values, first, stop),
            headers=headers,
        ), times


def make_batches(
    chunk: RecordChunk,
    rows: tuple[Columns, memoryview],
    plan: TopicPlan,
    sticky: Sticky,
    policy: BatchPolicy,
    newest_magic: Callable[[TopicPartition], int],
) -> Made:
    """Return a chunk's batches. `rows` are its own of what was gathered.

    Mutates: the chunk's lists are empty afterwards.
    """
    columns, times = rows
    hashed = None
    if policy.key_hash is not None and columns.key is not None:
        hashed = policy.key_hash.partitions(chunk.keys, plan.partition_count)
    elif policy.key_hash is not None and not policy.key_hash.spread_null:
        hashed = policy.key_hash.partitions([None] * chunk.rows, plan.partition_count)
    given = ProduceColumns(columns, None, _explicit_partitions(chunk))
    groups = assign(given, plan, None, sticky, policy.options, hashed)
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
    return Made(made, impossible, spread)


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
        level=options.compression_level,
    )


def _times_ms(chunks: Sequence[RecordChunk]) -> memoryview:
    """Return when each row was sent, of all chunks: their seconds in milliseconds."""
    if len(chunks) == 1:
        sent: array[float] | memoryview = chunks[0].times
    else:
        sent = array("d")
        for chunk in chunks:
            sent.extend(chunk.times)
    seconds = pa.Array.from_buffers(pa.float64(), len(sent), [None, pa.py_buffer(sent)])
    found = pc.cast(pc.multiply(seconds, 1000.0), pa.int64(), safe=False)
    return memoryview(found.buffers()[1]).cast("B")[: 8 * len(sent)].cast("q")


def _exact(chunk: RecordChunk, times: memoryview) -> memoryview:
    """Return the times of a chunk's rows, those in their places that were given by the caller."""
    if not chunk.timestamps_ms:
        return times
    exact = array("q", times)
    for row, time_ms in chunk.timestamps_ms.items():
        exact[row] = time_ms
    return memoryview(exact)


def _column(values: list[bytes | None]) -> VarColumn | None:
    column = var_column(values)
    return None if column.null_count == len(values) else column


def _part(
    column: VarColumn | None, values: list[bytes | None], first: int, stop: int
) -> VarColumn | None:
    """Return the rows of a column from `first` to `stop`, which have these values."""
    if column is None:
        return None
    nulls = values.count(None) if column.null_count else 0
    if nulls == stop - first:
        return None
    offsets = _numbers(column.offsets, first, stop)
    if not nulls:
        return VarColumn(None, offsets, column.data)
    return VarColumn(column.validity, offsets, column.data, nulls, column.bit_offset + first)


def _numbers(offsets: Buffer, first: int, stop: int) -> memoryview:
    """Return the int32 offsets of the rows from `first` to `stop`."""
    return memoryview(offsets).cast("B")[4 * first : 4 * (stop + 1)]


def _headers(chunks: Sequence[RecordChunk]) -> HeadersColumn:
    ends = array("i", (0,))
    names: list[bytes | None] = []
    values: list[bytes | None] = []
    nothing: Headers = ()
    for chunk in chunks:
        for row in range(chunk.rows):
            for name, value in chunk.headers.get(row, nothing):
                names.append(name)
                values.append(value)
            ends.append(len(names))
    return HeadersColumn(ends.tobytes(), var_column(names), var_column(values), len(names))


def _explicit_partitions(chunk: RecordChunk) -> pa.Array | None:
    if not chunk.partitions:
        return None
    get = chunk.partitions.get
    return pa.array([get(row) for row in range(chunk.rows)], pa.int32())
