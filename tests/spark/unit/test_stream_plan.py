"""How a stream goes on, and what it says when something is gone: against a cluster in a dictionary."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from parley.client import (
    EARLIEST,
    ClusterMetadata,
    EpochEndOffset,
    FetchedBatch,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionMetadata,
    Timestamp,
    TopicMetadata,
    TopicPartition,
    format_uuid,
)  # fmt: skip
from parley.errors import ConfigError, DataLossError, broker_error
from parley.spark import planner as planner_module
from parley.spark import stream_driver as driver_module
from parley.spark.options import Use
from parley.spark.source_options import read_source_options
from parley.spark.stream import StreamReader

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"


@dataclass
class FakeClient:
    """A cluster as far as planning sees it. `logs` holds first and next offset of each partition."""

    logs: dict[TopicPartition, tuple[int, int]]
    ids: dict[str, bytes] = field(default_factory=dict)
    epoch: int = 3
    asked: list[str] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the epochs of positions end, by partition, where that is before the log's end."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    commits: list[dict[TopicPartition, int]] = field(default_factory=list)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Timestamps of the records of a partition, by offset."""
    record_bytes: dict[TopicPartition, int] = field(default_factory=dict)

    def metadata(self, topics: tuple[str, ...] | None = None) -> ClusterMetadata:
        self.asked.append("metadata")
        there = {tp.topic for tp in self.logs}
        for name in topics or ():
            if name not in there:
                raise broker_error(3, topic=name)
        found = {}
        for name in there if topics is None else topics:
            numbers = [tp.partition for tp in self.logs if tp.topic == name]
            parts = {number: PartitionMetadata(number, 1, self.epoch) for number in numbers}
            found[name] = TopicMetadata(name, parts, self.ids.get(name, bytes(16)))
        return ClusterMetadata(topics=found)

    def list_offsets(self, specs: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, OffsetAndTimestamp]:
        self.asked.append("offsets")
        for tp in specs:
            if tp not in self.logs:
                raise broker_error(3, topic=tp.topic, partition=tp.partition)
        return {tp: OffsetAndTimestamp(self._offset(tp, spec), leader_epoch=self.epoch) for tp, spec in specs.items()}

    def _offset(self, tp: TopicPartition, spec: Any) -> int:
        if isinstance(spec, Timestamp):
            late = [offset for offset, ms in enumerate(self.times.get(tp, [])) if ms >= spec.ms]
            return late[0] if late else -1
        return self.logs[tp][0 if spec == EARLIEST else 1]

    def offsets_for_leader_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEndOffset]:
        self.asked.append("epochs")
        return {tp: EpochEndOffset(epoch, self.ends.get(tp, self.logs[tp][1])) for tp, epoch in epochs.items()}

    def committed_offsets(
        self, group: str, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        found = {tp: self.committed.get(tp) for tp in partitions}
        return {tp: None if offset is None else OffsetAndMetadata(offset) for tp, offset in found.items()}

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits.append({tp: found.offset for tp, found in offsets.items()})

    def fetch_many(self, ranges: Mapping[TopicPartition, Any], options: Any) -> Iterator[FetchedBatch]:
        self.asked.append("fetch")
        for tp, wanted in ranges.items():
            value = bytes(self.record_bytes.get(tp, 100) - 24)
            rows = {"value": [value], "timestamp": pa.array([self.times.get(tp, [5] * 99)[wanted.start]], pa.int64())}
            yield FetchedBatch(tp, pa.record_batch(rows), wanted.start + 1, self.epoch)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    found = FakeClient({A0: (0, 10), A1: (0, 30)}, {"a": OLD})
    for module in (planner_module, driver_module):
        monkeypatch.setattr(module, "client_for", lambda options: found)
    return found


def reader(**options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingOffsets": "earliest", **options}
    if "subscribePattern" in given:
        del given["subscribe"]
    return StreamReader(read_source_options(given, Use.STREAM_READ), None)


ALL = ReadAllAvailable()


def ranges(found: StreamReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    return [(str(part.value.tp), part.value.start, part.value.end) for part in found.partitions(start, end)]


def test_a_new_query_starts_at_the_beginning_and_reads_to_the_end(fake: FakeClient) -> None:
    stream = reader()
    start = stream.initialOffset()
    assert start == {
        "@parley": 1, "@ids": {"a": format_uuid(OLD)}, "@epochs": {"a": {"0": 3, "1": 3}}, "a": {"0": 0, "1": 0},
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


def test_an_idle_stream_gets_its_own_offset_back_letter_by_letter(fake: FakeClient) -> None:
    stream = reader()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    fake.epoch = 9  # leaders moved, nothing was written
    fake.ids = {}  # and a broker that knows no ids answered
    again = stream.latestOffset(end, ALL)
    assert again == end
    assert list(again) == list(end)
    for text in ({"a": {"1": 30, "0": 10}}, {"a": {"0": 10, "1": 30}}):  # written by someone else, in any order
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


def test_a_new_partition_that_lost_its_front_is_reported(fake: FakeClient) -> None:
    stream = reader(startingOffsets="latest")
    start = stream.initialOffset()
    end = {"a": {**start["a"], "2": 7}}
    fake.logs[TopicPartition("a", 2)] = (4, 7)
    with pytest.raises(DataLossError, match="offsets 0 to 3 of a-2 are lost: the log starts at 4"):
        stream.partitions(start, end)


def test_a_pattern_finds_new_topics(fake: FakeClient) -> None:
    stream = reader(subscribePattern="[ab]")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    fake.logs[B0] = (0, 5)
    stream._driver.planner._asked_at -= 10
    assert stream.latestOffset(end, ALL)["b"] == {"0": 5}


def test_a_log_that_got_shorter_fails_the_query(fake: FakeClient) -> None:
    stream = reader(**{"fetchOffset.retryIntervalMs": "0"})
    start = {"a": {"0": 10, "1": 30}}
    fake.logs[A1] = (0, 20)
    with pytest.raises(DataLossError, match="log of a-1 ends at 20, before offset 30") as caught:
        stream.latestOffset(start, ALL)
    assert (caught.value.topic, caught.value.partition) == ("a", 1)
    assert (caught.value.expected_offset, caught.value.available_offset) == (30, 20)
    assert 'failOnDataLoss to "false"' in str(caught.value)


def test_a_log_that_got_shorter_is_gone_on_with_at_its_end(fake: FakeClient, caplog: pytest.LogCaptureFixture) -> None:
    stream = reader(failOnDataLoss="false", **{"fetchOffset.retryIntervalMs": "0"})
    start = {"a": {"0": 10, "1": 30}}
    fake.logs[A1] = (0, 20)
    with caplog.at_level(logging.WARNING, "parley.spark"):
        end = stream.latestOffset(start, ReadMaxRows(5))
        assert end["a"] == {"0": 10, "1": 20}
        assert ranges(stream, start, end) == []
        assert stream.latestOffset(end, ALL) == end
    assert len(caplog.records) == 1


def test_a_leader_that_is_behind_for_a_moment_is_asked_again(fake: FakeClient) -> None:
    stream = reader(**{"fetchOffset.retryIntervalMs": "0"})
    start = stream.latestOffset(stream.initialOffset(), ALL)
    answers = iter([(0, 5), (0, 5), (0, 12)])
    ask = fake.list_offsets

    def behind(specs: Mapping[TopicPartition, Any], **more: Any) -> dict[TopicPartition, OffsetAndTimestamp]:
        fake.logs[A0] = next(answers, (0, 12))
        return ask(specs, **more)

    fake.list_offsets = behind  # type: ignore[method-assign]
    assert stream.latestOffset(start, ALL)["a"] == {"0": 12, "1": 30}


def test_a_deleted_topic_fails_the_query(fake: FakeClient) -> None:
    stream = reader(subscribePattern="[ab]")
    start = {"a": {"0": 10, "1": 30}, "b": {"0": 1}}
    with pytest.raises(DataLossError, match="data of b-0 may be lost: topic or partition is gone"):
        stream.latestOffset(start, ALL)


def test_a_deleted_topic_is_left_out_when_told_so(fake: FakeClient) -> None:
    stream = reader(subscribe="a,b", failOnDataLoss="false")
    start = {"a": {"0": 10, "1": 29}, "b": {"0": 1}}
    end = stream.latestOffset(start, ALL)
    assert "b" not in end
    assert ranges(stream, start, end) == [("a-1", 29, 30)]


def test_a_recreated_topic_fails_the_query_whatever_its_offsets_are(fake: FakeClient) -> None:
    start = {"@ids": {"a": format_uuid(OLD)}, "a": {"0": 10, "1": 30}}
    fake.ids["a"] = NEW
    with pytest.raises(DataLossError, match='topic "a" was deleted and created again'):
        reader().latestOffset(start, ALL)


def test_a_recreated_topic_is_read_from_its_beginning_when_told_so(fake: FakeClient) -> None:
    stream = reader(failOnDataLoss="false")
    start = {"@ids": {"a": format_uuid(OLD)}, "a": {"0": 10, "1": 30}}
    fake.ids["a"] = NEW
    fake.logs = {A0: (0, 10), A1: (2, 4)}
    end = stream.latestOffset(start, ALL)
    assert end["@ids"] == {"a": format_uuid(NEW)}
    assert ranges(stream, start, end) == [("a-0", 0, 10), ("a-1", 2, 4)]
    limited = stream.latestOffset(start, ReadMaxRows(6))
    assert limited["a"] == {"0": 5, "1": 3}


def test_offsets_that_a_user_named_must_be_there(fake: FakeClient) -> None:
    fake.logs = {A0: (5, 10), A1: (0, 30)}
    with pytest.raises(DataLossError, match="offsets 2 to 4 of a-0 are lost"):
        reader(startingOffsets='{"a":{"0":2,"1":-2}}').initialOffset()
    with pytest.raises(DataLossError, match="log of a-1 ends at 30, before offset 31"):
        reader(startingOffsets='{"a":{"0":-2,"1":31}}').initialOffset()
    relaxed = reader(startingOffsets='{"a":{"0":2,"1":31}}', failOnDataLoss="false")
    assert relaxed.initialOffset()["a"] == {"0": 5, "1": 30}


def test_tasks_are_split_as_asked_and_know_their_history(fake: FakeClient) -> None:
    stream = reader(minPartitions="4")
    start = stream.initialOffset()
    parts = [part.value for part in stream.partitions(start, stream.latestOffset(start, ALL))]
    assert [(part.tp, part.start, part.end) for part in parts] == [
        (A0, 0, 10), (A1, 0, 10), (A1, 10, 20), (A1, 20, 30),
    ]  # fmt: skip
    assert {(part.topic_id, part.leader_epoch) for part in parts} == {(format_uuid(OLD), 3)}


def test_a_truncated_log_that_grew_again_fails_the_query_and_names_the_offsets(fake: FakeClient) -> None:
    stream = reader()
    start = stream.latestOffset(stream.initialOffset(), ALL)
    fake.logs[A0], fake.epoch, fake.ends = (0, 15), 5, {A0: 6}
    with pytest.raises(
        DataLossError, match=r"log of a-0 was truncated: offset 10 .* epoch 3.* divergent offset 6"
    ) as at:
        reader().latestOffset(start, ALL)
    assert (at.value.topic, at.value.partition) == ("a", 0)
    assert (at.value.expected_offset, at.value.available_offset) == (10, 6)
    with pytest.raises(DataLossError, match="divergent offset 6"):
        reader().partitions(start, {**start, "@epochs": {"a": {"0": 5}}, "a": {"0": 15, "1": 30}})


@pytest.mark.parametrize("new_end", [6, 8, 10, 15])
def test_a_truncated_log_is_gone_on_with_where_the_histories_part(
    fake: FakeClient, caplog: pytest.LogCaptureFixture, new_end: int
) -> None:
    first = reader(failOnDataLoss="false")
    start = first.latestOffset(first.initialOffset(), ALL)
    fake.logs[A0], fake.epoch, fake.ends = (0, new_end), 5, {A0: 6}
    stream = reader(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "parley.spark"):
        end = stream.latestOffset(start, ALL)
        expected = [("a-0", 6, new_end)] if new_end > 6 else []
        assert ranges(stream, start, end) == expected
        assert ranges(reader(failOnDataLoss="false"), start, end) == expected  # and again, when it is replayed
    assert "divergent offset 6" in caplog.records[0].getMessage()
    assert len(caplog.records) == 2  # once for each of the two processes that looked
    assert end["a"] == {"0": new_end, "1": 30}
    assert end["@epochs"]["a"] == {"0": 5, "1": 3}
    fake.ends = {A0: new_end}
    assert stream.latestOffset(end, ALL) == end


def test_a_limit_counts_from_where_the_histories_part(fake: FakeClient) -> None:
    first = reader()
    start = first.latestOffset(first.initialOffset(), ALL)
    fake.logs[A0], fake.epoch, fake.ends = (0, 15), 5, {A0: 6}
    stream = reader(failOnDataLoss="false")
    end = stream.latestOffset(start, ReadMaxRows(2))
    assert ranges(stream, start, end) == [("a-0", 6, 8)]


def test_an_epoch_is_asked_for_once_and_not_at_every_poll(fake: FakeClient) -> None:
    stream = reader()
    start = stream.latestOffset(stream.initialOffset(), ALL)
    fake.epoch = 4
    for _ in range(3):
        assert stream.latestOffset(start, ALL) == start
    assert fake.asked.count("epochs") == 1


def test_a_topic_that_vanishes_between_the_two_questions_is_planned_without(fake: FakeClient) -> None:
    stream = reader(subscribePattern="[ab]", failOnDataLoss="false")
    fake.logs[B0] = (0, 5)
    start = stream.initialOffset()
    del fake.logs[B0]  # the planner's metadata is fresh and still has it
    assert stream.latestOffset(start, ALL)["a"] == {"0": 10, "1": 30}


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
    assert both.latestOffset(both.initialOffset(), both.getDefaultReadLimit())["a"] == {"0": 3, "1": 3}


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
    assert reader(startingOffsets="committed-or-latest", **group).initialOffset()["a"] == {"0": 4, "1": 30}
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


def test_offsets_of_another_topics_history_are_refused(fake: FakeClient) -> None:
    copied = f'{{"@ids":{{"a":"{format_uuid(NEW)}"}},"a":{{"0":5,"1":5}}}}'
    with pytest.raises(DataLossError, match='topic "a" was deleted and created again'):
        reader(startingOffsets=copied).initialOffset()
    assert reader(startingOffsets=copied, failOnDataLoss="false").initialOffset()["a"] == {"0": 0, "1": 0}


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
