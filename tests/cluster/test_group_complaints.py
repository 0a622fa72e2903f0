"""What users of other clients complain about, one test for each complaint, in virtual time."""

from __future__ import annotations

import logging

import pytest

from parley.client import TopicPartition
from parley.client.consumer.options import ConsumerOptions
from parley.devcluster import ClusterSettings
from parley.errors import CommitFailedError, ConfigError, RebalanceInProgressError

from .lone_member import EVERYTHING, GROUP, MODERN, PARTITIONS, TOPIC, TP, Seen, Slow, lone

BOTH = pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])


def test_u1_a_rebalance_beside_the_loop_changes_nothing_until_the_next_poll() -> None:
    with lone("4.3") as one:
        before = one.consumer.assignment()
        one.join(Seen())
        one.time.advance(5_000)  # the coordinator rebalances; the application processes
        assert one.consumer.assignment() == before
        one.time.run(one.consumer.commit({TP: 0}))
        one.go_on(10_000)
        assert len(one.consumer.assignment()) == PARTITIONS // 2


def test_u2_a_rebalance_is_one_line_of_info_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with lone("4.3") as one, caplog.at_level(logging.INFO, "parley.client"):
        one.consumer.enforce_rebalance("a test")
        one.go_on(5_000)
        lines = [
            record.getMessage() for record in caplog.records if "rebalance" in record.getMessage()
        ]
        assert len(lines) == 1
        assert lines[0].endswith("its reason: a test")
        assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_u3_health_names_the_partitions_that_cannot_be_read() -> None:
    with lone("4.3") as one:
        health = one.consumer.health()
        assert health is not None
        assert health.stalled == ()
        leader = one.cluster.leaders(TP.topic)[0][0]
        for broker in (1, 2):
            one.cluster.faults.fail("OffsetFetch", 14, times=-1, broker=broker)
        one.consumer.enforce_rebalance("a test")
        assert leader in (1, 2)
        one.stop(one.consumer)
        one.consumer = one.join()
        one.go_on(3_000)
        health = one.consumer.health()
        assert health is not None
        assert TP in health.stalled
        one.cluster.faults.clear()
        one.go_on(3_000)
        health = one.consumer.health()
        assert health is not None
        assert health.stalled == ()


def test_u4_who_polled_too_late_hears_how_late_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with lone("4.3") as one:
        one.time.advance(25_000)
        assert "longer than max_poll_interval_ms=20000" in caplog.text
        with pytest.raises(CommitFailedError) as failed:
            one.time.run(one.consumer.commit({TP: 0}))
        assert "poll sooner or raise max_poll_interval_ms" in str(failed.value.__cause__)
        one.go_on(5_000)
        assert one.state == "stable"


@BOTH
def test_u5_who_keeps_a_partition_reads_it_while_another_member_joins(how: dict[str, str]) -> None:
    with lone("4.3", **how) as one:
        second = Seen()
        one.join(second, **how)
        for _ in range(60):
            one.go_on(250)
            assert one.consumer.assignment()  # at no time without a partition
        (gave,) = [parts for what, parts in one.seen.calls if what == "revoked"]
        assert len(gave) == 1
        assert ("assigned", gave) in second.calls


@BOTH
@pytest.mark.parametrize("raises", [False, True])
def test_u6_a_listener_only_hears_what_is_assigned(how: dict[str, str], raises: bool) -> None:
    class Idle(Seen):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            if raises:
                raise ZeroDivisionError

    with lone("4.3", joins=False) as one:
        one.produce(3)
        one.consumer = one.join(Idle(), **how)
        if raises:
            with pytest.raises(ZeroDivisionError):
                one.go_on(8_000)
        assert one.go_on(8_000) == 3


def test_u7_a_third_member_moves_what_it_gets_and_commits_go_on_meanwhile() -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.add_partitions(TOPIC, 9)
        seen = [Seen() for _ in range(3)]
        one.join(seen[0])
        one.join(seen[1])
        one.go_on(10_000)
        before = {tp: at for at in (0, 1) for tp in one.consumers[at].assignment()}
        assert len(before) == 9
        one.join(seen[2])
        refused = 0
        for _ in range(40):
            one.go_on(250)
            for at, consumer in enumerate(one.consumers):
                mine = [tp for tp in consumer.assignment() if before[tp] == at]
                try:
                    if mine:
                        one.time.run(consumer.commit(dict.fromkeys(mine, 0)))
                except RebalanceInProgressError:
                    refused += 1
        assert refused < 20
        after = {tp: at for at in range(3) for tp in one.consumers[at].assignment()}
        assert sum(after[tp] != at for tp, at in before.items()) == 3  # what the third one has
        assert not [parts for one in seen for what, parts in one.calls if what == "lost"]


@BOTH
def test_u8_a_listener_that_takes_longer_than_the_session_costs_no_membership(
    how: dict[str, str],
) -> None:
    session = ClusterSettings(
        start_time_ms=1_700_000_000_000, group_consumer_session_timeout_ms=6_000
    )
    with lone("4.3", joins=False, settings=session) as one:
        slow = Slow("assigned")
        one.consumer = one.join(slow, **how)
        one.polling(one.consumer)
        one.time.advance(15_000)
        assert slow.calls == [("assigned", EVERYTHING)]
        member = one.consumer.group_metadata()
        slow.open()
        one.time.advance(15_000)
        assert one.consumer.group_metadata() == member
        assert slow.calls == [("assigned", EVERYTHING)]


def test_u9_what_is_lost_while_a_rebalance_runs_is_lost_and_not_revoked() -> None:
    with lone("4.3") as one:
        one.cluster.faults.delay("JoinGroup", 3_000, times=1)
        one.consumer.enforce_rebalance("a test")
        one.go_on(1_000)
        assert one.state == "preparing rebalance"
        one.cluster.groups.expire_member(GROUP, one.before.member_id)
        one.go_on(10_000)
        assert one.seen.calls[1:] == [("lost", EVERYTHING), ("assigned", EVERYTHING)]


def test_u10_an_error_of_the_committed_offsets_begins_nowhere() -> None:
    with lone("4.3") as one:
        one.produce(8)
        one.go_on(1_000)
        one.time.run(one.consumer.commit({TP: 6}))
        one.stop(one.consumer)
        one.cluster.faults.fail("OffsetFetch", 14, times=4)
        one.consumer = one.join(auto_offset_reset="latest")
        assert one.go_on(8_000) == 2


def test_u11_options_that_exclude_each_other_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.session\.timeout\.ms"):
        ConsumerOptions(session_timeout_ms=10_000, **MODERN)  # type: ignore[arg-type]


@BOTH
def test_u12_what_is_given_up_slowly_takes_nothing_from_what_comes_after(
    how: dict[str, str],
) -> None:
    """The partition comes back while its revocation still runs."""
    with lone("4.3", **how) as one:
        slow = Slow("revoked")
        one.subscribe(one.consumer, slow)
        one.polling(one.consumer)
        one.join(Seen(), **how)
        one.go_on(8_000)
        (gave,) = [parts for what, parts in slow.calls if what == "revoked"]
        one.stop(one.consumers[0])
        one.time.advance(4_000)
        slow.open()
        one.time.advance(15_000)
        assert [str(tp) for tp in sorted(one.consumer.assignment())] == EVERYTHING
        assert [call for call in slow.calls if call[1]] == [("revoked", gave), ("assigned", gave)]
