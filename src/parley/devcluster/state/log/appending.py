"""From the bytes of a Produce request to record sets that a log may take: checks and conversion.

Rules of this file:
1. The order of the checks is the broker's (ProduceRequest.validateRecords, then the log's own),
   since the first that fails decides the error code.
2. The bytes of magic 2 are taken as they came; only what the CRC does not cover is changed later.
3. A set is stored whole or refused. Only a batch at its end that is cut off is dropped, as brokers
   do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parley.devcluster.state.log.batches import MAGIC_AT, BatchFacts, Bytes, receive, walk
from parley.devcluster.state.log.replica import Prepared
from parley.devcluster.state.refused import Refused, RefusedRecords
from parley.errors import CorruptRecordError, UnsupportedVersionError
from parley.errors.codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from parley.records import (
    KernelErrorKind,
    Wrapper,
    assign_offsets,
    check_batch,
    convert,
    keyless_records,
    kind_of,
    number_messages,
    records_outside,
)

NO_BOUND = 2**63 - 1
CODEC_ZSTD = 4
FIRST_ZSTD_VERSION = 7  # of Produce (KIP-110)
FIRST_BATCH_VERSION = 3  # of Produce: exactly one batch of magic 2 (KIP-98)


@dataclass(frozen=True, slots=True)
class MessageSetRules:
    """What a release demands of sets of magic 0 and 1. All of it is measured on real brokers.

    `checks_wrappers`: a compressed message of magic 1 must not have an offset below that of the
    last message in it, unless it is 0 (since 0.11). `counts_inner`: those in it must be counted
    from 0 (2.4 alone). `alone`: a compressed message stands alone, and formats are not mixed (since
    2.4).
    """

    checks_wrappers: bool = True
    counts_inner: bool = False
    alone: bool = True


NEWEST_MESSAGE_SETS = MessageSetRules()


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What decides whether a record set may be appended, and how it is stored.

    `knows_zstd`: a release before 2.1 takes codec 4 for a fault of its own (UNKNOWN_SERVER_ERROR).
    `message_sets`: what it demands of sets of magic 0 and 1. `demands_keys`: the topic is
    compacted. `segment_bytes`: what is larger fits into no segment. `timestamp_bounds_ms`: how far
    before and after the leader's time producers may date records.
    """

    produce_version: int
    stored_magic: int
    max_message_bytes: int
    log_append_time: bool = False
    invalid_record_code: int = INVALID_RECORD
    knows_zstd: bool = True
    message_sets: MessageSetRules = NEWEST_MESSAGE_SETS
    demands_keys: bool = False
    segment_bytes: int = NO_BOUND
    timestamp_bounds_ms: tuple[int, int] = (NO_BOUND, NO_BOUND)


def check_shape(data: Bytes | None, rules: AppendRules) -> None:
    """Check what is checked before the partition is even looked up. Raises Refused."""
    if rules.produce_version < FIRST_BATCH_VERSION:
        return
    received = receive(data, most=2)
    headers = received.headers
    if received.fault is not None:
        raise Refused(received.fault.code, received.fault.why)
    if len(headers) != 1 or headers[0].magic != 2:
        raise Refused(
            rules.invalid_record_code,
            f"Produce requests with version {rules.produce_version} must hold exactly one "
            "record batch of magic 2",
        )
    if (
        rules.knows_zstd
        and headers[0].codec == CODEC_ZSTD
        and rules.produce_version < FIRST_ZSTD_VERSION
    ):
        raise Refused(
            UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {rules.produce_version} are not allowed to use "
            "ZStandard compression",
        )


def prepare(
    data: Bytes | None, rules: AppendRules, *, now_ms: int, where: tuple[str, int]
) -> list[Prepared]:
    """Check a partition's records and return them ready for `Replica.append`. Raises Refused.

    Returns nothing for a record set that is only the start of a batch: brokers drop what is cut
    off.
    """
    received = receive(data)
    headers = received.headers
    if received.fault is not None:
        raise Refused(received.fault.code, received.fault.why)
    if data is None or not headers:
        return []
    _check_headers(headers, rules, where)
    own: Bytes = memoryview(data)[: received.end]
    try:
        if headers[0].magic < 2:
            own = _numbered(own, headers, rules, where)
        newest_ms = check_batch(own, where=where).max_timestamp_ms
    except CorruptRecordError as error:
        raise Refused(_code_of(error, rules), str(error)) from error
    _check_records(own, rules, now_ms, newest_ms, where)
    made = _made(own, headers, rules, now_ms, where)
    size = sum(len(one.data) for one in made)
    if size > rules.segment_bytes:
        raise Refused(
            RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {where[0]}-{where[1]}, "
            f"which exceeds the maximum configured segment size of {rules.segment_bytes}.",
        )
    return made


def _made(
    own: Bytes, headers: list[BatchFacts], rules: AppendRules, now_ms: int, where: tuple[str, int]
) -> list[Prepared]:
    """Return a checked record set as the log stores it."""
    stamp = now_ms if rules.log_append_time else None
    magic = own[MAGIC_AT]
    if magic != rules.stored_magic:
        return _converted(own, rules, stamp, where)
    if magic == 2:
        return [Prepared(own, headers[0], None if stamp is None else finisher(own, stamp))]
    return [Prepared(own, None, finisher(own, stamp))]


