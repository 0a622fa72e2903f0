"""The end of a consumer, in virtual time: how long it takes, whose error comes out, what calls say
afterwards, and what a commit says of a consumer that is no member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from parley.client import (
    AsyncConsumer,
    AsyncShareConsumer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from parley.errors import CommitFailedError, ConfigError, KafkaError, LocalProtocolError

from .lone_member import GROUP, MODERN, TOPIC, TP, Lone, Seen, Slow, lone

BOTH = pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])


async def subscribing(consumer: AsyncConsumer) -> None:
    consumer.subscribe([TOPIC])


async def assigning(consumer: AsyncConsumer) -> None:
    consumer.assign([TP])


CALLS: dict[str, Callable[[AsyncConsumer], Awaitable[object]]] = {
    "commit": lambda consumer: consumer.commit(),
    "commit of offsets": lambda consumer: consumer.commit({TP: 3}),
    "committed": lambda consumer: consumer.committed(TP),
    "getone": lambda consumer: consumer.getone(),
    "getmany": lambda consumer: consumer.getmany(timeout_ms=500),
    "position": lambda consumer: consumer.seek_to_end(),
    "subscribe": subscribing,
    "assign": assigning,
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
}


def took_ms(one: Lone, work: Callable[[], Awaitable[object]]) -> int:
    """Return how long a call took."""

    async def run() -> None:
        await work()

    began_ms = one.time.clock.now_ms()
    one.time.run(run())
    return one.time.clock.now_ms() - began_ms


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("by_hand", [False, True], ids=["member", "assigned"])
def test_after_the_end_every_call_says_so_at_once(call: str, by_hand: bool) -> None:
    with lone("4.3") as one:
        consumer = one.consumer
        if by_hand:
            one.time.run(consumer.unsubscribe())
            one.time.run(assigning(consumer))
        one.produce(2)
        one.go_on(1_000)
        one.stop(consumer)
        one.time.run(one.clients[0].close())
        began_ms = one.time.clock.now_ms()
        with pytest.raises(LocalProtocolError, match="this consumer is closed; make a new one"):
            took_ms(one, lambda: CALLS[call](consumer))
        assert one.time.clock.now_ms() == began_ms


@BOTH
def test_the_end_has_a_limit_however_the_brokers_are(how: dict[str, str]) -> None:
    with lone("4.3", enable_auto_commit=True, **how) as one:
        one.produce(2)
        one.go_on(1_000)
        one.consumers.clear()
        for broker in (1, 2):
            one.time.run(one.cluster.kill_broker(broker))
        assert took_ms(one, lambda: one.consumer.close(timeout_ms=2_000)) <= 2_001


@BOTH
def test_the_end_takes_half_a_minute_at_most_by_default(how: dict[str, str]) -> None:
    with lone("4.3", enable_auto_commit=True, **how) as one:
        one.produce(2)
        one.go_on(1_000)
        one.consumers.clear()
        for broker in (1, 2):
            one.time.run(one.cluster.kill_broker(broker))
        assert took_ms(one, one.consumer.close) <= 30_001


@BOTH
def test_a_commit_that_takes_all_the_time_leaves_the_group_all_the_same(
    how: dict[str, str],
) -> None:
    with lone("4.3", enable_auto_commit=True, auto_commit_interval_ms=3_600_000, **how) as one:
        one.produce(2)
        one.go_on(1_000)
        one.consumers.clear()
        one.cluster.faults.fail("OffsetCommit", 14, times=-1)
        one.cluster.clear_requests()
        assert took_ms(one, lambda: one.consumer.close(timeout_ms=2_000)) <= 2_001
        one.time.advance(100)
        found = one.time.run(one.client().describe_groups([GROUP]))
        assert not found[GROUP].members


@BOTH
def test_the_end_waits_for_no_commit_of_another_task_beyond_its_limit(how: dict[str, str]) -> None:
    with lone("4.3", enable_auto_commit=True, auto_commit_interval_ms=3_600_000, **how) as one:
        one.produce(2)
        one.go_on(1_000)
        one.consumers.clear()
        one.cluster.faults.drop("OffsetCommit", times=-1)

        async def close() -> None:
            commits = [asyncio.create_task(one.consumer.commit({TP: at})) for at in (1, 2)]
            await asyncio.sleep(0)
            began_ms = one.time.clock.now_ms()
            await one.consumer.close(timeout_ms=2_000)
            assert one.time.clock.now_ms() <= began_ms + 2_001
            found = await asyncio.gather(*commits, return_exceptions=True)
            assert all(isinstance(error, KafkaError) for error in found)

        assert took_ms(one, close) <= one.client().options.default_api_timeout_ms + 1


def cancelled(one: Lone, work: Callable[[], Awaitable[object]]) -> None:
    """Begin a call, and cancel it while it waits."""

    async def run() -> None:
        calling = asyncio.ensure_future(work())
        await one.time.clock.sleep_ms(500)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    one.time.run(run())


def beats(one: Lone) -> int:
    """Return how many heartbeats a while brings."""
    one.cluster.faults.clear()
    one.cluster.clear_requests()
    one.time.advance(15_000)
    return sum("Heartbeat" in request.api for request in one.cluster.requests())


@BOTH
def test_an_end_that_is_cancelled_leaves_no_member_behind(how: dict[str, str]) -> None:
    """Nobody polls for it, and it would have its partitions."""
    with lone("4.3", enable_auto_commit=True, auto_commit_interval_ms=3_600_000, **how) as one:
        one.produce(2)
        one.go_on(1_000)
        one.consumers.clear()
        one.cluster.faults.drop("OffsetCommit", times=-1)
        cancelled(one, one.consumer.close)
        assert beats(one) == 0


@BOTH
def test_who_cancels_an_unsubscribe_may_subscribe_again(how: dict[str, str]) -> None:
    with lone("4.3", enable_auto_commit=True, auto_commit_interval_ms=3_600_000, **how) as one:
        one.produce(2)
        one.go_on(1_000)
        one.cluster.faults.drop("OffsetCommit", times=-1)
        cancelled(one, one.consumer.unsubscribe)
        assert one.consumer.assignment() == frozenset()
        assert beats(one) == 0
        one.subscribe(one.consumer, one.seen)
        assert one.go_on(60_000) == 2  # nothing was committed
        assert one.consumer.assignment() == {TP, TopicPartition(TOPIC, 1)}


@BOTH
def test_an_end_that_is_cancelled_ends_the_listener_that_it_waited_for(how: dict[str, str]) -> None:
    with lone("4.3", joins=False, **how) as one:
        slow = Slow("assigned")
        consumer = one.join(slow, **how)
        polling = one.polling(consumer)
        one.time.advance(5_000)
        assert [what for what, _ in slow.calls] == ["assigned"]
        polling.cancel()
        cancelled(one, consumer.close)
        slow.open()
        assert beats(one) == 0


def test_an_end_of_a_share_consumer_that_is_cancelled_leaves_no_member_behind() -> None:
    with lone("4.3", joins=False) as one:
        consumer = AsyncShareConsumer(one.client(), group_id="tasks")

        async def read() -> None:
            await consumer.start()
            consumer.subscribe([TOPIC])
            assert await consumer.getone(timeout_ms=2_000) is None

        one.time.run(read())
        one.time.advance(1_000)
        one.cluster.faults.drop("ShareAcknowledge", times=-1)
        cancelled(one, consumer.close)
        assert beats(one) == 0


@pytest.mark.parametrize("wrong", [None, -1, "5", True])
def test_a_limit_that_is_none_is_refused_and_nothing_is_closed(wrong: object) -> None:
    with lone("4.3") as one:
        share = AsyncShareConsumer(one.client(), group_id="tasks")
        for consumer in (one.consumer, share):
            with pytest.raises(ConfigError, match="timeout_ms"):
                one.time.run(consumer.close(timeout_ms=wrong))  # type: ignore[arg-type]
        one.go_on(500)


def test_a_share_consumer_ends_in_time_whatever_brokers_do() -> None:
    with lone("4.3", joins=False) as one:
        consumer = AsyncShareConsumer(one.client(), group_id="tasks")

        async def read() -> None:
            await consumer.start()
            consumer.subscribe([TOPIC])
            assert await consumer.getone(timeout_ms=2_000) is None

        one.time.run(read())
        one.time.advance(1_000)
        for api in ("ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat", "FindCoordinator"):
            one.cluster.faults.drop(api)
        assert took_ms(one, lambda: consumer.close(timeout_ms=2_000)) <= 2_001


class Refuses(ConsumerRebalanceListener):
    """Raises when partitions are given up."""

    def on_partitions_revoked(self, revoked: object) -> None:
        raise ValueError("revoked")


class CommitsLast(ConsumerRebalanceListener):
    """Commits what it is about to give up."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: object) -> None:
        await self._consumer.commit({TP: 7})


