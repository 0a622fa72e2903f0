"""The log cleaner: which logs of compacted topics are cleaned, and when."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from parley.devcluster.state.log.bytestore import FileStores
from parley.devcluster.state.refused import Refused
from parley.errors.codes import POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION

from .compacted_topic import BACKOFF_MS, HOUR_MS, CompactedTopic, rows_of


@pytest.fixture(params=["memory", "disk"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> CompactedTopic:
    return CompactedTopic(tmp_path if request.param == "disk" else None)


# -- in the background -----------------------------------------------------------------------------


def test_without_a_closed_segment_nothing_falls_due(scene: CompactedTopic) -> None:
    scene.topic()
    scene.topic("other", cleanup_policy="delete")
    for number in range(5):
        scene.write(("a", f"{number}"))
        scene.write(("a", f"{number}"), topic="other")
    assert scene.cleaner.next_due_ms is None


def test_a_dirty_log_is_cleaned_when_the_cleaner_looks(scene: CompactedTopic) -> None:
    scene.topic(segment_ms="1000")
    scene.write(("a", "1"), ("a", "2"))
    scene.now_ms += 1_001
    scene.write(("b", "1"))
    began_ms = scene.now_ms
    assert scene.cleaner.next_due_ms is not None
    scene.pass_ms(BACKOFF_MS)
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "1"]
    assert scene.now_ms - began_ms == BACKOFF_MS
    assert scene.cleaner.next_due_ms is None, "there is nothing to do until a segment is closed"
    scene.agree()


def test_what_is_new_has_to_be_a_part_of_the_log(scene: CompactedTopic) -> None:
    scene.topic(segment_ms="1000", min_cleanable_dirty_ratio="0.5")

    def write(*pairs: tuple[str, str]) -> None:
        scene.write(*pairs)
        scene.now_ms += 1_001

    write(*((f"k{number}", "x" * 100) for number in range(10)))
    write(("a", "1"), ("a", "2"))
    scene.pass_ms(BACKOFF_MS)
    assert scene.leader().cleaned.first_dirty == 10
    write(("a", "3"))
    scene.pass_ms(10 * BACKOFF_MS)
    assert len(rows_of(scene.leader())) == 13, "little of it is new"
    scene.state.alter_topic(
        "t",
        {**scene.state.image.topics["t"].configs, "min.cleanable.dirty.ratio": "0.05"},
        now_ms=scene.now_ms,
    )
    scene.pass_ms(BACKOFF_MS)
    assert len(rows_of(scene.leader())) == 12


def test_the_dirtiest_log_comes_first_and_each_gets_its_turn(
    scene: CompactedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t", "u"):
        scene.topic(name, segment_ms="1000")
    for topic, size in (("u", 100), ("t", 10)):
        scene.write(*((f"{n}", "x") for n in range(size)), topic=topic)
        scene.now_ms += 1_001
        scene.write(("a", "1"), ("a", "2"), topic=topic)
        scene.now_ms += 1_001
        scene.write(("a", "3"), topic=topic)
    cleaned: list[str] = []
    clean = scene.cleaner._clean

    def noted(topic: object, *rest: object, **options: object) -> int:
        cleaned.append(topic.name)  # type: ignore[attr-defined]
        return clean(topic, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scene.cleaner, "_clean", noted)
    scene.pass_ms(BACKOFF_MS)
    assert sorted(cleaned) == ["t", "u"]


def test_max_compaction_lag_closes_segments_and_demands_a_cleaning(scene: CompactedTopic) -> None:
    scene.topic(max_compaction_lag_ms=str(HOUR_MS), min_cleanable_dirty_ratio="1")
    scene.write(("a", "1"), ("a", "2"))
    scene.now_ms += HOUR_MS + 1
    scene.write(("b", "1"))
    scene.pass_ms(BACKOFF_MS)
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "1"]
    scene.write(("b", "2"), ("b", "3"))
    scene.state.replication.begin_segment(scene.leader().key)
    scene.pass_ms(HOUR_MS - 2 * BACKOFF_MS)
    assert len(rows_of(scene.leader())) == 4, "it may lie there for an hour"
    scene.pass_ms(2 * BACKOFF_MS)
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "3"]


def test_min_compaction_lag_spares_young_records(scene: CompactedTopic) -> None:
    scene.topic(min_compaction_lag_ms=str(HOUR_MS), segment_ms="1000")
    scene.write(("a", "1"), ("a", "2"))
    scene.now_ms += 1_001
    scene.write(("b", "1"), ("b", "2"))
    assert scene.compact() == {0: 0}
    scene.pass_ms(HOUR_MS - 1_002)
    assert len(rows_of(scene.leader())) == 4
    scene.pass_ms(BACKOFF_MS)
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "1", "2"]


def test_what_brokers_say_holds_where_a_topic_says_nothing(scene: CompactedTopic) -> None:
    scene.state.create_topic("t", [[1, 2, 3]], {}, now_ms=scene.now_ms)
    scene.write(("a", "1"), ("a", "2"))
    with pytest.raises(Refused):
        scene.state.configs.alter_broker("", {"log.cleaner.min.cleanable.ratio": "2"})
    scene.state.configs.alter_broker("", {"log.cleanup.policy": "compact", "log.roll.ms": "1000"})
    scene.now_ms += 1_001
    scene.write(("b", "1"))
    scene.pass_ms(BACKOFF_MS)
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "1"]


def test_a_full_disk_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = CompactedTopic(tmp_path)
    scene.topic(segment_ms="1000")
    scene.write(("a", "1"), ("a", "2"))
    scene.now_ms += 1_001
    scene.write(("b", "1"))

    def full(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(FileStores, "put_in_place", full)
        scene.pass_ms(BACKOFF_MS)
        with pytest.raises(OSError, match="full"):
            scene.compact(roll=False)
    assert len(rows_of(scene.leader())) == 3
    assert not list(tmp_path.rglob("*.cleaned"))
    scene.agree()
    scene.pass_ms(BACKOFF_MS)
    assert len(rows_of(scene.leader())) == 2
    scene.agree()


SETTINGS: Mapping[str, str] = {
    "segment.ms": "x",
    "delete.retention.ms": "-1",
    "min.cleanable.dirty.ratio": "1.5",
    "min.compaction.lag.ms": "-1",
    "max.compaction.lag.ms": "0",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_values_that_cannot_be_are_refused(name: str) -> None:
    scene = CompactedTopic()
    with pytest.raises(Refused, match=name):
        scene.state.create_topic("t", [[1]], {name: SETTINGS[name]}, now_ms=0)
    assert not scene.state.image.topics


def test_only_compacted_topics_are_compacted(scene: CompactedTopic) -> None:
    scene.topic(cleanup_policy="delete")
    with pytest.raises(Refused, match=r"cleanup\.policy") as caught:
        scene.compact()
    assert caught.value.code == POLICY_VIOLATION
    with pytest.raises(Refused) as caught:
        scene.cleaner.compact("absent", now_ms=0, roll=True)
    assert caught.value.code == UNKNOWN_TOPIC_OR_PARTITION
