"""What brokers get while many topics gather: a request's worth each, no more than they can take."""

from __future__ import annotations

from threading import Lock
from types import SimpleNamespace

from parley.client.produce.chunk import RecordChunk
from parley.client.produce.shares import MOST_CHUNKS, MOST_WHERE_MANY, Shares

MOST_BYTES = 10_000


class Topics:
    """Topics named for the brokers that lead them: "1 a" is led by broker 1."""

    def __init__(self, busy: tuple[str, ...]) -> None:
        self.busy = busy

    def is_busy(self, topic: str, most: int | None = None) -> bool:
        assert most == MOST_WHERE_MANY
        return topic in self.busy

    def leaders(self, topic: str) -> frozenset[int]:
        return frozenset(int(word) for word in topic.split() if word.isdigit())


def shares(*, full: tuple[int, ...] = (), ready: bool = True, busy: tuple[str, ...] = ()) -> Shares:
    topics, requests = Topics(busy), SimpleNamespace(max_request_size=MOST_BYTES)
    sender = SimpleNamespace(requests=requests, may_have_more=lambda node: node not in full)
    return Shares(topics, sender, [1, 2], ready=ready)  # type: ignore[arg-type]


def chunk(topic: str, size: int = 0) -> RecordChunk:
    made = RecordChunk(topic, 0, 100_000, Lock(), lambda chunk, call: None)
    made.granted = size + 50
    made.grant(50)  # which no record has taken
    return made


def let_go(gate: Shares, topic: str, size: int, most: int = 1_000) -> int:
    """Return how many chunks of a topic a gate lets go until it holds one."""
    return next((at for at in range(most) if gate.holds(chunk(topic, size))), most)


def test_a_broker_gets_as_many_bytes_as_a_request_holds() -> None:
    gate = shares()
    assert let_go(gate, "1 a", MOST_BYTES // 4) == 4
    assert not gate.is_shut
    assert let_go(gate, "2 b", MOST_BYTES // 2) == 2
    assert gate.is_shut


def test_a_broker_gets_only_so_many_chunks_however_small_they_are() -> None:
    gate = shares(full=(2,))
    assert let_go(gate, "1 a", 1) == MOST_CHUNKS
    assert gate.is_shut


def test_a_broker_that_takes_no_more_holds_its_topics_and_no_others() -> None:
    gate = shares(full=(1,))
    assert gate.holds(chunk("1 a"))
    assert not gate.holds(chunk("2 b"))
    assert not gate.holds(chunk("1 2 c"))  # part of it can be sent


def test_a_topic_of_several_brokers_counts_a_part_against_each() -> None:
    gate = shares()
    assert let_go(gate, "1 2 a", MOST_BYTES // 2) == 4
    assert gate.is_shut


def test_a_busy_topic_takes_nothing_of_its_brokers_share() -> None:
    gate = shares(busy=("1 a",))
    assert all(gate.holds(chunk("1 a", MOST_BYTES)) for _ in range(3))
    assert let_go(gate, "1 b", MOST_BYTES // 2) == 2


def test_what_nobody_leads_waits_at_the_sender() -> None:
    assert not shares().holds(chunk("a"))


def test_nothing_is_let_go_while_batches_are_being_made() -> None:
    assert shares(ready=False).is_shut
