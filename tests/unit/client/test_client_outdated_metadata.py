"""Answers that are behind: KIP-232's two conditions word for word, what stays
meanwhile, and what it costs.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.refresh import RefreshSchedule
from parley.client.cluster.retry import Backoff
from parley.client.cluster.topic_merger import AGREEING_ANSWERS, FORMER_IDS
from parley.client.cluster.view import MetadataUpdate, PartitionMetadata, TopicUpdate
from parley.client.events import PossibleDataLoss, notify
from parley.drafts.global_order import GlobalOrderCache, StampedUpdate
from parley.types import ZERO_UUID, Node, TopicPartition

NODES = {n: Node(n, "127.0.0.1", 9090 + n) for n in (1, 2, 3)}
IDS = [bytes([n]) * 16 for n in range(1, 40)]


def topic(
    name: str, epochs: dict[int, int], topic_id: bytes = ZERO_UUID, leader: int = 1, error: int = 0
) -> TopicUpdate:
    parts = tuple(
        PartitionMetadata(i, leader, epoch, (1, 2, 3), (1, 2, 3)) for i, epoch in epochs.items()
    )
    return TopicUpdate(name, error, topic_id, False, parts)


def answer(*topics: TopicUpdate, **fields: Any) -> MetadataUpdate:
    return MetadataUpdate(fields.pop("version", 12), NODES, topics, 1, "cluster", **fields)


def stamped(order: tuple[int, int], *topics: TopicUpdate) -> StampedUpdate:
    return StampedUpdate(12, NODES, topics, 1, "cluster", order=order)


def cache_of(*topics: TopicUpdate, interest: list[TopicPartition] | None = None) -> MetadataCache:
    cache = MetadataCache()
    cache.apply(answer(*topics), full=True)
    cache.set_interest(interest)
    return cache


# ---- the two conditions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interest", "epochs", "outdated"),
    [
        # a leader epoch among the partitions of interest is lower than the cached one
        (None, {0: 4, 1: 5, 2: 5}, {0}),
        ([0, 1], {0: 4, 1: 5, 2: 5}, {0}),
        ([1, 2], {0: 4, 1: 5, 2: 5}, set()),
        # a cached partition of interest is missing while another partition of its topic is present
        (None, {0: 5, 1: 5}, {2}),
        ([2], {0: 5, 1: 5}, {2}),
        ([0, 1], {0: 5, 1: 5}, set()),
        # both at once, and neither
        (None, {0: 9, 1: 4}, {1, 2}),
        (None, {0: 5, 1: 6, 2: 7}, set()),
        (None, {}, set()),  # no partition of the topic is present at all
    ],
)
def test_m02_the_two_conditions_of_kip_232(
    interest: list[int] | None, epochs: dict[int, int], outdated: set[int]
) -> None:
    wanted = None if interest is None else [TopicPartition("t", index) for index in interest]
    cache = cache_of(topic("t", {0: 5, 1: 5, 2: 5}), interest=wanted)
    applied = cache.apply(answer(topic("t", epochs)), full=True)
    assert applied.outdated == {TopicPartition("t", index) for index in outdated}


def test_of_a_hundred_thousand_outdated_partitions_a_thousand_are_named() -> None:
    """To let go of all their names would hold the loop; one is enough to ask again."""
    everything = dict.fromkeys(range(3_000), 5)
    cache = cache_of(topic("t", everything))
    applied = cache.apply(answer(topic("t", dict.fromkeys(everything, 4))), full=True)
    assert len(applied.outdated) == 1_000
    assert {found.leader_epoch for found in cache.snapshot.topics["t"].partitions.values()} == {5}


def test_m03_nothing_is_removed_by_an_outdated_answer_only_by_the_one_after_it() -> None:
    cache = cache_of(topic("t", {0: 5}), topic("u", {0: 7}), topic("v", {0: 1}))
    applied = cache.apply(answer(topic("t", {0: 4}), topic("v", {}, error=3)), full=True)
    assert applied.outdated == {TopicPartition("t", 0)}
    # u is missing and v unknown there: who is behind says so
    assert set(cache.snapshot.topics) == {"t", "u", "v"}
    assert not cache.apply(answer(topic("t", {0: 5}), topic("v", {}, error=3)), full=True).outdated
    assert set(cache.snapshot.topics) == {"t"}
    assert cache.last_seen_epoch(TopicPartition("u", 0)) == 7


def test_m03_a_topic_that_may_not_be_seen_any_more_goes_even_then() -> None:
    cache = cache_of(topic("t", {0: 5}), topic("u", {0: 7}))
    cache.apply(answer(topic("t", {0: 4}), topic("u", {}, error=29)), full=True)
    assert set(cache.snapshot.topics) == {"t"}


# ---- topic ids -----------------------------------------------------------------------------------


def test_m05_an_id_that_was_held_before_is_stale_whatever_its_epochs() -> None:
    cache = cache_of(topic("t", {0: 5}, IDS[0]))
    applied = cache.apply(answer(topic("t", {0: 0}, IDS[1])), full=True)
    assert (applied.recreated, applied.outdated, applied.possible_data_loss) == (
        {"t"},
        set(),
        set(),
    )
    applied = cache.apply(answer(topic("t", {0: 9}, IDS[0])), full=True)
    assert applied.outdated == {TopicPartition("t", 0)}
    assert cache.snapshot.topic_id("t") == IDS[1]
    assert cache.last_seen_epoch(TopicPartition("t", 0)) == 0


def test_m05_a_broker_that_rejects_the_id_held_lets_a_former_one_return() -> None:
    cache = cache_of(topic("t", {0: 5}, IDS[0]))
    cache.apply(answer(topic("t", {0: 0}, IDS[1])), full=True)
    cache.see_rejected_id("t", IDS[0])  # says nothing about the one that is held
    assert cache.apply(answer(topic("t", {0: 9}, IDS[0])), full=True).outdated
    cache.see_rejected_id("t", IDS[1])
    assert not cache.apply(answer(topic("t", {0: 9}, IDS[0])), full=True).outdated
    assert cache.snapshot.topic_id("t") == IDS[0]


def test_m05_former_ids_are_bounded() -> None:
    cache = MetadataCache()
    for topic_id in IDS:
        assert not cache.apply(answer(topic("t", {0: 0}, topic_id)), full=True).outdated
    newest_first = IDS[-2::-1]
    refused = [
        bool(cache.apply(answer(topic("t", {0: 0}, one)), full=True).outdated)
        for one in newest_first[: FORMER_IDS + 1]
    ]
    assert refused == [True] * FORMER_IDS + [False]


def test_m18_a_former_id_in_five_agreeing_answers_is_believed_and_reported() -> None:
    cache = cache_of(topic("t", {0: 5}, IDS[0]))
    cache.apply(answer(topic("t", {0: 0}, IDS[1])), full=True)
    for _ in range(AGREEING_ANSWERS - 1):
        assert cache.apply(answer(topic("t", {0: 5}, IDS[0])), full=True).outdated
    applied = cache.apply(answer(topic("t", {0: 5}, IDS[0])), full=True)
    assert applied.possible_data_loss == {TopicPartition("t", 0)}
    assert cache.snapshot.topic_id("t") == IDS[0]


@pytest.mark.parametrize(
    ("before", "after", "recreated"), [(9, 0, True), (5, 2, True), (5, 3, False), (4, 2, False)]
)
def test_m18_without_ids_a_long_way_back_to_a_new_history_is_another_topic(
    before: int, after: int, recreated: bool
) -> None:
    cache = cache_of(topic("t", {0: before}))
    for _ in range(AGREEING_ANSWERS):
        applied = cache.apply(answer(topic("t", {0: after}), version=9), full=True)
    assert applied.possible_data_loss == {TopicPartition("t", 0)}
    assert applied.recreated == ({"t"} if recreated else set())


# ---- what the application hears ------------------------------------------------------------------


def test_m18_possible_data_loss_is_an_event_and_a_bad_listener_does_no_harm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Any] = []
    event = PossibleDataLoss((TopicPartition("t", 0),), ("t",))
    notify(heard.append, event)
    assert heard == [event]
    assert "records of t-0 may be lost" in caplog.text

    def broken(_: Any) -> None:
        raise ValueError("not mine")

    notify(broken, event)
    assert "not mine" in caplog.text


# ---- how many refreshes --------------------------------------------------------------------------


def refreshes(cache: MetadataCache, answers: Any, *, within_ms: int) -> tuple[int, int]:
    """Ask as a client does, at once where the pause allows it, until nothing is
    needed; return count and time.
    """
    schedule, now = RefreshSchedule(Backoff(100, 1000), 300_000, random.Random(1).random), 0
    schedule.want(["t"])
    schedule.request_full()
    while schedule.needed(now) and now < within_ms:
        request = schedule.begin(now)
        schedule.finished(request, cache.apply(next(answers), full=True), now)
        now += schedule.due_in_ms(now) if schedule.needed(now) else 0
    return schedule.refreshes, now


def test_m15_one_answer_that_is_behind_costs_one_more_refresh() -> None:
    cache = cache_of(topic("t", {0: 5}))
    assert (
        refreshes(
            cache, iter([answer(topic("t", {0: 4})), answer(topic("t", {0: 6}))]), within_ms=60_000
        )[0]
        == 2
    )


def test_m18_a_step_back_that_stays_costs_five_refreshes_and_less_than_two_seconds() -> None:
    cache = cache_of(topic("t", {0: 5}))
    count, took_ms = refreshes(
        cache, iter(lambda: answer(topic("t", {0: 4})), None), within_ms=60_000
    )
    assert count == AGREEING_ANSWERS
    assert took_ms < 2_000  # 100 + 200 + 400 + 800 ms, shaken


@pytest.mark.parametrize(
    "hostile", ["epochs that never agree", "half the partitions in turn", "ids in turn"]
)
def test_m15_brokers_that_never_agree_cannot_make_a_storm(hostile: str) -> None:
    cache = cache_of(topic("t", {0: 50, 1: 50}, IDS[0]))
    cache.apply(answer(topic("t", {0: 50, 1: 50}, IDS[1])), full=True)

    def lies() -> Any:
        while True:
            for turn in range(2):
                if hostile.startswith("epochs"):
                    yield answer(topic("t", {0: 10 + turn, 1: 20 + turn}, IDS[1]))
                elif hostile.startswith("half"):
                    yield answer(topic("t", {turn: 50}, IDS[1]))
                else:
                    yield answer(topic("t", {0: 60, 1: 60}, IDS[turn]))

    count, _ = refreshes(cache, lies(), within_ms=60_000)
    assert count <= 80  # one a second, with 20 % jitter


def test_interest_in_10_of_1000_partitions_saves_the_refreshes_for_the_other_990() -> None:
    """One broker is always one step behind on 20 partitions of 1,000 while leaders move:
    who asks again, how often?
    """
    rng = random.Random(232)
    mine = [TopicPartition("t", index) for index in range(10)]
    reader = cache_of(topic("t", dict.fromkeys(range(1000), 0)), interest=mine)
    everything = cache_of(topic("t", dict.fromkeys(range(1000), 0)))
    epochs = dict.fromkeys(range(1000), 0)
    forced = {"reader": 0, "everything": 0}
    for _ in range(300):
        moved = rng.sample(range(1000), 20)
        behind = dict(epochs)
        epochs.update({index: epochs[index] + 1 for index in moved})
        newest, late = answer(topic("t", epochs)), answer(topic("t", behind))
        for name, cache in (("reader", reader), ("everything", everything)):
            cache.apply(newest, full=True)
            forced[name] += bool(cache.apply(late, full=True).outdated)
    assert forced["everything"] == 300
    assert forced["reader"] < 75  # 1 - (990/1000)^20 is 18 %: 300 refreshes become about 55
    assert forced["reader"] > 30


# ---- the page's first draft, for comparison ------------------------------------------------------


def test_the_drafts_order_refuses_whole_answers_and_accepts_whole_ones() -> None:
    cache = GlobalOrderCache()
    cache.apply(stamped((1, 10), topic("t", {0: 5}, IDS[0])), full=True)
    assert cache.apply(stamped((1, 9), topic("t", {0: 9}, IDS[0])), full=True).outdated
    assert cache.snapshot.partition(TopicPartition("t", 0)) == PartitionMetadata(
        0, 1, 5, (1, 2, 3), (1, 2, 3)
    )
    # a new controller begins at 0
    applied = cache.apply(stamped((2, 0), topic("t", {0: 2})), full=True)
    assert not applied.outdated
    assert cache.current_leader(TopicPartition("t", 0)).epoch == 2
    # equal is accepted
    assert not cache.apply(stamped((2, 0), topic("t", {1: 1})), full=True).outdated
    assert set(cache.snapshot.topics["t"].partitions) == {1}


# ---- readers while it is written -----------------------------------------------------------------


def test_m16_readers_in_other_threads_see_whole_pictures() -> None:
    cache = cache_of(topic("t", dict.fromkeys(range(50), 0)))
    stop, torn = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            parts = cache.snapshot.topics["t"].partitions
            if len({(part.leader, part.leader_epoch) for part in parts.values()}) != 1:
                torn.append(dict(parts))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for epoch in range(1, 300):
        cache.apply(
            answer(topic("t", dict.fromkeys(range(50), epoch), leader=epoch % 3 + 1)), full=True
        )
    stop.set()
    for thread in readers:
        thread.join()
    assert not torn


def test_m12_overlapping_partial_updates_keep_the_newest_of_each_topic() -> None:
    cache = cache_of(topic("a", {0: 3}), topic("b", {0: 3}))
    first, second = (
        answer(topic("a", {0: 4}), topic("b", {0: 4})),
        answer(topic("b", {0: 5}), topic("c", {0: 0})),
    )
    cache.apply(second, full=False)  # the later question was answered first
    applied = cache.apply(first, full=False)
    assert applied.outdated == {TopicPartition("b", 0)}
    assert {
        name: found.partitions[0].leader_epoch for name, found in cache.snapshot.topics.items()
    } == {
        "a": 4,
        "b": 5,
        "c": 0,
    }
