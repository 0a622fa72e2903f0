"""How a stream goes on, and what it says when something is gone: against a cluster in a dictionary."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from parley.client import (
    EARLIEST,
    ClusterMetadata,
    OffsetAndTimestamp,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
    format_uuid,
)  # fmt: skip
from parley.errors import DataLossError, broker_error
from parley.spark import planner as planner_module
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
        which = {tp: 0 if spec == EARLIEST else 1 for tp, spec in specs.items()}
        return {tp: OffsetAndTimestamp(self.logs[tp][which[tp]], leader_epoch=self.epoch) for tp in specs}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    found = FakeClient({A0: (0, 10), A1: (0, 30)}, {"a": OLD})
    monkeypatch.setattr(planner_module, "client_for", lambda options: found)
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


def test_nothing_of_the_drivers_state_travels(fake: FakeClient) -> None:
    stream = reader()
    stream.latestOffset(stream.initialOffset(), ALL)
    copy = pickle.loads(pickle.dumps(stream))
    assert copy._state is None
    assert copy._options == stream._options
