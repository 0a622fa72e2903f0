"""Y6: what a plan creates, what it leaves alone, and what it says cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.client import NewTopic
from parley.pipelines.replication.options import ReplicationOptions
from parley.pipelines.replication.plan import Plan, Target, Topic, plan

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
DEFAULTS = {
    "retention.ms": str(7 * DAY_MS),
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "max.message.bytes": "1048588",
}


def planned(source: Topic, target: Target | None = None, **given: Any) -> Plan:
    options = ReplicationOptions(**{"name": "to-new", "topics": ["flights"], **given})
    return plan([source], target or Target(3, {}, DEFAULTS), options, NOW_MS)


def codes(found: Plan) -> dict[str, bool]:
    return {one.code: one.stops for one in found.findings}


def test_a_topic_gets_what_differs_from_the_targets_defaults_and_exists_there() -> None:
    configs = {
        "retention.ms": str(DAY_MS),
        "max.message.bytes": "1048588",
        "message.format.version": "2.8",
        "local.retention.ms": "5",
        "leader.replication.throttled.replicas": "0:1",
    }
    found = planned(Topic("flights", 12, 3, configs))
    assert found.create == (NewTopic("flights", 12, 3, {"retention.ms": str(DAY_MS)}),)
    assert codes(found) == {"config-unknown": False}
    assert "local.retention.ms" in found.findings[0].text


def test_fewer_brokers_make_fewer_replicas_and_fewer_in_sync() -> None:
    found = planned(Topic("flights", 1, 3, {"min.insync.replicas": "2"}), Target(1, {}, DEFAULTS))
    assert found.create == (NewTopic("flights", 1, 1, {"min.insync.replicas": "1"}),)
    assert codes(found) == {"replicas": False, "min-insync-replicas": False}


def test_the_targets_own_default_is_capped_too() -> None:
    target = Target(1, {}, {**DEFAULTS, "min.insync.replicas": "2"})
    found = planned(Topic("flights", 1, 1, {}), target)
    assert found.create[0].configs == {"min.insync.replicas": "1"}


def test_partitions_are_added_and_never_taken_away() -> None:
    for there, added in ((2, {"flights": 4}), (4, {}), (6, {})):
        found = planned(Topic("flights", 4), Target(3, {"flights": Topic("flights", there)}))
        assert found.create == ()
        assert found.add_partitions == added
        assert ("more-partitions" in codes(found)) == (there > 4)


@pytest.mark.parametrize(
    ("there", "source", "more", "code"),
    [
        (
            {"effective": {"message.timestamp.type": "LogAppendTime"}},
            {},
            {},
            "timestamps",
        ),
        (None, {"has_headers": True}, {"has_headers": False}, "headers"),
        (None, {}, {"has_transactions": False}, "exactly-once"),
        (None, {}, {"creates_topics": False}, "create-topics"),
        ({"partitions": 1}, {}, {"adds_partitions": False}, "add-partitions"),
    ],
)
def test_what_cannot_be_stops_unless_it_is_accepted(
    there: dict[str, Any] | None, source: dict[str, Any], more: dict[str, Any], code: str
) -> None:
    topics = {} if there is None else {"flights": Topic("flights", **{"partitions": 4, **there})}
    found = planned(Topic("flights", 4, **source), Target(3, topics, DEFAULTS, **more))
    assert [one.code for one in found.stopping()] == [code]
    assert found.stopping([code]) == []


def test_headers_that_are_dropped_stop_nothing() -> None:
    target = Target(3, {}, DEFAULTS, has_headers=False)
    assert planned(Topic("flights", 1, has_headers=True), target, headers="drop").stopping() == []


def test_a_name_that_metrics_take_for_another_one_stops() -> None:
    target = Target(3, {"flights_a": Topic("flights_a", 1)}, DEFAULTS)
    assert codes(planned(Topic("flights.a", 1), target))["name"]


def test_what_overwrites_timestamps_is_not_copied() -> None:
    found = planned(Topic("flights", 1, 1, {"message.timestamp.type": "LogAppendTime"}))
    assert found.create[0].configs == {"message.timestamp.type": "CreateTime"}
    assert codes(found) == {"timestamps": False}


def test_what_the_target_would_delete_at_once_is_said() -> None:
    old = {"oldest_ms": NOW_MS - 10 * DAY_MS, "configs": {}}
    assert "retention" in codes(planned(Topic("flights", 1, **old)))
    kept = {**old, "configs": {"retention.ms": str(20 * DAY_MS)}}
    assert "retention" not in codes(planned(Topic("flights", 1, **kept)))
    forever = {**old, "configs": {"retention.ms": "-1"}}
    assert "retention" not in codes(planned(Topic("flights", 1, **forever)))
    compacted = {**old, "configs": {"cleanup.policy": "compact"}}
    assert "retention" not in codes(planned(Topic("flights", 1, **compacted)))


@pytest.mark.parametrize(
    "name", ["message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"]
)
def test_timestamps_that_the_target_refuses_as_too_old_stop(name: str) -> None:
    old = Topic("flights", 1, oldest_ms=NOW_MS - 10 * DAY_MS, configs={})
    limits = {5 * DAY_MS: ["timestamps-too-old"], 20 * DAY_MS: [], 2**63 - 1: []}
    for limit, expected in limits.items():
        held = {**DEFAULTS, name: str(limit)}
        new = planned(old, Target(3, {}, held))
        there = planned(old, Target(3, {"flights": Topic("flights", 1, effective=held)}, DEFAULTS))
        for found in (new, there):
            assert [one.code for one in found.stopping()] == expected


def test_what_old_releases_do_not_show_is_said() -> None:
    found = planned(Topic("flights", 1, oldest_ms=-1), timestamp_when_missing="zero")
    assert codes(found) == {"timestamps-missing": False, "configs-unknown": False}
    assert "timestamp_when_missing=zero" in found.findings[0].text
    undated = Target(3, {}, DEFAULTS, has_timestamps=False)
    assert codes(planned(Topic("flights", 1, configs={}, oldest_ms=NOW_MS), undated)) == {
        "timestamps": False
    }


settings = st.dictionaries(
    st.sampled_from([*DEFAULTS, "message.format.version", "segment.bytes"]),
    st.sampled_from(["1", "2", "3", "delete", "CreateTime", "LogAppendTime"]),
)
topics = st.builds(
    Topic,
    st.sampled_from(["a", "b"]),
    st.integers(1, 5),
    st.integers(1, 4),
    st.none() | settings,
    settings,
    st.none() | st.integers(-1, NOW_MS),
    st.booleans(),
)


@given(st.lists(topics, max_size=2, unique_by=lambda one: one.name), topics, st.integers(1, 4))
def test_after_a_plan_there_is_nothing_left_to_create(
    source: list[Topic], other: Topic, brokers: int
) -> None:
    options = ReplicationOptions(name="to-new", topics=["a", "b"])
    before = Target(brokers, {other.name: other}, DEFAULTS)
    found = plan(source, before, options, NOW_MS)
    made = {
        new.name: Topic(new.name, new.num_partitions, new.replication_factor, {}, dict(new.configs))
        for new in found.create
    }
    for new in found.create:
        assert new.name not in before.topics
        assert new.replication_factor <= brokers
        assert new.configs.get("message.timestamp.type", "CreateTime") == "CreateTime"
    counts = {one.name: found.add_partitions.get(one.name, one.partitions) for one in [other]}
    grown = {other.name: Topic(other.name, counts[other.name])}
    after = plan(source, Target(brokers, {**grown, **made}, DEFAULTS), options, NOW_MS)
    assert after.create == ()
    assert after.add_partitions == {}
