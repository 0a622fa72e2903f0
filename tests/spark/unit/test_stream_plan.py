"""How a stream goes on, from one offset to the next: against a cluster in a dictionary."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows, ReadMinRows

from parley.client import (
    TopicPartition,
    format_uuid,
)  # fmt: skip
from parley.errors import ConfigError, DataLossError, broker_error

from .planning import A0, A1, ALL, B0, OLD, FakeClient, ranges, reader


def test_a_new_query_starts_at_the_beginning_and_reads_to_the_end(fake: FakeClient) -> None:
    stream = reader()
    start = stream.initialOffset()
    assert start == {
        "@parley": 1, "@ids": {"a": format_uuid(OLD)}, "@epochs": {"a": {"0": 3, "1": 3}},
        "a": {"0": 0, "1": 0},
    }  # fmt: skip
    end = stream.latestOffset(start, ALL)
    assert end["a"] == {"0": 10, "1": 30}
    assert ranges(stream, start, end) == [("a-0", 0, 10), ("a-1", 0, 30)]
    assert stream.reportLatestOffset() == end


def test_both_questions_for_the_initial_offset_get_one_answer(fake: FakeClient) -> None:
    stream = reader(startingOffsets="latest")
    first = stream.initialOffset()
    fake.logs[A0] = (0, 999)
    assert stream.initialOffset() == first


def test_what_is_written_between_the_questions_of_a_time_is_read(
    fake: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record is as late as asked for, so that the query starts at the end: the
    one of before the look-up.
    """
    ask = fake.list_offsets

    def answered_while_others_write(specs: Any, **options: Any) -> Any:
        answer = ask(specs, **options)
        fake.logs = {tp: (first, end + 7) for tp, (first, end) in fake.logs.items()}
        return answer

    monkeypatch.setattr(fake, "list_offsets", answered_while_others_write)
    stream = reader(startingTimestamp="9", startingOffsetsByTimestampStrategy="latest")
    assert stream.initialOffset()["a"] == {"0": 10, "1": 30}


def test_an_idle_stream_gets_its_own_offset_back_letter_by_letter(fake: FakeClient) -> None:
    stream = reader()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    fake.epoch = 9  # leaders moved, nothing was written
    fake.ids = {}  # and a broker that knows no ids answered
    again = stream.latestOffset(end, ALL)
    assert again == end
    assert list(again) == list(end)
    # written by someone else, in any order
    for text in ({"a": {"1": 30, "0": 10}}, {"a": {"0": 10, "1": 30}}):
        assert list(stream.latestOffset(text, ALL)["a"]) == list(text["a"])


def test_an_idle_stream_asks_for_offsets_only(fake: FakeClient) -> None:
    stream = reader()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    fake.asked.clear()
    stream.latestOffset(end, ALL)
    assert fake.asked == ["offsets"]


def test_a_limit_is_shared_among_partitions(fake: FakeClient) -> None:
    stream = reader(maxOffsetsPerTrigger="20")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(20)
    end = stream.latestOffset(stream.initialOffset(), limit)
    assert end["a"] == {"0": 5, "1": 15}
    assert stream.reportLatestOffset()["a"] == {"0": 10, "1": 30}


def test_the_engine_may_overrule_the_limit(fake: FakeClient) -> None:
    stream = reader(maxOffsetsPerTrigger="20")
    assert stream.latestOffset(stream.initialOffset(), ALL)["a"] == {"0": 10, "1": 30}
    assert reader().getDefaultReadLimit() == ALL


def test_available_now_stops_at_what_was_there_and_says_so(fake: FakeClient) -> None:
    stream = reader(maxOffsetsPerTrigger="30")
    stream.prepareForTriggerAvailableNow()
    position = stream.initialOffset()
    fake.logs = {A0: (0, 1000), A1: (0, 1000), TopicPartition("a", 2): (0, 50)}
    seen = [position]
    for _ in range(5):
        seen.append(stream.latestOffset(seen[-1], ReadMaxRows(30)))
    assert [sum(found["a"].values()) for found in seen] == [0, 30, 40, 40, 40, 40]
    assert "2" not in seen[-1]["a"]
    assert seen[-1] == seen[-2]


