"""Members of a group whose topic is deleted, in virtual time: the others are read on at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parley.client import AsyncConsumer, TopicPartition
from parley.errors import CommitFailedError, UnknownTopicOrPartitionError

from .lone_member import GROUP, MODERN, TOPIC, TP, Lone, Seen, lone

GONE = TopicPartition("gone", 0)
POLL_MS = 300
COMMITTING: dict[str, object] = {"enable_auto_commit": True}
BOTH = pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])


def reading(one: Lone, how: dict[str, object], **options: object) -> AsyncConsumer:
    """Return a member that has read a record of each of two topics, the first one shared."""
    one.cluster.create_topic(GONE.topic, 1)
    client = one.client(metadata_max_age_ms=1_000)
    for topic in (TOPIC, GONE.topic):
        one.time.run(one.client().produce(topic, pa.table({"value": ["x"]}), 0))
    consumer = one.join(client=client, **{**COMMITTING, **how, **options})
    one.subscribe(consumer, one.seen, (TOPIC, GONE.topic))
    one.go_on(8_000)
    assert len(consumer.assignment()) == 3
    return consumer


def polls(one: Lone, consumer: AsyncConsumer, count: int) -> int:
    """Poll so often; return how many milliseconds the longest of them took."""
    longest = 0
    for _ in range(count):
        began_ms = one.time.clock.now_ms()
        one.time.run(consumer.getmany(timeout_ms=POLL_MS))
        longest = max(longest, one.time.clock.now_ms() - began_ms)
    return longest


def committed(one: Lone, tp: TopicPartition) -> int | None:
    found = one.time.run(one.client().committed_offsets(GROUP, [tp]))[tp]
    return None if found is None else found.offset


async def begin_commit(consumer: AsyncConsumer) -> None:
    """Begin the regular commit of a consumer."""
    commits = consumer._core.group._commits
    assert commits is not None
    commits.begin(consumer._core.consumed())


@BOTH
def test_polls_keep_their_time_out_and_the_rest_is_committed(
    how: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with lone("4.3", joins=False) as one:
        consumer = reading(one, how, auto_commit_interval_ms=3_600_000)
        one.cluster.delete_topic(GONE.topic)
        assert polls(one, consumer, 40) <= POLL_MS
        assert GONE not in consumer.assignment()
        assert ("revoked", [str(GONE)]) in one.seen.calls
        assert committed(one, TP) == 1
        said = [record.getMessage() for record in caplog.records if "gone-0" in record.getMessage()]
        assert [text for text in said if "no longer committed" in text] == said[-1:]


@BOTH
@pytest.mark.parametrize("regular", [False, True], ids=["end", "regular"])
def test_neither_the_end_nor_a_regular_commit_waits_for_it(
    how: dict[str, object], regular: bool
) -> None:
    with lone("4.3", joins=False) as one:
        consumer = reading(one, how, auto_commit_interval_ms=3_600_000)
        one.cluster.clear_requests()
        one.cluster.delete_topic(GONE.topic)
        if regular:
            one.time.run(begin_commit(consumer))
            one.time.advance(5_000)
            assert len(one.cluster.requests("OffsetCommit")) == 1
        began_ms = one.time.clock.now_ms()
        one.stop(consumer)
        assert one.time.clock.now_ms() - began_ms < 1_000
        assert committed(one, TP) == 1


@BOTH
def test_a_coordinator_that_takes_no_commits_holds_no_poll_up(how: dict[str, object]) -> None:
    with lone("4.3", joins=False) as one:
        consumer = reading(one, how, auto_commit_interval_ms=3_600_000)
        one.cluster.faults.fail("OffsetCommit", 14, times=-1)
        one.join(Seen(), **how)
        one.consumers.clear()
        assert polls(one, consumer, 20) <= POLL_MS
        assert len(consumer.assignment()) == 3  # the commit comes first
        one.cluster.faults.clear()
        polls(one, consumer, 20)
        assert committed(one, TP) == 1
        assert "revoked" in {what for what, _ in one.seen.calls}


def test_a_commit_by_hand_says_in_seconds_which_topic_is_missing() -> None:
    with lone("4.3") as one:
        nowhere = TopicPartition("nowhere", 0)
        began_ms = one.time.clock.now_ms()
        with pytest.raises(UnknownTopicOrPartitionError, match="no broker knows this topic"):
            one.time.run(one.consumer.commit({nowhere: 1}))
        assert one.time.clock.now_ms() - began_ms < 4_000
        beyond = TopicPartition(TOPIC, 9)
        with pytest.raises(CommitFailedError, match="has 2 partitions") as caught:
            one.time.run(one.consumer.commit({beyond: 1, TP: 0}))
        assert list(caught.value.failures) == [beyond]
        assert committed(one, TP) == 0


def test_a_commit_waits_for_a_coordinator_that_is_behind() -> None:
    with lone("4.3") as one:
        one.cluster.faults.fail("OffsetCommit", 3, times=10)
        one.time.run(one.consumer.commit({TP: 0}))
        assert committed(one, TP) == 0


def test_a_topic_is_found_that_is_made_while_its_offsets_are_committed() -> None:
    with lone("4.3") as one:
        late = TopicPartition("late", 0)
        committing = one.time.start(one.client().commit_offsets("others", {late: 1}))
        one.time.advance(500)
        one.cluster.create_topic("late", 1)
        one.time.advance(5_000)
        assert committing.done()
        committing.result()
