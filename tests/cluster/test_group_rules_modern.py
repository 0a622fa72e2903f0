"""Rules of members of the consumer protocol (KIP-848) over the wire, in virtual time."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from parley.client import OffsetAndMetadata, TopicPartition
from parley.devcluster.handlers import h68_consumer_group_heartbeat as handler
from parley.devcluster.state.groups.modern.assignors import Part
from parley.errors import (
    BrokerError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnreleasedInstanceIdError,
    UnsupportedVersionError,
)
from parley.messages import ConsumerGroupHeartbeatRequest, OffsetFetchRequest

from .lone_member import (
    EVERYTHING,
    GROUP,
    MODERN,
    PARTITIONS,
    SETTINGS,
    TOPIC,
    TP,
    Lone,
    Seen,
    Slow,
    beats,
    lone,
)

SAYS_NOTHING = (-1, None, None)


def said(beat: ConsumerGroupHeartbeatRequest) -> tuple[int, list[str] | None, list[int] | None]:
    """Return what a heartbeat says beside who it is from."""
    owned = beat.topic_partitions
    parts = None if owned is None else [part for topic in owned for part in topic.partitions]
    return beat.rebalance_timeout_ms, beat.subscribed_topic_names, parts


# -- heartbeats ------------------------------------------------------------------------------------


def test_g47_heartbeats_say_everything_to_join_and_after_a_failure_else_what_is_new() -> None:
    with lone("4.3", joins=False) as one:
        one.consumer = one.join(**MODERN)
        one.go_on(16_000)
        joining, acknowledging, *quiet = beats(one)
        assert (joining.member_epoch, said(joining)) == (0, (20_000, [TOPIC], []))
        assert said(acknowledging) == (-1, None, [0, 1])
        assert {said(beat) for beat in quiet} == {SAYS_NOTHING}
        who = one.consumer.group_metadata()
        assert {(beat.group_id, beat.member_id, beat.member_epoch) for beat in quiet} == {
            (who.group_id, who.member_id, who.generation_id)
        }
        one.cluster.clear_requests()
        one.cluster.faults.fail("ConsumerGroupHeartbeat", 14)
        one.go_on(11_000)
        refused, again, after = (said(beat) for beat in beats(one))
        assert (refused, after) == (SAYS_NOTHING, SAYS_NOTHING)
        assert again == (20_000, [TOPIC], [0, 1])


def moments(one: Lone, client: str) -> list[int]:
    """Return when a client sent heartbeats, in milliseconds since the first."""
    sent = [
        entry.at_ms for entry in one.cluster.requests("ConsumerGroupHeartbeat", client_id=client)
    ]
    return [at_ms - sent[0] for at_ms in sent]


def a_crowded_group(one: Lone) -> str:
    """Let members join until the last one is given nothing; return its client."""
    for _ in range(PARTITIONS):
        one.join(Seen(), **MODERN)
        one.go_on(16_000)
    one.consumer = one.join(Seen(), **MODERN)
    return f"c{PARTITIONS}"


def test_g52_who_joins_and_is_given_nothing_has_nothing_to_acknowledge() -> None:
    with lone("4.3", joins=False) as one:
        last = a_crowded_group(one)
        one.go_on(16_000)
        joining, *others = beats(one, last)
        assert joining.member_epoch == 0
        assert {said(beat) for beat in others} == {SAYS_NOTHING}
        health = one.consumer.health()
        assert health is not None
        assert (health.state, health.assigned, health.rebalances) == ("stable", 0, 1)


def test_g50_who_joins_asks_ten_times_as_often_for_a_while() -> None:
    with lone("4.3", joins=False) as one:
        last = a_crowded_group(one)
        one.go_on(24_000)
        at_ms = moments(one, last)
        gaps_ms = [later - sooner for sooner, later in pairwise(at_ms)]
        often = gaps_ms.index(next(gap_ms for gap_ms in gaps_ms if gap_ms > 1_000))
        assert 14 <= often <= 15  # one interval and a half
        assert all(500 <= gap_ms < 550 for gap_ms in gaps_ms[:often])
        assert all(5_000 <= gap_ms < 5_050 for gap_ms in gaps_ms[often:])


class Timed(Seen):
    """Keeps when it was called with partitions, too."""

    def __init__(self, one: Lone) -> None:
        super().__init__()
        self.at_ms: dict[str, int] = {}
        """What it was called for → when that was last."""
        self._clock = one.time.clock

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        if assigned:
            self.at_ms["assigned"] = self._clock.now_ms()

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.at_ms["revoked"] = self._clock.now_ms()


@pytest.mark.parametrize("after_ms", [1_000, 2_500, 4_000])
def test_g50_what_a_member_gives_up_is_taken_soon(after_ms: int) -> None:
    """However long before its next heartbeat the member that gives it up has its own."""
    with lone("4.3", **MODERN) as one:
        gives, takes = Timed(one), Timed(one)
        one.subscribe(one.consumer, gives)
        one.go_on(after_ms)
        one.join(takes, **MODERN)
        one.go_on(12_000)
        # a tenth of the interval, and the time to the next poll of either
        assert 0 <= takes.at_ms["assigned"] - gives.at_ms["revoked"] <= 500 + 250 + 50


def test_g49_the_interval_is_that_of_the_answer_from_the_first_one_on() -> None:
    settings = replace(SETTINGS, group_consumer_heartbeat_interval_ms=500)
    with lone("4.3", joins=False, settings=settings) as one:
        last = a_crowded_group(one)
        one.go_on(4_000)
        gaps_ms = [later - sooner for sooner, later in pairwise(moments(one, last))]
        assert len(gaps_ms) <= 16
        assert all(500 <= gap_ms < 550 for gap_ms in gaps_ms[9:])


def test_g51_what_metadata_does_not_name_yet_is_taken_later() -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.create_topic("another", 1)
        one.cluster.faults.fail("Metadata", 3, times=-1, topic="another")
        one.consumer = one.join(**MODERN)
        one.subscribe(one.consumer, one.seen, (TOPIC, "another"))
        one.go_on(12_000)
        assert one.seen.calls[-1] == ("assigned", EVERYTHING)
        assert [said(beat)[2] for beat in beats(one) if said(beat)[2]] == [[0, 1]]
        one.cluster.faults.clear()
        one.go_on(12_000)
        assert one.seen.calls[-1] == ("assigned", ["another-0"])
        assert ("lost", EVERYTHING) not in one.seen.calls
        assert one.state == "stable"


@pytest.mark.parametrize("code", [42, 69, 81, 82, 111, 112, 128, 35])
def test_g54_what_is_fatal_is_raised_by_every_poll_and_ends_the_heartbeats(code: int) -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.fail("ConsumerGroupHeartbeat", code)
        with pytest.raises(KafkaError) as raised:
            one.go_on(15_000)
        assert isinstance(raised.value, UnsupportedVersionError if code == 35 else BrokerError)
        one.cluster.clear_requests()
        for _ in range(40):
            with pytest.raises(KafkaError):
                one.go_on(500)
        assert not beats(one)
        assert one.seen.calls[-1] == ("lost", EVERYTHING)
        assert one.consumer.assignment() == frozenset()


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (29, TopicAuthorizationFailedError, f"group {GROUP}]: it subscribes to {TOPIC}; the user"),
        (30, GroupAuthorizationFailedError, f"group {GROUP}]: the user needs the right Read"),
    ],
)
def test_g54_a_missing_right_is_raised_and_the_membership_goes_on(
    code: int, error: type[BrokerError], says: str
) -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.fail("ConsumerGroupHeartbeat", code)
        with pytest.raises(error, match=re.escape(says)):
            one.go_on(8_000)
        one.go_on(8_000)
        assert one.consumer.group_metadata() == one.before
        assert one.seen.calls == [("assigned", EVERYTHING)]


@pytest.mark.parametrize("code", [69, 25, 16])
def test_g54_g55_a_farewell_is_said_once_and_holds_nobody_up(code: int) -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.fail("ConsumerGroupHeartbeat", code)
        began_ms = one.time.clock.now_ms()
        one.stop(one.consumer)
        assert one.time.clock.now_ms() - began_ms < 1_000
        assert [beat.member_epoch for beat in beats(one)] == [-1]
        assert one.seen.calls[-1] == ("revoked", EVERYTHING)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_g55_who_polls_too_late_says_so_and_joins_again_at_the_next_poll(
    instance: str | None, epoch: int
) -> None:
    with lone("4.3", group_instance_id=instance, **MODERN) as one:
        one.time.advance(25_000)
        assert one.state == "stale"
        assert [beat.member_epoch for beat in beats(one) if beat.member_epoch < 0] == [epoch]
        one.cluster.clear_requests()
        one.time.advance(60_000)
        assert not beats(one)
        one.go_on(8_000)
        assert beats(one)[0].member_epoch == 0
        assert one.seen.calls[1:] == [("lost", EVERYTHING), ("assigned", EVERYTHING)]


def test_g56_a_static_member_that_closes_comes_back_at_once_and_another_waits_for_it() -> None:
    with lone("4.3", group_instance_id="one", **MODERN) as one:
        other = one.join(Seen(), group_instance_id="one", **MODERN)
        with pytest.raises(UnreleasedInstanceIdError):
            one.go_on(1_000)
        one.stop(other)
        one.go_on(6_000)
        assert one.consumer.group_metadata() == one.before  # it is none the worse for it
        one.stop(one.consumer)
        assert beats(one)[-1].member_epoch == -2
        one.consumer = one.join(group_instance_id="one", **MODERN)
        one.go_on(1_000)
        assert one.seen.calls[-1] == ("assigned", EVERYTHING)
        assert one.consumer.group_metadata().member_id != one.before.member_id


def test_g61_a_partition_that_is_assigned_twice_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_topic = handler.by_topic

    def twice(parts: frozenset[Part]) -> dict[bytes, list[int]]:
        return {topic: [*found, *found, -1] for topic, found in by_topic(parts).items()}

    monkeypatch.setattr(handler, "by_topic", twice)
    with lone("4.3", joins=False) as one:
        one.produce(5)
        one.consumer = one.join(**MODERN)
        assert one.go_on(8_000) == 5
        one.cluster.add_partitions(TOPIC, 3)
        assert one.go_on(20_000) == 0
        assert one.seen.calls == [("assigned", EVERYTHING), ("assigned", [f"{TOPIC}-2"])]


# -- reconciliation --------------------------------------------------------------------------------


def test_g52_what_is_new_is_fetched_when_the_listener_has_heard_of_it() -> None:
    with lone("4.3", joins=False) as one:
        one.produce(3)
        slow = Slow("assigned")
        one.consumer = one.join(slow, **MODERN)
        poll = one.time.start(one.consumer.getmany(timeout_ms=60_000))
        one.time.advance(8_000)
        assert slow.calls == [("assigned", EVERYTHING)]
        assert not one.cluster.requests("Fetch")

        async def seek() -> None:
            one.consumer.seek(TP, 1)

        one.time.run(seek())
        slow.open()
        one.time.until(poll.done)
        (records,) = poll.result().values()
        assert [record.offset for record in records] == [1, 2]


def test_g52_positions_are_committed_before_partitions_are_given_up() -> None:
    regular = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}
    with lone("4.3", **MODERN, **regular) as one:
        for partition in (0, 1):
            one.produce(5, partition)
        assert one.go_on(2_000) == 10
        one.cluster.faults.fail("OffsetCommit", 113, times=2)
        second = Seen()
        one.join(second, **MODERN, **regular)
        assert one.go_on(20_000) == 0  # the other one goes on behind what was read
        (gave,) = [parts for what, parts in one.seen.calls if what == "revoked"]
        assert ("assigned", gave) in second.calls
        commits = [entry.at_ms for entry in one.cluster.requests("OffsetCommit", client_id="c0")]
        (acknowledged,) = [
            entry.at_ms
            for entry in one.cluster.requests("ConsumerGroupHeartbeat", client_id="c0")
            if isinstance(entry.message, ConsumerGroupHeartbeatRequest)
            and said(entry.message)[2] is not None
        ]
        assert len(commits) == 3
        assert max(commits) <= acknowledged


def a_slow_member(one: Lone) -> Slow:
    """Let the member hear of what it is to give up, and not answer."""
    slow = Slow("revoked")
    one.subscribe(one.consumer, slow)
    one.polling(one.consumer)
    one.join(Seen(), **MODERN)
    one.go_on(8_000)
    assert [what for what, _ in slow.calls] == ["revoked"]
    return slow


def test_g52_a_target_that_changes_meanwhile_follows_when_this_one_is_reached() -> None:
    with lone("4.3", **MODERN) as one:
        slow = a_slow_member(one)
        gave = slow.calls[0][1]
        one.stop(one.consumers[0])
        one.time.advance(4_000)
        slow.open()
        one.time.advance(15_000)
        assert slow.calls == [("revoked", gave), ("assigned", []), ("assigned", gave)]
        assert one.state == "stable"


def test_g52_what_a_fenced_member_was_giving_up_is_not_given_up_again() -> None:
    with lone("4.3", **MODERN) as one:
        slow = a_slow_member(one)
        gave = slow.calls[0][1]
        (kept,) = set(EVERYTHING) - set(gave)
        one.cluster.faults.fail("ConsumerGroupHeartbeat", 110, client_id="c0")
        one.time.advance(6_000)
        assert len(slow.calls) == 1
        slow.open()
        one.go_on(20_000)
        assert slow.calls[:2] == [("revoked", gave), ("lost", [kept])]
        assert [what for what, _ in slow.calls[2:]] == ["assigned"]
        assert len(one.consumer.assignment()) == 1


# -- commits ---------------------------------------------------------------------------------------


def asked_as(one: Lone) -> tuple[str | None, int]:
    """Return as whom offsets were asked for last."""
    message = one.cluster.requests("OffsetFetch")[-1].message
    assert isinstance(message, OffsetFetchRequest)
    return message.groups[0].member_id, message.groups[0].member_epoch


def test_g57_commits_and_offset_fetches_say_who_asks() -> None:
    with lone("4.3", **MODERN) as one:
        one.time.run(one.consumer.commit({TP: 1}))
        assert one.time.run(one.consumer.committed(TP)) == OffsetAndMetadata(1)
        commit = one.cluster.requests("OffsetCommit")[-1].message
        who = one.before.member_id, one.before.generation_id
        assert (commit.member_id, commit.generation_id_or_member_epoch) == who  # type: ignore[union-attr]
        assert asked_as(one) == who


def test_g57_a_member_of_the_classic_protocol_asks_as_nobody() -> None:
    with lone("4.3") as one:
        one.time.run(one.consumer.committed(TP))
        assert asked_as(one) == (None, -1)


@pytest.mark.parametrize("api", ["OffsetCommit", "OffsetFetch"])
@pytest.mark.parametrize("code", [113, 100])
def test_g57_what_may_be_right_the_next_time_goes_again(api: str, code: int) -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.fail(api, code, times=2)
        one.time.run(one.consumer.commit({TP: 1}))
        assert one.time.run(one.consumer.committed(TP)) == OffsetAndMetadata(1)
        assert len(one.cluster.requests(api)) == 3
        assert one.consumer.group_metadata() == one.before


@pytest.mark.parametrize("api", ["OffsetCommit", "OffsetFetch"])
def test_g57_who_is_no_member_has_lost_its_partitions_and_joins_again(api: str) -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.fail(api, 25)
        if api == "OffsetCommit":
            with pytest.raises(CommitFailedError, match="UNKNOWN_MEMBER_ID"):
                one.time.run(one.consumer.commit({TP: 1}))
        else:
            assert one.time.run(one.consumer.committed(TP)) is None
            assert asked_as(one) == (None, -1)
        one.go_on(8_000)
        assert one.seen.calls[1:] == [("lost", EVERYTHING), ("assigned", EVERYTHING)]