def test_available_now_of_a_resumed_query_with_nothing_new_ends_at_once(fake: FakeClient) -> None:
    stream = reader()
    stream.prepareForTriggerAvailableNow()
    start = {"a": {"0": 10, "1": 30}}
    assert stream.latestOffset(start, ALL) == start


def test_a_new_partition_is_read_from_its_beginning(fake: FakeClient) -> None:
    stream = reader(startingOffsets="latest")
    start = stream.initialOffset()
    fake.logs[TopicPartition("a", 2)] = (0, 7)
    stream._driver.planner._asked_at -= 10  # the next discovery is due
    end = stream.latestOffset(start, ALL)
    assert ranges(stream, start, end) == [("a-2", 0, 7)]


def test_a_pattern_finds_new_topics(fake: FakeClient) -> None:
    stream = reader(subscribePattern="[ab]")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    fake.logs[B0] = (0, 5)
    stream._driver.planner._asked_at -= 10
    assert stream.latestOffset(end, ALL)["b"] == {"0": 5}


def test_tasks_are_split_as_asked_and_know_their_history(fake: FakeClient) -> None:
    stream = reader(minPartitions="4")
    start = stream.initialOffset()
    tasks = [part.value for part in stream.partitions(start, stream.latestOffset(start, ALL))]
    parts = [part for task in tasks for part in task]
    assert len(tasks) == len(parts)
    assert [(part.tp, part.start, part.end) for part in parts] == [
        (A0, 0, 10), (A1, 0, 10), (A1, 10, 20), (A1, 20, 30),
    ]  # fmt: skip
    assert {(part.topic_id, part.leader_epoch) for part in parts} == {(format_uuid(OLD), 3)}


def test_a_stream_that_ends_stops_there(fake: FakeClient) -> None:
    stream = reader(endingOffsets='{"a":{"0":7,"1":50}}')
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end["a"] == {"0": 7, "1": 30}
    fake.logs = {A0: (0, 99), A1: (0, 99), TopicPartition("a", 2): (0, 9)}
    stream._driver.planner._asked_at -= 10
    after = stream.latestOffset(end, ALL)
    assert after["a"] == {"0": 7, "1": 50, "2": 0}
    assert stream.latestOffset(after, ALL) == after


def test_a_stream_that_ends_at_a_time_waits_for_a_record_that_late(fake: FakeClient) -> None:
    fake.logs = {A0: (0, 3)}
    fake.times = {A0: [10, 20, 30]}
    stream = reader(endingTimestamp="40")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end["a"] == {"0": 3}
    fake.logs, fake.times = {A0: (0, 6)}, {A0: [10, 20, 30, 35, 40, 50]}
    end = stream.latestOffset(end, ALL)
    assert end["a"] == {"0": 4}
    assert stream.latestOffset(end, ALL) == end


