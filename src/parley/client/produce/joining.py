"""Small batches of records that wait become one before they are sent. Pure.

A partition that has all its requests in flight, or whose leader is slow, gets a small batch from
each chunk of its topic meanwhile, and a request takes one batch of a partition: unjoined they would
be as many requests.

1. Only batches that were never sent are joined: one that was may be in the log as it is. They are
   of one producer: another one of the client has its own time-outs, and is closed by itself.
2. The joined batch has the sequences of its parts, which follow each other: nothing is numbered
   again. It stands where they stood, and is overdue when the first of them is.
3. Each part keeps its outcome; where the joined batch is split, so are the parts.
"""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import NamedTuple

from parley.client.produce.chunk import BatchCall
from parley.client.produce.sequences import next_sequence
from parley.client.produce.state import OutBatch, PartitionLog, ProduceCall
from parley.errors import KafkaError
from parley.records import (
    ReadOptions,
    Want,
    WriteOptions,
    assign_offsets,
    decode_columns,
    encode_batches,
)

JOINED_BYTES = 256 * 1024
"""A joined batch has no more bytes: it is made in the loop."""
JOINED_COMPRESSED_BYTES = 16 * 1024


class JointCall(ProduceCall):
    """What became of several batches of records that are one now."""

    def __init__(self, parts: list[BatchCall]) -> None:
        super().__init__()
        self.partition, self.open, self.parts = parts[0].partition, 1, parts
        for part in parts:
            part.joint = self

    def acknowledged(self, batch: OutBatch, base_offset: int, log_append_time_ms: int) -> None:
        """Take note of a batch that is in the log: its parts lie there one after the other."""
        self.open -= 1
        for part in self.parts:
            part.acknowledged(batch, base_offset, log_append_time_ms)
            if base_offset >= 0:
                base_offset += part.records

    def give_up(self, error: KafkaError, *, in_doubt: bool) -> None:
        """Take note of the first error; all parts have it."""
        if self.error is None:
            self.error = error
            for part in self.parts:
                part.give_up(error, in_doubt=in_doubt)

    def replaced(self, pieces: list[OutBatch]) -> None:
        """Let each piece have the outcome of the records that it holds."""
        if len(pieces) == 1 or self.error is not None:
            self.open += len(pieces) - 1
            return
        waiting = list(reversed(self.parts))
        for piece in pieces:
            left, mine = piece.records, []
            while left:
                part = waiting.pop()
                if part.records > left:
                    part, rest = part.divided(left)
                    waiting.append(rest)
                left -= part.records
                mine.append(part)
            piece.call = mine[0] if len(mine) == 1 else JointCall(mine)
            if len(mine) == 1:
                mine[0].joint, mine[0].open = None, 1


class Joined(NamedTuple):
    """A batch, and those that it stands for now."""

    batch: OutBatch
    parts: list[OutBatch]


def join_first(log: PartitionLog, most_bytes: int) -> Joined | None:
    """Join the batch that is sent next with those behind it, as far as `most_bytes` allows.

    Returns the joined one, which is in the queue now, and what was there before; None where there
    is nothing to join.
    """
    parts = _parts(log, most_bytes)
    if len(parts) < 2:
        return None
    joined = _joined(parts)
    if joined is None:
        return None
    log.replace_first(len(parts), joined)
    return Joined(joined, parts)


def _parts(log: PartitionLog, most_bytes: int) -> list[OutBatch]:
    """Return the batches at the front of the queue that may become one."""
    head = log.queue[0]
    if not _is_joinable(head):
        return [head]
    most = min(most_bytes, JOINED_COMPRESSED_BYTES if head.codec else JOINED_BYTES)
    parts, size = [head], head.size
    for batch in islice(log.queue, 1, None):
        size += batch.size
        if size > most or not (_is_joinable(batch) and _follows(parts[-1], batch)):
            break
        parts.append(batch)
    return parts


def _is_joinable(batch: OutBatch) -> bool:
    return (
        isinstance(batch.call, BatchCall | JointCall)
        and batch.call.error is None
        and not (batch.attempted or batch.needs_work)
    )


def _follows(before: OutBatch, batch: OutBatch) -> bool:
    """Return whether a batch could have been one with the batch before it."""
    if _kind(before) != _kind(batch):
        return False
    following = next_sequence(before.base_sequence, before.records)
    return not before.is_idempotent or batch.base_sequence == following


def _kind(batch: OutBatch) -> tuple[object, ...]:
    """Return what batches must have in common to be one: format, who writes, and for whom."""
    call = batch.call.parts[0] if isinstance(batch.call, JointCall) else batch.call
    return (
        *(batch.magic, batch.codec, batch.level, batch.acks),
        *(batch.producer_id, batch.epoch, batch.transaction, batch.needs_idempotence),
        call.chunk.on_ended if isinstance(call, BatchCall) else None,
    )


def _joined(parts: list[OutBatch]) -> OutBatch | None:
    """Return one batch of the same records; None where they fit no batch."""
    data, offset = bytearray(), 0
    for part in parts:
        data += assign_offsets(bytearray(part.data), offset)
        offset += part.records
    first = parts[0]
    reading = ReadOptions(want=int(Want.ALL & ~Want.OFFSETS), max_rows=offset, max_bytes=2**31 - 1)
    chunks = list(decode_columns(bytes(data), first_offset=0, options=reading, where=first.tp))
    if len(chunks) != 1:
        return None
    writing = WriteOptions(
        magic=first.magic,
        codec=first.codec,
        level=first.level,
        max_batch_bytes=2**31 - 1,
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
        base_sequence=first.base_sequence,
        transactional=first.transaction is not None,
    )
    made = encode_batches(chunks[0].columns, None, writing)
    if len(made) != 1 or made[0].records != offset:
        return None
    calls: list[BatchCall] = []
    for part in parts:
        if isinstance(part.call, JointCall):
            calls += part.call.parts
        elif isinstance(part.call, BatchCall):
            calls.append(part.call)
    return dataclasses.replace(
        first,
        data=made[0].data,
        records=offset,
        call=JointCall(calls),
        deadline_ms=min(part.deadline_ms for part in parts),
        timeout_ms=min(part.timeout_ms for part in parts),
        counted=False,
    )
