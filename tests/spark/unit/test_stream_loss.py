"""What a stream says, and how it goes on, when something is gone: records, topics, histories."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from parley.client import (
    OffsetAndTimestamp,
    TopicPartition,
    format_uuid,
)  # fmt: skip
from parley.errors import DataLossError

from .planning import A0, A1, ALL, B0, NEW, OLD, FakeClient, ranges, reader


def test_a_new_partition_that_lost_its_front_is_reported(fake: FakeClient) -> None:
    stream = reader(startingOffsets="latest")
    start = stream.initialOffset()
    end = {"a": {**start["a"], "2": 7}}
    fake.logs[TopicPartition("a", 2)] = (4, 7)
    with pytest.raises(DataLossError, match="offsets 0 to 3 of a-2 are lost: the log starts at 4"):
        stream.partitions(start, end)


def test_a_log_that_got_shorter_fails_the_query(fake: FakeClient) -> None:
    stream = reader(**{"fetchOffset.retryIntervalMs": "0"})
    start = {"a": {"0": 10, "1": 30}}
    fake.logs[A1] = (0, 20)
    with pytest.raises(DataLossError, match="log of a-1 ends at 20, before offset 30") as caught:
        stream.latestOffset(start, ALL)
    assert (caught.value.topic, caught.value.partition) == ("a", 1)
    assert (caught.value.expected_offset, caught.value.available_offset) == (30, 20)
    assert 'failOnDataLoss to "false"' in str(caught.value)


def test_a_log_that_got_shorter_is_gone_on_with_at_its_end(
    fake: FakeClient, caplog: pytest.LogCaptureFixture
) -> None:
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

    def behind(
        specs: Mapping[TopicPartition, Any], **more: Any
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        fake.logs[A0] = next(answers, (0, 12))
        return ask(specs, **more)

    fake.list_offsets = behind  # type: ignore[method-assign]
    assert stream.latestOffset(start, ALL)["a"] == {"0": 12, "1": 30}


def test_a_deleted_topic_fails_the_query(fake: FakeClient) -> None:
    stream = reader(subscribePattern="[ab]")
    start = {"a": {"0": 10, "1": 30}, "b": {"0": 1}}
    with pytest.raises(DataLossError, match="data of b-0 may be lost: topic or partition is gone"):
        stream.latestOffset(start, ALL)


def test_a_deleted_topic_is_left_out_when_reported_so(fake: FakeClient) -> None:
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


def test_a_recreated_topic_is_read_from_its_beginning_when_reported_so(fake: FakeClient) -> None:
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


def test_a_truncated_log_that_grew_again_fails_the_query_and_names_the_offsets(
    fake: FakeClient,
) -> None:
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
        # and again, when it is replayed
        assert ranges(reader(failOnDataLoss="false"), start, end) == expected
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


def test_a_topic_that_vanishes_between_the_two_questions_is_planned_without(
    fake: FakeClient,
) -> None:
    stream = reader(subscribePattern="[ab]", failOnDataLoss="false")
    fake.logs[B0] = (0, 5)
    start = stream.initialOffset()
    del fake.logs[B0]  # the planner's metadata is fresh and still has it
    assert stream.latestOffset(start, ALL)["a"] == {"0": 10, "1": 30}


def test_offsets_of_another_topics_history_are_refused(fake: FakeClient) -> None:
    copied = f'{{"@ids":{{"a":"{format_uuid(NEW)}"}},"a":{{"0":5,"1":5}}}}'
    with pytest.raises(DataLossError, match='topic "a" was deleted and created again'):
        reader(startingOffsets=copied).initialOffset()
    assert reader(startingOffsets=copied, failOnDataLoss="false").initialOffset()["a"] == {
        "0": 0,
        "1": 0,
    }