def _check_headers(headers: list[BatchFacts], rules: AppendRules, where: tuple[str, int]) -> None:
    name = f"{where[0]}-{where[1]}"
    first = headers[0]
    if first.magic > rules.stored_magic:
        # An older release takes the newer header for a message with a wrong CRC (aiokafka at 0.10).
        raise Refused(
            CORRUPT_MESSAGE,
            f"records of magic {first.magic} for {name} are from the broker's future",
        )
    if first.codec > CODEC_ZSTD or (first.codec == CODEC_ZSTD and not rules.knows_zstd):
        raise Refused(UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {first.codec}")
    largest = max(facts.size for facts in headers)
    if largest > rules.max_message_bytes:
        raise Refused(
            MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {name} is {largest} bytes which "
            f"exceeds the maximum configured value of {rules.max_message_bytes}.",
        )
    if first.magic == 2 and (first.base_offset != 0 or first.last_offset < 0):
        raise Refused(
            rules.invalid_record_code,
            f"the offsets of a batch for {name} begin at {first.base_offset}, not at 0",
        )
    if first.magic < 2 and rules.message_sets.alone and _is_mixed(headers):
        raise Refused(
            rules.invalid_record_code,
            f"a set of messages for {name} mixes formats, or has more than a compressed one",
        )


def _check_records(
    data: Bytes, rules: AppendRules, now_ms: int, newest_ms: int, where: tuple[str, int]
) -> None:
    """Raise RefusedRecords for those without the key, or with a time, that the topic demands."""
    name = f"{where[0]}-{where[1]}"
    keyless = keyless_records(data) if rules.demands_keys else []
    before_ms, after_ms = rules.timestamp_bounds_ms
    is_bounded = before_ms != NO_BOUND or newest_ms > now_ms + after_ms
    if is_bounded and not rules.log_append_time:
        outside = records_outside(data, now_ms - before_ms, now_ms + after_ms)
        if late := set(outside).difference(keyless):
            text = f"Timestamps of records for {name} are out of the range that the topic allows."
            raise RefusedRecords(INVALID_TIMESTAMP, text, sorted({*late, *keyless}))
    if keyless:
        raise RefusedRecords(
            rules.invalid_record_code,
            f"Compacted topic cannot accept message without key in topic partition {name}.",
            keyless,
        )


def _is_mixed(headers: list[BatchFacts]) -> bool:
    return len(headers) > 1 and any(
        facts.codec or facts.magic != headers[0].magic for facts in headers
    )


def _numbered(
    data: Bytes, headers: list[BatchFacts], rules: AppendRules, where: tuple[str, int]
) -> Bytes:
    """Return messages that count from 0. Raises Refused where a release demands other offsets."""
    numbered, wrappers = number_messages(data, (facts.size for facts in headers), where)
    for wrapper in wrappers:
        if wrapper.magic == 1 and not _has_good_offsets(wrapper, rules.message_sets):
            raise Refused(
                rules.invalid_record_code,
                f"a compressed message for {where[0]}-{where[1]} with the offset {wrapper.offset} "
                f"holds messages up to {wrapper.last_inner}",
            )
    return numbered


def _has_good_offsets(wrapper: Wrapper, rules: MessageSetRules) -> bool:
    behind = wrapper.offset - wrapper.last_inner if wrapper.offset else 0
    if rules.checks_wrappers and behind < 0:
        return False
    return not rules.counts_inner or (wrapper.counted and behind + wrapper.first_inner == 0)


def _code_of(error: CorruptRecordError, rules: AppendRules) -> int:
    """Return what brokers answer for a batch that is whole, but cannot be read [measured]."""
    kind = kind_of(error)
    if kind in (KernelErrorKind.CRC, KernelErrorKind.MAGIC, KernelErrorKind.TOO_LARGE):
        return CORRUPT_MESSAGE
    if kind is KernelErrorKind.COMPRESSED:
        return UNKNOWN_SERVER_ERROR
    return rules.invalid_record_code


def finisher(data: Bytes, stamp: int | None) -> Callable[[int, int], Bytes]:
    """Return what gives a record set its final offsets, and the leader's time unless None."""

    def finish(base_offset: int, leader_epoch: int) -> Bytes:
        final = assign_offsets(bytearray(data), base_offset, leader_epoch, stamp)
        return final if isinstance(final, Bytes) else bytes(final)

    return finish


def _converted(
    data: Bytes, rules: AppendRules, stamp: int | None, where: tuple[str, int]
) -> list[Prepared]:
    """Write the records in the log's format, as brokers do for older producers."""
    try:
        stored = convert(data, rules.stored_magic, upward=True, where=where)
    except UnsupportedVersionError as error:
        raise Refused(UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    except CorruptRecordError as error:
        raise Refused(CORRUPT_MESSAGE, str(error)) from error
    if rules.stored_magic < 2:
        return [Prepared(stored, None, finisher(stored, stamp))]
    view = memoryview(stored)
    pieces = [(view[at : at + facts.size], facts) for at, facts in walk(stored)]
    return [
        Prepared(piece, facts, None if stamp is None else finisher(piece, stamp))
        for piece, facts in pieces
    ]
