"""What a listener may do with partitions that it hears of, and who has to wait for that."""

from __future__ import annotations

import asyncio

import pytest

from parley.client import AsyncConsumer, TopicPartition
from parley.errors import LocalProtocolError

from .lone_member import MODERN, PARTITIONS, TOPIC, TP, Seen, lone

BOTH = {TopicPartition(TOPIC, at) for at in range(PARTITIONS)}


class Choosy(Seen):
    """Looks at what it is given, pauses one partition, and goes to the end of the other."""

    consumer: AsyncConsumer

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:  # type: ignore[override]
        super().on_partitions_assigned(assigned)
        self.assignment = self.consumer.assignment()
        health = self.consumer.health()
        assert health is not None
        self.stalled = set(health.stalled)
        with pytest.raises(LocalProtocolError, match="elsewhere-0 is not assigned"):
            self.consumer.seek(TopicPartition("elsewhere", 0), 3)
        self.consumer.pause(TP)
        other = TopicPartition(TOPIC, 1)
        await self.consumer.seek_to_end(other)
        self.positions = [await self.consumer.position(tp) for tp in (TP, other)]


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_a_listener_sees_pauses_and_moves_what_it_is_given(how: dict[str, str]) -> None:
    with lone("4.3", joins=False) as one:
        for partition in range(PARTITIONS):
            one.produce(5, partition)
        listener = Choosy()
        one.consumer = listener.consumer = one.join(listener, **how)
        assert one.go_on(3_000) == 0
        assert listener.calls == [("assigned", [str(tp) for tp in sorted(BOTH)])]
        assert listener.assignment == listener.stalled == BOTH
        assert listener.positions == [0, 5]
        assert one.consumer.paused() == {TP}
        for partition in range(PARTITIONS):
            one.produce(2, partition)
        assert one.go_on(3_000) == 2

        async def resume() -> None:
            one.consumer.resume(TP)

        one.time.run(resume())
        assert one.go_on(3_000) == 7


class Hurried(Seen):
    """Notes how much was done for the partitions when what waited in the event loop is done."""

    consumer: AsyncConsumer

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        self._after(4)

    def _after(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._after, turns - 1)
        else:
            self.begun.append(len(self.consumer._core._assigned.states))


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_what_waits_in_the_event_loop_goes_before_work_for_new_partitions(
    how: dict[str, str],
) -> None:
    """Another member's answer, say: its partitions have no owner until it is read."""
    with lone("4.3", joins=False) as one:
        one.produce(5)
        listener = Hurried()
        one.consumer = listener.consumer = one.join(listener, **how)
        assert one.go_on(3_000) == 5
        assert listener.begun == [0]