def test_a_listener_may_still_commit_while_the_consumer_is_being_closed() -> None:
    with lone("4.3") as one:
        one.subscribe(one.consumer, CommitsLast(one.consumer))
        one.go_on(1_000)
        one.stop(one.consumer)
        found = one.time.run(one.client().committed_offsets(GROUP, [TP]))
        assert found == {TP: OffsetAndMetadata(7)}


def test_what_the_body_raises_comes_out_although_the_end_fails_as_well() -> None:
    with lone("4.3", joins=False) as one:
        client = one.client()

        async def body(failing: bool) -> None:
            async with AsyncConsumer(client, group_id=GROUP) as consumer:
                consumer.subscribe([TOPIC], listener=Refuses())
                await consumer.getone(timeout_ms=6_000)
                if failing:
                    raise KeyError("of the body")

        with pytest.raises(KeyError, match="of the body") as caught:
            one.time.run(body(True))
        assert any("ValueError('revoked')" in note for note in caught.value.__notes__)
        with pytest.raises(ValueError, match="revoked"):
            one.time.run(body(False))


@BOTH
def test_a_commit_of_who_is_no_member_says_why_and_what_to_do(how: dict[str, str]) -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.faults.fail("FindCoordinator", 15, times=-1)
        consumer = one.join(Seen(), **how)
        with pytest.raises(CommitFailedError, match=r"no member of group readers.*Poll to join"):
            one.time.run(consumer.commit())
