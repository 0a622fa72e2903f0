"""From chunks of gathered records to encoded batches. In any thread; numbers come later.

Batches are encoded before it is known which sequences they get, so that a chunk needs no turn for
it: `Producer.number` stamps them in the order in which they are handed to the sender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parley.arrow import ProduceColumns
from parley.client.options.client_options import CODECS, ProduceOptions
from parley.client.produce.chunk import BatchCall, RecordChunk
from parley.client.produce.partitioners import AdaptiveSticky, KeyHash
from parley.client.produce.rows import (
    Sticky,
    TopicPlan,
    assign,
    check_format,
    encode,
    format_for,
    too_large,
    unnumbered_options,
)
from parley.client.produce.state import OutBatch
from parley.errors import KafkaError
from parley.records import (
    Buffer,
    Columns,
    GatheredBatches,
    encode_gathered,
    gathered_columns,
    int32s,
    int64s,
    var_values,
)
from parley.types import TopicPartition


class BatchPolicy(NamedTuple):
    """What all batches of a producer have in common."""

    options: ProduceOptions
    key_hash: KeyHash | None
    timeout_ms: int
    """Of a Produce request."""


class Made(NamedTuple):
    """What became of a chunk: its batches, and those that cannot be."""

    batches: list[OutBatch]
    impossible: list[tuple[BatchCall, KafkaError]]


def make_batches(
    chunk: RecordChunk,
    plan: TopicPlan,
    sticky: Sticky,
    policy: BatchPolicy,
    newest_magic: Callable[[TopicPartition], int],
) -> Made:
    """Return a closed chunk's batches. Mutates: its columns are empty afterwards."""
    columns, partitions = _gathered(chunk)
    hashed = None
    if policy.key_hash is not None and columns.key is not None:
        hashed = policy.key_hash.partitions([*var_values(columns.key)], plan.partition_count)
    elif policy.key_hash is not None and not policy.key_hash.spread_null:
        hashed = policy.key_hash.partitions([None] * chunk.rows, plan.partition_count)
    given = ProduceColumns(columns, None, partitions)
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
            magic = format_for(plan, partition, newest_magic(tp), policy.options)
            check_format(columns, plan, partition, magic, policy.options)
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
    assert columns.timestamps is not None
    chunk.made(calls, order or None, int64s(columns.timestamps))
    return Made(made, impossible)


class Spreading(NamedTuple):
    """A closed chunk, what is known of its topic, and where records go that may go anywhere."""

    chunk: RecordChunk
    plan: TopicPlan
    runs: list[tuple[int, int]]


def spreading(
    chunk: RecordChunk, plan: TopicPlan, sticky: AdaptiveSticky, options: ProduceOptions
) -> Spreading:
    """Return where a chunk's records go. Mutates: `sticky`."""
    count = chunk.unplaced(not options.partitioner_ignore_keys)
    if not count or plan.partition_count == 1:
        return Spreading(chunk, plan, [])
    sticky.leave_if_behind(plan)
    row_bytes = max(1, chunk.size // chunk.rows)
    return Spreading(chunk, plan, list(sticky.runs(count, row_bytes, plan, options.batch_size)))


def make_together(work: Sequence[Spreading], policy: BatchPolicy) -> list[Made | None]:
    """Return the batches of chunks whose leaders all take the newest format, and whose keys are
    hashed as Java does; None for a chunk that needs `make_batches`, to which nothing was done.
    """
    options = policy.options
    found = encode_gathered(
        [(one.chunk, one.plan.partition_count, one.runs) for one in work],
        unnumbered_options(2, options, now_ms=-1),
        hash_keys=not options.partitioner_ignore_keys,
    )
    made: list[Made | None] = []
    for (chunk, plan, _), batches in zip(work, found, strict=True):
        made.append(None if batches is None else _made(chunk, plan.topic, batches, policy))
    return made


def _made(chunk: RecordChunk, topic: str, found: GatheredBatches, policy: BatchPolicy) -> Made:
    calls: list[BatchCall] = []
    batches: list[OutBatch] = []
    impossible: list[tuple[BatchCall, KafkaError]] = []
    for partition, data, start, records in found.batches:
        call = BatchCall(chunk, TopicPartition(topic, partition), start, records)
        calls.append(call)
        if len(data) > policy.options.max_request_size:
            impossible.append((call, too_large(len(data), policy.options)))
        else:
            batches.append(_batch(chunk, call, data, 2, policy))
    order: list[tuple[int, Sequence[int]]] | None = None
    if found.order is not None:
        order = [(0, int32s(found.order))]
    chunk.made(calls, order, int64s(found.times_ms))
    return Made(batches, impossible)


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


def _gathered(chunk: RecordChunk) -> tuple[Columns, pa.Array | None]:
    """Return what a chunk has gathered, and the partitions that its records name."""
    columns, partitions = gathered_columns(chunk)
    if partitions is None:
        return columns, None
    named = pa.Array.from_buffers(pa.int32(), columns.rows, [None, pa.py_buffer(partitions)])
    return columns, pc.if_else(pc.equal(named, -1), pa.scalar(None, pa.int32()), named)
