"""Fetch requests in every version, answers by name and by id, and where an answer ends."""

import random

import pytest

from parley.client.fetch.wire import (
    MOST_EPOCHS,
    FetchTarget,
    allowed_versions,
    fetch_request,
    find_tails,
    read_fetch,
)
from parley.client.options.client_options import FetchOptions
from parley.messages import FetchResponse, decode_request, encode_request, encode_response
from parley.records import Record, WriteOptions, columns_from_records, encode_batches, split
from parley.records.append import assign_offsets
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import VersionRange
from parley_laboratory.hostile import record_shapes

ID = b"i" * 16
TP0, TP1, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def log_bytes(rng, entries):
    """Bytes as a log holds them: `entries` are (magic, codec, records)."""
    data, offset = b"", rng.randrange(1000)
    for magic, codec, count in entries:
        rows = [Record(-1, 1000 + i, 0, b"k", b"v" * rng.randrange(20), ()) for i in range(count)]
        options = WriteOptions(magic=magic, codec=codec)
        for batch in encode_batches(columns_from_records(rows, with_offsets=False), None, options):
            placed = assign_offsets(bytearray(batch.data), offset, leader_epoch=rng.randrange(9))
            data += bytes(placed)
            offset += batch.records
    return data


@pytest.mark.parametrize("version", range(19))
def test_a_request_can_be_written_in_every_version_and_says_what_was_asked(version):
    targets = [
        FetchTarget(TP0, 5, 1000, 3, ID),
        FetchTarget(TP1, 6, 2000, -1, ID),
        FetchTarget(OTHER, 7, 1, 2, b"u" * 16),
    ]
    options = FetchOptions(fetch_min_bytes=2, fetch_max_bytes=3, fetch_max_wait_ms=4)
    frame = b"".join(
        bytes(part) for part in encode_request(fetch_request(targets, options), version, 1, "c")
    )
    header, message = decode_request(memoryview(frame))
    assert header.api_version == version
    assert (message.min_bytes, message.max_wait_ms) == (2, 4)
    if version >= 3:
        assert message.max_bytes == 3
    if version >= 7:
        assert (message.session_id, message.session_epoch) == (0, -1)
    found = [
        (
            topic.topic if version < 13 else bytes(topic.topic_id),
            part.partition,
            part.fetch_offset,
            part.partition_max_bytes,
        )
        for topic in message.topics
        for part in topic.partitions
    ]
    names = ("t", "u") if version < 13 else (ID, b"u" * 16)
    assert found == [(names[0], 0, 5, 1000), (names[0], 1, 6, 2000), (names[1], 0, 7, 1)]
    if version >= 9:
        assert [p.current_leader_epoch for t in message.topics for p in t.partitions] == [3, -1, 2]


def test_versions_by_id_need_every_id():
    assert allowed_versions([FetchTarget(TP0, 0, 1, -1, ID)], FetchOptions()).max > 12
    mixed = [FetchTarget(TP0, 0, 1, -1, ID), FetchTarget(OTHER, 0, 1, -1, ZERO_UUID)]
    assert allowed_versions(mixed, FetchOptions()) == VersionRange(0, 12)
    committed = FetchOptions(isolation_level="read_committed")
    assert allowed_versions(mixed, committed) == VersionRange(4, 12)


