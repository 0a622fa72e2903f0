"""From the bytes of a Produce request to record sets that a log may take: checks and conversion.

Rules of this file:
1. The order of the checks is the broker's (ProduceRequest.validateRecords, then the log's own), since
   the first that fails decides the error code.
2. The bytes of magic 2 are taken as they came; only what the CRC does not cover is changed later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parley.devcluster.state.batches import BatchFacts, Bytes, walk
from parley.devcluster.state.codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
    Refused,
)
from parley.devcluster.state.replica import Prepared
from parley.errors import CorruptRecordError, UnsupportedVersionError
from parley.records import assign_offsets, check_batch, convert

CODEC_ZSTD = 4
FIRST_ZSTD_VERSION = 7  # of Produce (KIP-110)
FIRST_BATCH_VERSION = 3  # of Produce: exactly one batch of magic 2 (KIP-98)


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What decides whether a record set may be appended, and how it is stored.

    `knows_zstd`: a release before 2.1 takes codec 4 for a fault of its own (UNKNOWN_SERVER_ERROR).
    """

    produce_version: int
    stored_magic: int
    max_message_bytes: int
    log_append_time: bool = False
    invalid_record_code: int = INVALID_RECORD
    knows_zstd: bool = True


def check_shape(data: Bytes | None, rules: AppendRules) -> None:
    """Check what is checked before the partition is even looked up. Raises Refused."""
    if rules.produce_version < FIRST_BATCH_VERSION:
        return
    headers = [] if data is None else [facts for _, facts in walk(data)]
    if len(headers) != 1 or headers[0].magic != 2:
        raise Refused(
            rules.invalid_record_code,
            f"Produce requests with version {rules.produce_version} must hold exactly one record batch of magic 2",
        )
    if rules.knows_zstd and headers[0].codec == CODEC_ZSTD and rules.produce_version < FIRST_ZSTD_VERSION:
        raise Refused(
            UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {rules.produce_version} are not allowed to use ZStandard compression",
        )


def prepare(data: Bytes | None, rules: AppendRules, *, now_ms: int, where: tuple[str, int]) -> list[Prepared]:
    """Check a partition's records and return them ready for `Replica.append`. Raises Refused.

    Returns nothing for a record set without a whole message: brokers drop a tail that is cut off.
    """
    headers = [] if data is None else [facts for _, facts in walk(data)]
    if data is None or not headers:
        return []
    data = memoryview(data)[: sum(facts.size for facts in headers)]
    _check_headers(headers, rules, where)
    try:
        check_batch(data, where=where)
    except CorruptRecordError as error:
        # With a cause it is the kernel's finding (CRC, a record that does not parse); without, the
        # batch is whole but not what a producer may send.
        code = CORRUPT_MESSAGE if error.__cause__ is not None else rules.invalid_record_code
        raise Refused(code, str(error)) from error
    stamp = now_ms if rules.log_append_time else None
    if headers[0].magic != rules.stored_magic:
        return _converted(data, rules, stamp, where)
    if headers[0].magic == 2:
        return [Prepared(data, headers[0], None if stamp is None else _finisher(data, stamp))]
    return [Prepared(data, None, _finisher(data, stamp))]


def _check_headers(headers: list[BatchFacts], rules: AppendRules, where: tuple[str, int]) -> None:
    name = f"{where[0]}-{where[1]}"
    if headers[0].magic > rules.stored_magic:
        # An older release takes the newer header for a message with a wrong CRC (aiokafka at 0.10).
        raise Refused(CORRUPT_MESSAGE, f"records of magic {headers[0].magic} for {name} are from the broker's future")
    if headers[0].codec == CODEC_ZSTD and not rules.knows_zstd:
        raise Refused(UNKNOWN_SERVER_ERROR, "Unknown compression type id: 4")
    largest = max(facts.size for facts in headers)
    if largest > rules.max_message_bytes:
        raise Refused(
            MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {name} is {largest} bytes which exceeds the maximum "
            f"configured value of {rules.max_message_bytes}.",
        )


def _finisher(data: Bytes, stamp: int | None) -> Callable[[int, int], Bytes]:
    def finish(base_offset: int, leader_epoch: int) -> Bytes:
        final = assign_offsets(bytearray(data), base_offset, leader_epoch, stamp)
        return final if isinstance(final, Bytes) else bytes(final)

    return finish


def _converted(data: Bytes, rules: AppendRules, stamp: int | None, where: tuple[str, int]) -> list[Prepared]:
    """Write the records in the log's own format, as a broker does for producers older than itself."""
    try:
        stored = convert(data, rules.stored_magic, upward=True, where=where)
    except UnsupportedVersionError as error:
        raise Refused(UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    except CorruptRecordError as error:
        raise Refused(CORRUPT_MESSAGE, str(error)) from error
    if rules.stored_magic < 2:
        return [Prepared(stored, None, _finisher(stored, stamp))]
    view = memoryview(stored)
    pieces = [(view[at : at + facts.size], facts) for at, facts in walk(stored)]
    return [Prepared(piece, facts, None if stamp is None else _finisher(piece, stamp)) for piece, facts in pieces]
