"""What a broker checks of produced records, in which order, and how it converts them
(ProduceRequest, LogValidator).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parley.devcluster.state.log.appending import NO_BOUND, AppendRules, check_shape, prepare
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.refused import Refused, RefusedRecords
from parley.errors.codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from parley.records import decode_columns, offsets_of, records

WHERE = ("t", 0)
NEWEST = AppendRules(produce_version=11, stored_magic=2, max_message_bytes=1_000_000)
Produce = Callable[..., bytes]


def check(data: bytes | None, rules: AppendRules) -> None:
    check_shape(data, rules)
    prepare(data, rules, now_ms=0, where=WHERE)


def code(data: bytes | None, rules: AppendRules = NEWEST) -> int:
    with pytest.raises(Refused) as caught:
        check(data, rules)
    assert caught.value.message
    return caught.value.code


def test_sound_batches_are_taken_as_they_are(produced: Produce) -> None:
    data = produced(3)
    (one,) = prepare(data, NEWEST, now_ms=0, where=WHERE)
    assert (one.data, one.finish) == (data, None)
    assert one.facts is not None
    assert one.facts.record_count == 3


@pytest.mark.parametrize("empty", [None, b""])
def test_no_records(empty: bytes | None) -> None:
    assert code(empty) == INVALID_RECORD
    assert code(empty, replace(NEWEST, invalid_record_code=CORRUPT_MESSAGE)) == CORRUPT_MESSAGE


def test_any_flipped_byte_is_refused(produced: Produce) -> None:
    data = produced(2)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        if 12 <= at < 16:  # the leader epoch is the broker's to set
            prepare(bytes(broken), NEWEST, now_ms=0, where=WHERE)
        else:  # the base offset is 0 in what producers send [measured]
            assert code(bytes(broken)) in (CORRUPT_MESSAGE, INVALID_RECORD), f"byte {at}"


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [0, 1])
def test_records_too_far_from_the_leaders_time(produced: Produce, magic: int, codec: int) -> None:
    """The times of three records are 1_000, 1_001 and 1_002."""
    data = produced(3, magic=magic, codec=codec)
    version = 11 if magic == 2 else 2
    rules = replace(NEWEST, produce_version=version, stored_magic=magic)
    (chunk,) = decode_columns(data, first_offset=0)
    first_ms = records(chunk.columns)[0].timestamp_ms
    last_ms = records(chunk.columns)[2].timestamp_ms
    for now_ms, bounds, refused in (
        (last_ms, (0, NO_BOUND), last_ms - first_ms),
        (first_ms, (NO_BOUND, 0), last_ms - first_ms),
        (first_ms, (0, NO_BOUND), 0),
        (last_ms, (NO_BOUND, 0), 0),
    ):
        bounded = replace(rules, timestamp_bounds_ms=bounds)
        if not refused:
            prepare(data, bounded, now_ms=now_ms, where=WHERE)
            continue
        with pytest.raises(RefusedRecords) as caught:
            prepare(data, bounded, now_ms=now_ms, where=WHERE)
        assert caught.value.code == INVALID_TIMESTAMP
        assert caught.value.records == ([0, 1] if now_ms == last_ms else [1, 2])
        prepare(data, replace(bounded, log_append_time=True), now_ms=now_ms, where=WHERE)


def test_every_truncation_is_refused(produced: Produce) -> None:
    data = produced(2)
    for kept in range(1, len(data)):
        assert code(data[:kept]) == INVALID_RECORD, "no whole batch"


@pytest.mark.parametrize("magic", [1, 2])
def test_a_tail_that_is_cut_off_is_dropped(produced: Produce, magic: int) -> None:
    whole, tail = produced(1, magic=magic), produced(1, magic=magic)[:-5]
    rules = replace(NEWEST, produce_version=8 if magic == 2 else 2, stored_magic=magic)
    (one,) = prepare(whole + tail, rules, now_ms=0, where=WHERE)
    assert bytes(one.data) == whole
    assert prepare(tail, replace(rules, produce_version=2), now_ms=0, where=WHERE) == []


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("size", [-(2**31), -1, 0, 13])
def test_a_tail_that_cannot_be_a_batch_is_refused_with_what_stands_before_it(
    produced: Produce, magic: int, size: int
) -> None:
    whole = produced(1, magic=magic)
    rules = replace(NEWEST, produce_version=8 if magic == 2 else 2, stored_magic=magic)
    tail = whole[:8] + size.to_bytes(4, "big", signed=True) + whole[12:]
    assert code(whole + tail, rules) == CORRUPT_MESSAGE
    assert code(whole + whole[:16] + b"\x03" + whole[17:], rules) == CORRUPT_MESSAGE
    huge = whole[:8] + (2**31 - 1).to_bytes(4, "big") + whole[12:]
    assert code(huge, rules) == UNKNOWN_SERVER_ERROR, "as brokers, whose sum overflows [measured]"


@pytest.mark.parametrize("base", [-(2**63), -1, 1, 2**63 - 1])
def test_a_batch_of_magic_2_counts_from_0(produced: Produce, base: int) -> None:
    data = base.to_bytes(8, "big", signed=True) + produced(3)[8:]
    assert code(data) == INVALID_RECORD
    assert code(data, replace(NEWEST, invalid_record_code=CORRUPT_MESSAGE)) == CORRUPT_MESSAGE


def test_one_batch_of_magic_2_per_partition_since_v3(produced: Produce) -> None:
    assert code(produced(1) + produced(1)) == INVALID_RECORD
    assert code(produced(1, magic=1)) == INVALID_RECORD
    prepare(produced(1, magic=1), replace(NEWEST, produce_version=2), now_ms=0, where=WHERE)


def test_records_from_the_future_of_an_old_broker(produced: Produce) -> None:
    """aiokafka 0.14 writes magic 2 whatever the broker reads: 0.10 answers
    CORRUPT_MESSAGE [measured].
    """
    rules = replace(NEWEST, produce_version=2, stored_magic=1)
    assert code(produced(1), rules) == CORRUPT_MESSAGE


def test_zstd_needs_produce_7(produced: Produce) -> None:
    data = produced(3, codec=4)
    assert code(data, replace(NEWEST, produce_version=6)) == UNSUPPORTED_COMPRESSION_TYPE
    assert code(data, replace(NEWEST, produce_version=6, knows_zstd=False)) == UNKNOWN_SERVER_ERROR
    prepare(data, replace(NEWEST, produce_version=7), now_ms=0, where=WHERE)


def test_too_large_a_batch(produced: Produce) -> None:
    data = produced(10)
    assert code(data, replace(NEWEST, max_message_bytes=len(data) - 1)) == MESSAGE_TOO_LARGE
    prepare(data, replace(NEWEST, max_message_bytes=len(data)), now_ms=0, where=WHERE)


def test_a_record_set_fits_into_a_segment_as_it_is_stored(produced: Produce) -> None:
    data, messages = produced(3), produced(1, magic=1) + produced(1, magic=1)
    check(data, replace(NEWEST, segment_bytes=len(data)))
    assert code(data, replace(NEWEST, segment_bytes=len(data) - 1)) == RECORD_LIST_TOO_LARGE
    old = AppendRules(produce_version=2, stored_magic=1, max_message_bytes=1_000_000)
    check(messages, replace(old, segment_bytes=len(messages)))
    rules = replace(old, segment_bytes=len(messages) - 1)
    assert code(messages, rules) == RECORD_LIST_TOO_LARGE, "all of them together"
    assert code(b"".join((data, data)), replace(NEWEST, segment_bytes=1)) == INVALID_RECORD


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize(("sent", "kept"), [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])
def test_old_formats_are_stored_in_the_logs_own(
    make_replica: Callable[..., Replica], produced: Produce, sent: int, kept: int, codec: int
) -> None:
    leader = make_replica(1)
    leader.lead(4, (1,))
    rules = replace(NEWEST, produce_version=(1, 2, 8)[sent], stored_magic=kept)
    data = produced(5, magic=sent, codec=codec, timestamp_ms=9_000)
    for _ in range(3):
        leader.append(prepare(data, rules, now_ms=0, where=WHERE), now_ms=0)
    assert leader.log.end_offset == 15
    found = b"".join(bytes(piece) for _, piece in leader.log.batches_from(0))
    assert offsets_of(found) == list(range(15))
    assert {facts.magic for facts, _ in leader.log.batches_from(0)} == {kept}
    chunks = decode_columns(found, first_offset=0)
    rows = [record for chunk in chunks for record in records(chunk.columns)]
    assert [row.value for row in rows] == [bytes([65 + i]) * 20 for i in range(5)] * 3
    assert [row.timestamp_ms for row in rows] == (
        [-1] * 5 if sent == 0 else [9_000 + i for i in range(5)]
    ) * 3


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [0, 1])
def test_log_append_time_replaces_timestamps(
    make_replica: Callable[..., Replica], produced: Produce, magic: int, codec: int
) -> None:
    leader = make_replica(1)
    leader.lead(0, (1,))
    rules = replace(
        NEWEST, produce_version=2 if magic == 1 else 8, stored_magic=magic, log_append_time=True
    )
    leader.append(
        prepare(produced(3, magic=magic, codec=codec), rules, now_ms=77_000, where=WHERE),
        now_ms=77_000,
    )
    found = b"".join(bytes(piece) for _, piece in leader.log.batches_from(0))
    (chunk,) = decode_columns(found, first_offset=0)  # checks the CRC that had to be rewritten
    rows = records(chunk.columns)
    assert [(row.timestamp_ms, row.timestamp_type) for row in rows] == [(77_000, 1)] * 3
    assert leader.log.max_timestamp_ms == 77_000