@pytest.mark.parametrize("version", [0, 4, 5, 11, 12, 13, 16, 18])
def test_answers_are_found_by_name_or_by_id_and_strangers_left_out(version):
    by_id = version >= 13
    data = FetchResponse.PartitionData

    def topic(name, topic_id, *parts):
        return FetchResponse.FetchableTopicResponse(
            **({"topic_id": topic_id} if by_id else {"topic": name}), partitions=list(parts)
        )

    aborted = (
        [FetchResponse.AbortedTransaction(producer_id=7, first_offset=3)] if version >= 4 else None
    )
    response = FetchResponse(
        responses=[
            topic(
                "t",
                ID,
                data(
                    partition_index=0, high_watermark=9, records=b"xy", aborted_transactions=aborted
                ),
            ),
            topic("t", ID, data(partition_index=5, high_watermark=9, records=b"no")),
            topic("stranger", b"s" * 16, data(partition_index=0, high_watermark=9, records=b"no")),
            topic(
                "u",
                b"u" * 16,
                data(partition_index=0, error_code=6, high_watermark=-1, records=None),
            ),
        ]
    )
    from parley.messages import decode_response

    frame = b"".join(bytes(part) for part in encode_response(response, version, 1))
    _, message = decode_response(1, version, memoryview(frame))
    targets = [FetchTarget(TP0, 0, 1, -1, ID), FetchTarget(OTHER, 0, 1, -1, b"u" * 16)]
    answers = {answer.tp: answer for answer in read_fetch(message, version, targets)}
    assert set(answers) == {TP0, OTHER}
    assert bytes(answers[TP0].records) == b"xy"
    assert answers[TP0].high_watermark == 9
    assert answers[TP0].aborted == (((7, 3),) if version >= 4 else ())
    assert answers[OTHER].error_code == 6


@pytest.mark.parametrize("seed", range(60))
def test_the_tail_is_where_splitting_the_whole_ends(seed):
    """Oracle: `records.split`, which reads everything in each header."""
    rng = random.Random(seed)
    entries = [
        (rng.choice((0, 1, 2, 2, 2)), rng.choice((0, 0, 1)), rng.randrange(1, 6))
        for _ in range(rng.randrange(1, 7))
    ]
    data = log_bytes(rng, entries)
    cuts = {0, 1, len(data), *(rng.randrange(len(data) + 1) for _ in range(20))}
    for cut in cuts:
        piece = memoryview(data)[:cut]
        batches = split(piece)
        tail = find_tails([piece])[0]
        if batches:
            assert (tail.next_offset, tail.whole_bytes) == (
                batches[-1].next_offset,
                batches[-1].end,
            )
            assert tail.leader_epoch == (batches[-1].leader_epoch if batches[-1].magic == 2 else -1)
        else:
            assert (tail.next_offset, tail.whole_bytes) == (-1, 0)


@pytest.mark.parametrize("seed", range(40))
def test_the_tail_reports_where_each_leader_epoch_ends(seed):
    rng = random.Random(seed)
    data = bytearray(
        log_bytes(rng, [(2, rng.choice((0, 1)), rng.randrange(1, 4)) for _ in range(6)])
    )
    epochs = sorted(rng.choice(range(-1, rng.randrange(4))) for _ in range(6))
    expected: dict[int, int] = {}
    for batch, epoch in zip(split(data), epochs, strict=True):
        data[batch.start + 12 : batch.start + 16] = epoch.to_bytes(4, "big", signed=True)
        expected.pop(epoch, None)
        expected[epoch] = batch.next_offset
    tail = find_tails([memoryview(data)])[0]
    assert tail.epochs == tuple((offset, epoch) for epoch, offset in expected.items())
    assert tail.leader_epoch == epochs[-1]


def test_a_tail_follows_so_many_epochs_and_no_more():
    """What lies behind them is fetched again; nobody keeps a list as long as the answer."""
    one = record_shapes.batches_of_two_epochs(2 * MOST_EPOCHS * 68).data
    tail = find_tails([memoryview(one)])[0]
    assert (tail.next_offset, tail.whole_bytes, len(tail.epochs)) == (
        MOST_EPOCHS,
        MOST_EPOCHS * 68,
        MOST_EPOCHS,
    )


def test_damaged_bytes_end_the_tail_and_never_raise():
    rng = random.Random(3)
    whole = log_bytes(rng, [(2, 0, 3), (1, 0, 2), (2, 1, 4)])
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        tail = find_tails([memoryview(data)])[0]
        assert 0 <= tail.whole_bytes <= len(data)
        assert tail.next_offset >= -1
