"""What is asked next, of whom, and when to look again: decided from
partitions and metadata alone.
"""

from __future__ import annotations

from typing import Any

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.fetch.plan import Moment, Plan, make_plan
from parley.client.fetch.positions import PartitionPosition, Stage
from parley.client.fetch.recreation import ROUND_MS, ROUNDS, Incarnation
from parley.client.fetch.state import PartitionFetch
from parley.client.results import EARLIEST
from parley.errors import TopicRecreatedError

from .metadata_answers import ID_A, ID_B, TP0, TP1, answer, cache_with

NOW, DUE = 10_000, 300_000


def part(tp=TP0, offset=10, epoch=-1, **more: Any) -> PartitionFetch:
    place = PartitionPosition(tp)
    place.seek(offset, epoch)
    return PartitionFetch(tp, place, more.pop("end", None), 100, **more)


def plan_of(*parts: PartitionFetch, cache: MetadataCache | None = None, **moment: Any) -> Plan:
    cache = cache if cache is not None else cache_with({0: 3, 1: 3}, leaders={0: 1, 1: 2})
    given = {
        "now_ms": NOW,
        "metadata_due_ms": DUE,
        "refreshes": 1,
        "refreshing": False,
        "full": False,
    } | moment
    return make_plan(parts, cache, Moment(**given))


def test_each_partition_is_fetched_from_its_leader() -> None:
    one, two = part(TP0), part(TP1)
    plan = plan_of(one, two)
    assert plan == Plan(fetches={1: [one], 2: [two]}, look_again_ms=DUE)


def test_nothing_is_asked_for_what_waits_is_done_or_has_no_position() -> None:
    waits, done = part(flight=object()), part(offset=20, end=20)
    unset = PartitionFetch(TP0, PartitionPosition(TP0), None, 100)
    assert plan_of(waits, done, unset) == Plan(look_again_ms=DUE)


def test_nothing_is_fetched_while_enough_waits_or_paused_but_positions_are_kept() -> None:
    paused, checked = part(TP0, paused=True), part(TP1, epoch=2)
    plan = plan_of(paused, checked)
    assert (plan.fetches, plan.validations) == ({}, {2: [checked]})
    assert checked.positions.stage is Stage.AWAIT_VALIDATION
    assert plan_of(part(), full=True).fetches == {}


def test_a_partition_that_nobody_leads_is_a_failed_attempt_once_its_backoff_is_over() -> None:
    cache = cache_with({0: 3}, leaders={0: -1})
    due, later = part(), part(not_before_ms=NOW + 70)
    assert plan_of(due, cache=cache).leaderless == [due]
    plan = plan_of(later, cache=cache)
    assert (plan.leaderless, plan.look_again_ms) == ([], NOW + 70)


def test_a_failed_partition_waits_for_its_backoff_or_another_epoch() -> None:
    same, moved = (
        part(not_before_ms=NOW + 50, failed_epoch=3),
        part(TP1, not_before_ms=NOW + 90, failed_epoch=2),
    )
    for one in (same, moved):
        one.positions.meet(1, 3)
    plan = plan_of(same, moved)
    assert (plan.fetches, plan.look_again_ms) == ({2: [moved]}, NOW + 50)


def test_a_reset_is_looked_up_when_its_backoff_is_over() -> None:
    due, later = part(TP0), part(TP1, not_before_ms=NOW + 40)
    for one in (due, later):
        one.positions.request_reset(EARLIEST)
    plan = plan_of(due, later)
    assert (plan.resets, plan.look_again_ms) == ([due], NOW + 40)


def test_a_follower_is_read_from_while_it_is_online_and_its_lease_lasts() -> None:
    def source(until_ms: int, **offline: Any) -> int:
        one = part(preferred=(2, until_ms))
        (node_id,) = plan_of(one, cache=cache_with({0: 3}, **offline)).fetches
        assert (one.preferred is None) == (node_id == 1)
        return node_id

    assert (source(NOW + 1), source(NOW), source(NOW + 1, offline_replicas=(2,))) == (2, 1, 1)


def test_a_changed_topic_id_ends_fetches_by_name_and_metadata_is_asked_a_few_times() -> None:
    one = part(by_wire=False, topic=Incarnation(ID_A, held_since_ms=NOW))
    cache = cache_with({0: 0}, topic_id=ID_B)
    plan = plan_of(one, cache=cache)
    assert (plan.fetches, plan.needs_metadata, plan.look_again_ms) == ({}, True, NOW + ROUND_MS)
    assert not plan_of(one, cache=cache, refreshing=True).needs_metadata, "one question at a time"
    asked = 1 + sum(plan_of(one, cache=cache).needs_metadata for _ in range(2 * ROUNDS))
    assert asked == ROUNDS


def test_a_recreated_topic_drops_what_was_fetched_and_stops_without_a_policy() -> None:
    one = part(by_wire=False, topic=Incarnation(ID_A, held_since_ms=NOW), attempts=3)
    cache = cache_with({0: 0}, topic_id=ID_B)
    plan_of(one, cache=cache, refreshes=1)
    cache.apply(answer({0: 0}, topic_id=ID_B), full=True)
    plan = plan_of(one, cache=cache, refreshes=2)
    assert (plan.recreated, plan.fetches) == ([one], {})
    assert isinstance(one.positions.error, TopicRecreatedError)
    assert (one.topic.held, one.attempts, one.position_epoch) == (
        ID_B,
        0,
        one.positions.position_epoch,
    )
