"""Encoded batches rewritten: halved, in another format, under new sequences. In a thread."""

from __future__ import annotations

import dataclasses

from parley.client.produce.sequences import PartitionSequences
from parley.client.produce.state import OutBatch
from parley.errors import UnsupportedVersionError
from parley.records import (
    Buffer,
    ReadOptions,
    Want,
    WriteOptions,
    convert,
    decode_columns,
    encode_batches,
    split,
    stamp_producer,
)


def rebatch(todo: list[OutBatch], numbers: PartitionSequences | None) -> list[list[OutBatch]]:
    """Return what each batch becomes. The given batches and their bytes are left as they are.

    With `numbers` all of them are stamped again, in order. Mutates: `numbers`. Raises
    UnsupportedVersionError where a format cannot hold what is in a batch.
    """
    made = []
    for batch in todo:
        if batch.convert_to is not None:
            pieces = _converted(batch, batch.convert_to)
        elif batch.must_split:
            pieces = _halves(batch)
        else:
            pieces = [batch]
        if numbers is not None:
            pieces = [_stamped(piece, numbers) if piece.magic == 2 else piece for piece in pieces]
        made.append(pieces)
    return made


def _halves(batch: OutBatch) -> list[OutBatch]:
    """Return a batch that was too large as two, which share its sequences between them."""
    writing = WriteOptions(
        magic=batch.magic,
        codec=batch.codec,
        max_records=max(1, (batch.records + 1) // 2),
        max_batch_bytes=2**31 - 1,
        producer_id=batch.producer_id,
        producer_epoch=batch.epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.transaction is not None,
    )
    pieces: list[OutBatch] = []
    sequence = batch.base_sequence
    reading = ReadOptions(
        want=int(Want.ALL & ~Want.OFFSETS), max_rows=2**31 - 1, max_bytes=2**31 - 1
    )
    for chunk in decode_columns(batch.data, first_offset=0, options=reading, where=batch.tp):
        for encoded in encode_batches(
            chunk.columns, None, dataclasses.replace(writing, base_sequence=sequence)
        ):
            pieces.append(
                _piece(batch, len(pieces), encoded.data, encoded.records, batch.magic, sequence)
            )
            if sequence >= 0:
                sequence = (sequence + encoded.records) & 0x7FFFFFFF
    return pieces


def _converted(batch: OutBatch, magic: int) -> list[OutBatch]:
    """Return a batch in another format: its partition is led by a broker of another release now."""
    if magic < 2 and batch.transaction is not None:
        raise UnsupportedVersionError(
            f"{batch.tp} is led by a broker that has no transactions now (Kafka 0.11 has)",
            api="PRODUCE",
            feature="exactly-once",
            first_release="0.11.0",
        )
    if magic < 2:
        for chunk in decode_columns(
            batch.data, first_offset=0, options=ReadOptions(want=int(Want.HEADERS))
        ):
            if chunk.columns.headers is not None and chunk.columns.headers.count:
                raise UnsupportedVersionError(
                    f"{batch.tp} is led by a broker that takes no record headers now (Kafka "
                    "0.11 does)",
                    api="PRODUCE",
                    feature="record-headers",
                    first_release="0.11.0",
                )
    data = convert(batch.data, magic, upward=True, where=batch.tp)
    if magic < 2:
        plain = dataclasses.replace(batch, producer_id=-1, epoch=-1, base_sequence=-1)
        return [_piece(plain, 0, data, batch.records, magic, -1)]
    view = memoryview(data)
    return [
        _piece(batch, index, view[found.start : found.end], found.record_count, magic, -1)
        for index, found in enumerate(split(data, batch.tp))
    ]


def _stamped(batch: OutBatch, numbers: PartitionSequences) -> OutBatch:
    data = bytearray(batch.data)
    sequence = numbers.reserve(batch.records)
    stamp_producer(data, numbers.producer_id, numbers.epoch, sequence, transactional=False)
    return dataclasses.replace(
        batch,
        data=data,
        producer_id=numbers.producer_id,
        epoch=numbers.epoch,
        base_sequence=sequence,
        maybe_in=None,
        counted=False,
    )


def _piece(
    batch: OutBatch, index: int, data: Buffer, records: int, magic: int, sequence: int
) -> OutBatch:
    return dataclasses.replace(
        batch,
        data=data,
        records=records,
        magic=magic,
        base_sequence=sequence,
        serial=(*batch.serial, index),
        must_split=False,
        convert_to=None,
        counted=False,
    )
