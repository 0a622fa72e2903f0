"""When gathered records are due, and how much memory they are granted: the accumulator's rules."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from threading import Lock

from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parley.client.produce.accumulator import (
    FIRST_GRANT_BYTES,
    LARGEST_GRANT_BYTES,
    MANY_TOPICS,
    SHARE_STEPS,
    Accumulator,
)
from parley.client.produce.chunk import RecordChunk

LINGER_MS = 5
MEMORY_BYTES = 2**25
TOPICS = ("a", "b", "c")


def chunk(topic: str, created_ms: int = 0, limit: int = 100_000) -> RecordChunk:
    return RecordChunk(topic, created_ms, limit, Lock(), lambda chunk, call: None)


class Busy:
    """Holds the chunks of some topics, and lets so many others go."""

    def __init__(self, topics: AbstractSet[str], most: int = 1_000) -> None:
        self.topics, self.left = topics, most

    @property
    def is_shut(self) -> bool:
        return self.left == 0

    def holds(self, chunk: RecordChunk) -> bool:
        held = chunk.topic in self.topics
        self.left -= not held
        return held


def due(
    gathered: Accumulator, now_ms: int, busy: AbstractSet[str] = frozenset(), *, hurry: bool = False
) -> list[str]:
    return list(gathered.due(now_ms, Busy(busy), hurry=hurry))


def test_a_chunk_is_due_a_linger_after_it_began_whatever_came_later() -> None:
    gathered = Accumulator(LINGER_MS, MEMORY_BYTES)
    gathered.begin(chunk("a", 10))
    gathered.begin(chunk("b", 12))
    assert gathered.next_due_ms() == 15
    assert due(gathered, 14) == []
    assert due(gathered, 15) == ["a"]
    gathered.close("a")
    assert (gathered.next_due_ms(), due(gathered, 17)) == (17, ["b"])


def test_what_is_due_gathers_on_while_its_topic_is_busy_and_holds_up_no_other() -> None:
    gathered = Accumulator(LINGER_MS, MEMORY_BYTES)
    gathered.begin(chunk("a"))
    gathered.begin(chunk("b"))
    assert due(gathered, 5, {"a"}) == ["b"]
    gathered.close("b")
    assert gathered.is_held("a")
    assert "a" in gathered.open  # it takes records all the same
    assert gathered.next_due_ms() is None  # no time ends that: an answer does
    assert due(gathered, 6) == []  # no answer came since
    assert gathered.answered("a")
    assert due(gathered, 6, {"a"}) == []
    assert gathered.answered("a")
    assert due(gathered, 6) == ["a"]
    assert not gathered.answered("b")


def test_what_a_gate_has_no_room_for_is_looked_at_again_in_the_order_in_which_it_began() -> None:
    gathered = Accumulator(LINGER_MS, MEMORY_BYTES)
    for began_ms, topic in enumerate("abcd"):
        gathered.begin(chunk(topic, began_ms))

    def closed(most: int) -> list[str]:
        found = list(gathered.due(10, Busy({"b"}, most)))
        for topic in found:
            gathered.close(topic)
        return found

    assert closed(most=2) == ["a", "c"]
    assert gathered.is_held("b")
    assert gathered.is_held("d")
    assert closed(most=2) == []  # nobody said that there is room again
    assert gathered.look_at_held()
    assert closed(most=0) == []
    assert gathered.look_at_held()
    assert closed(most=2) == ["d"]
    gathered.close("b")
    assert not gathered.look_at_held()


def test_a_flush_waits_for_neither_time_nor_business() -> None:
    gathered = Accumulator(LINGER_MS, MEMORY_BYTES)
    for topic in TOPICS:
        gathered.begin(chunk(topic))
    assert due(gathered, 0, set(TOPICS), hurry=True) == list(TOPICS)


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=400))
def test_granted_memory_holds_what_was_put_in_and_little_more(sizes: list[int]) -> None:
    gathered = chunk("a", limit=200_000)
    used = 0
    for size in sizes:
        if gathered.room < size:
            wanted = Accumulator(LINGER_MS, MEMORY_BYTES).grant(gathered, size)
            if not wanted:
                assert used + size > gathered.limit
                break
            gathered.grant(wanted)
            gathered.granted += wanted
        assert gathered.append(b"", None, (), -1, 0, None, size) >= 0
        used += size
    assert used <= gathered.granted <= max(gathered.limit, sizes[0])
    assert gathered.granted - used <= max(FIRST_GRANT_BYTES, min(used, LARGEST_GRANT_BYTES)) + 3_000


def test_while_many_topics_gather_their_grants_stay_small() -> None:
    gathered = Accumulator(LINGER_MS, MEMORY_BYTES)
    busy = chunk("busy")
    for granted in (FIRST_GRANT_BYTES, FIRST_GRANT_BYTES, 2 * FIRST_GRANT_BYTES):
        wanted = gathered.grant(busy, 100)
        assert wanted == granted
        busy.grant(wanted)
        busy.granted += wanted
        assert busy.append(b"", None, (), -1, 0, None, busy.room) >= 0
    for number in range(MANY_TOPICS):
        gathered.begin(chunk(str(number)))
    assert gathered.grant(busy, 100) == FIRST_GRANT_BYTES
    assert gathered.grant(busy, 3_000) == 3_000
    small = Accumulator(LINGER_MS, 100 * MANY_TOPICS * SHARE_STEPS)
    for number in range(MANY_TOPICS):
        small.begin(chunk(str(number)))
    assert small.grant(chunk("another"), 30) == 100
    assert small.grant(chunk("another"), 130) == 130


class Gathering(RuleBasedStateMachine):
    """Chunks begin, fill, are held and closed at random: none is lost, none comes twice, and what
    is due comes in the order in which it began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gathered = Accumulator(LINGER_MS, MEMORY_BYTES)
        self.now_ms = 0
        self.began: dict[str, int] = {}

    @rule(topic=st.sampled_from(TOPICS))
    def begin(self, topic: str) -> None:
        if topic not in self.gathered.open:
            self.gathered.begin(chunk(topic, self.now_ms))
            self.began[topic] = self.now_ms

    @rule(passed_ms=st.integers(0, 4), busy=st.sets(st.sampled_from(TOPICS)))
    def time_passes(self, passed_ms: int, busy: set[str]) -> None:
        self.now_ms += passed_ms
        for topic in TOPICS:
            self.gathered.answered(topic)
        found = due(self.gathered, self.now_ms, busy)
        ended = {
            topic for topic, began_ms in self.began.items() if began_ms + LINGER_MS <= self.now_ms
        }
        assert sorted(found) == sorted(ended - busy)
        for topic in found:
            assert self.gathered.close(topic).created_ms == self.began.pop(topic)

    @rule(topic=st.sampled_from(TOPICS))
    def full(self, topic: str) -> None:
        if topic in self.gathered.open:
            self.gathered.close(topic)
            del self.began[topic]

    @invariant()
    def all_that_began_is_there(self) -> None:
        assert self.gathered.open.keys() == self.began.keys()
        waiting = [at for topic, at in self.began.items() if not self.gathered.is_held(topic)]
        next_ms = self.gathered.next_due_ms()
        assert next_ms == (min(waiting) + LINGER_MS if waiting else None)


TestGathering = Gathering.TestCase
