"""What users of other clients complain about, one test for each complaint, in virtual time."""

from __future__ import annotations

import logging

import pytest

from parley.client.consumer.options import ConsumerOptions
from parley.errors import CommitFailedError, ConfigError

from .lone_member import MODERN, PARTITIONS, TP, Seen, lone


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