def test_a_batch_waits_for_enough_or_for_long_enough(fake: FakeClient) -> None:
    stream = reader(minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    now = [1_000]
    stream._driver.planner.now_ms = lambda: now[0]
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    end = stream.latestOffset(stream.initialOffset(), limit)
    fake.logs[A0] = (0, 14)
    assert stream.latestOffset(end, limit) == end
    fake.logs[A0] = (0, 15)
    end = stream.latestOffset(end, limit)
    assert end["a"] == {"0": 15, "1": 30}
    fake.logs[A0] = (0, 16)
    now[0] += 10_000
    assert stream.latestOffset(end, limit) == end
    now[0] += 1
    assert stream.latestOffset(end, limit)["a"] == {"0": 16, "1": 30}


def test_a_run_that_ends_by_itself_does_not_wait_for_enough(fake: FakeClient) -> None:
    stream = reader(minOffsetsPerTrigger="5")
    stream.prepareForTriggerAvailableNow()
    start = {"a": {"0": 9, "1": 29}}
    for _ in range(2):
        assert stream.latestOffset(start, stream.getDefaultReadLimit())["a"] == {"0": 10, "1": 30}


def test_a_limit_in_bytes_looks_at_what_is_next(fake: FakeClient) -> None:
    fake.logs = {A0: (0, 100), A1: (0, 100)}
    fake.record_bytes = {A0: 1000, A1: 100}
    stream = reader(maxBytesPerTrigger="11000")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxBytes(11000)
    end = stream.latestOffset(stream.initialOffset(), limit)
    assert all(8 <= end["a"][number] <= 10 for number in ("0", "1"))
    both = reader(maxBytesPerTrigger="11000", maxOffsetsPerTrigger="6")
    assert both.latestOffset(both.initialOffset(), both.getDefaultReadLimit())["a"] == {
        "0": 3,
        "1": 3,
    }


def test_progress_is_committed_to_a_group_once_it_is_made(fake: FakeClient) -> None:
    stream = reader(commitToGroup="watchers")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert fake.commits == [{A0: 0, A1: 0}]
    stream.latestOffset(end, ALL)
    stream.commit(end)
    assert fake.commits[1:] == [{A0: 10, A1: 30}]


def test_a_group_that_refuses_commits_is_no_reason_to_fail(
    fake: FakeClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(group: str, offsets: Any) -> None:
        fake.asked.append("commit")
        raise broker_error(30)

    monkeypatch.setattr(fake, "commit_offsets", refuse)
    stream = reader(commitToGroup="watchers")
    start = stream.initialOffset()
    now = [0]
    stream._driver.planner.now_ms = lambda: now[0]
    with caplog.at_level(logging.WARNING, "parley.spark"):
        for now[0] in (0, 10_000, 29_999, 30_000):
            stream.latestOffset(start, ALL)
    assert fake.asked.count("commit") == 2
    assert len(caplog.records) == 1
    assert "watchers" in caplog.text


def test_a_query_starts_where_a_group_is(fake: FakeClient) -> None:
    fake.committed = {A0: 4}
    group = {"kafka.group.id": "g"}
    assert reader(startingOffsets="committed-or-latest", **group).initialOffset()["a"] == {
        "0": 4,
        "1": 30,
    }
    with pytest.raises(ConfigError, match='group "g" has committed nothing for a-1'):
        reader(startingOffsets="committed", **group).initialOffset()
    fake.committed[A1] = 40
    with pytest.raises(DataLossError, match="log of a-1 ends at 30, before offset 40"):
        reader(startingOffsets="committed", **group).initialOffset()


def test_a_query_starts_a_while_ago_or_so_many_offsets_before_the_end(fake: FakeClient) -> None:
    assert reader(startingOffsets="-20 offsets").initialOffset()["a"] == {"0": 0, "1": 10}
    fake.times = {A0: list(range(0, 1000, 100))}  # a-1 has nothing that late
    stream = reader(startingOffsets="-300 ms")
    stream._driver.planner.now_ms = lambda: 1_000
    assert stream.initialOffset()["a"] == {"0": 7, "1": 30}


def test_lag_is_reported_in_records_bytes_and_time(fake: FakeClient) -> None:
    fake.times = {A0: [400] * 10, A1: [700] * 30}
    stream = reader(reportLag="true", maxOffsetsPerTrigger="20")
    stream._driver.planner.now_ms = lambda: 1_000
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    lag = stream.reportLatestOffset()["@lag"]
    assert (lag["records"], lag["ms"]) == (40, 600)
    assert 3500 <= lag["bytes"] <= 5000
    stream.latestOffset(end, stream.getDefaultReadLimit())
    assert stream.reportLatestOffset()["@lag"]["records"] == 20


def test_nothing_of_the_drivers_state_travels(fake: FakeClient) -> None:
    stream = reader()
    stream.latestOffset(stream.initialOffset(), ALL)
    copy = pickle.loads(pickle.dumps(stream))
    assert copy._state is None
    assert copy._options == stream._options
