"""Cleaned logs: what replicas, readers, restarts and retention find in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.devcluster.state.log.compaction import CleanerRules
from parley.devcluster.state.log.times import first_at_time
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.retention import apply_retention

from .compacted_topic import BACKOFF_MS, HOUR_MS, CompactedTopic, rows_of


@pytest.fixture(params=["memory", "disk"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> CompactedTopic:
    return CompactedTopic(tmp_path if request.param == "disk" else None)


# -- on command ------------------------------------------------------------------------------------


def test_every_replica_has_the_newest_record_of_each_key(scene: CompactedTopic) -> None:
    scene.topic()
    for number in range(20):
        scene.write((f"k{number % 3}", f"{number}"), ("same", f"{number}"))
    assert scene.compact() == {0: 36}
    left = [(34, "k2", "17"), (36, "k0", "18"), (38, "k1", "19"), (39, "same", "19")]
    assert [rows_of(scene.replica(broker)) for broker in (1, 2, 3)] == [left] * 3
    assert scene.leader().log.end_offset == 40
    scene.agree()
    assert scene.write(("k0", "20")) == 40
    scene.agree()


def test_replicas_in_memory_share_what_is_left() -> None:
    scene = CompactedTopic()
    scene.topic()
    scene.write(("a", "1"), ("b", "1"))
    scene.write(("a", "2"))
    scene.compact()
    pieces = [scene.replica(broker).log.read(0, 10**6).parts[0] for broker in (1, 2, 3)]
    assert len({id(piece.obj) for piece in pieces}) == 1


def test_the_open_segment_is_spared(scene: CompactedTopic) -> None:
    scene.topic()
    scene.write(("a", "1"), ("a", "2"))
    assert scene.compact(roll=False) == {0: 0}
    scene.state.replication.begin_segment(scene.leader().key)
    scene.write(("a", "3"), ("a", "4"))
    assert scene.compact(roll=False) == {0: 1}
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "3", "4"]


def test_small_segments_become_one(scene: CompactedTopic) -> None:
    scene.topic(segment_bytes="300")
    for number in range(12):
        scene.write((f"k{number % 4}", "x" * 100))
    assert len(scene.leader().log.segments) == 12
    scene.compact()
    assert len(rows_of(scene.leader())) == 4
    scene.compact()
    sizes = [one.size for one in scene.leader().log.segments]
    assert len(sizes) == 5, "four of one record, and the open one"
    assert max(sizes) <= 300
    scene.agree()


def test_what_a_reader_holds_stays_as_it_is(scene: CompactedTopic) -> None:
    scene.topic()
    scene.write(("a", "1"), ("b", "1"))
    scene.write(("a", "2"))
    held = scene.leader().log.read(0, 10**6).parts
    was = b"".join(held)
    scene.compact()
    assert b"".join(held) == was
    assert b"".join(scene.leader().log.read(0, 10**6).parts) != was


# -- what is undecided, and what is aborted --------------------------------------------------------


def test_what_is_undecided_is_in_the_way(scene: CompactedTopic) -> None:
    scene.topic()
    scene.write(("a", "1"), ("a", "2"))
    scene.state.replication.begin_segment(scene.leader().key)
    mine = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    scene.write(("a", "3"), base_sequence=0, **mine)
    assert scene.compact() == {0: 1}
    assert [row[2] for row in rows_of(scene.leader())] == ["2", "3"], "of two kinds of segments"
    scene.marker(7, commit=True)
    assert scene.compact() == {0: 1}
    assert [row[2] for row in rows_of(scene.leader())] == ["3"]


def test_readers_hear_of_an_aborted_transaction_until_nothing_is_left_of_it(
    scene: CompactedTopic,
) -> None:
    """Else a later transaction of the producer would be taken for the aborted one."""
    scene.topic(delete_retention_ms="0")
    mine = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    scene.write(("a", "1"), base_sequence=0, **mine)
    scene.marker(7, commit=False)
    scene.write(("b", "1"), base_sequence=1, **mine)
    scene.marker(7, commit=True)

    def known() -> int:
        transactions = scene.leader().producers.transactions
        return len(transactions.aborted_within(0, scene.leader().log.end_offset))

    assert known() == 1
    for broker in (1, 2, 3):
        assert rows_of(scene.replica(broker))[0] == (0, "a", "1")
    scene.compact()
    assert (known(), rows_of(scene.leader())) == (1, [(2, "b", "1")])
    for _ in range(3):
        scene.now_ms += 1
        scene.compact()
    kinds = [facts.control_type for facts, _ in scene.leader().log.batches_from(0)]
    assert (known(), kinds) == (0, [-1, 1]), "the marker is gone as well"
    scene.agree()


def test_a_dated_marker_is_known_again_after_a_restart(tmp_path: Path) -> None:
    scene = CompactedTopic(tmp_path)
    scene.topic()
    mine = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    scene.write(("a", "1"), base_sequence=0, **mine)
    scene.marker(7, commit=False)
    for _ in range(2):
        scene.write(("z", "1"))
        scene.compact()
    again = scene.kill(tmp_path)
    facts = [facts for facts, _ in again.leader().log.batches_from(0) if facts.is_control]
    assert [(one.control_type, one.coordinator_epoch) for one in facts] == [(0, 0)]
    assert again.leader().last_stable_offset == again.leader().high_watermark


# -- brokers that were away ------------------------------------------------------------------------


def test_a_broker_that_was_away_cleans_its_own_log_later(scene: CompactedTopic) -> None:
    scene.topic(segment_ms="1000")
    scene.write(("a", "1"), ("a", "2"))
    scene.stop(3)
    scene.now_ms += 1_001
    scene.write(("b", "1"))
    scene.compact(roll=False)
    scene.up(3)
    assert (len(rows_of(scene.replica(1))), len(rows_of(scene.replica(3)))) == (2, 3)
    scene.agree()
    scene.now_ms += 1_001
    scene.write(("c", "1"))
    scene.pass_ms(BACKOFF_MS)
    assert len({tuple(rows_of(scene.replica(broker))) for broker in (1, 2, 3)}) == 1
    scene.state.move_leader("t", 0, 3, now_ms=scene.now_ms)
    scene.write(("a", "3"))
    scene.agree()


def test_a_new_replica_gets_what_is_left(scene: CompactedTopic) -> None:
    scene.state.create_topic("t", [[1, 2]], {"cleanup.policy": "compact"}, now_ms=0)
    scene.write(("a", "1"), ("a", "2"))
    scene.state.move_leader("t", 0, 2, now_ms=scene.now_ms)
    scene.write(("a", "3"))
    scene.compact()
    scene.state.move_leader("t", 0, 3, now_ms=scene.now_ms)
    assert rows_of(scene.replica(3)) == [(2, "a", "3")]
    scene.agree()


def test_brokers_of_other_releases_clean_by_their_own_rules(scene: CompactedTopic) -> None:
    old = CleanerRules(dates_tombstones=False, keeps_last_batch=False)
    scene.cleaner.rules_of = lambda broker_id: old if broker_id == 2 else CleanerRules()
    scene.topic()
    scene.write(("a", "1"))
    scene.write(("a", None))
    scene.compact()
    sizes = [scene.replica(broker).log.size for broker in (1, 2, 3)]
    assert sizes[0] == sizes[2] != sizes[1]
    assert rows_of(scene.replica(1)) == rows_of(scene.replica(2)) == [(1, "a", None)]
    scene.agree()


# -- what else lies on segments --------------------------------------------------------------------


def test_tombstones_go_by_the_clusters_clock(scene: CompactedTopic) -> None:
    scene.topic(delete_retention_ms="5000")
    scene.write(("a", "1"), ("b", "1"))
    scene.write(("a", None))
    assert scene.compact() == {0: 1}
    scene.now_ms += 4_999
    assert scene.compact() == {0: 0}
    scene.now_ms += 1
    assert scene.compact() == {0: 1}
    assert rows_of(scene.leader()) == [(1, "b", "1")]
    assert scene.leader().log.read(2, 100).next_offset == 3, "the end can be reached"


def test_retention_takes_segments_that_compaction_has_emptied(scene: CompactedTopic) -> None:
    scene.topic(cleanup_policy="compact,delete", segment_bytes="100", retention_ms=str(HOUR_MS))
    for number in range(4):
        scene.write(("a", f"{number}"))
    scene.now_ms += 2 * HOUR_MS
    scene.write(("b", "1"))
    scene.compact()
    assert rows_of(scene.leader()) == [(3, "a", "3"), (4, "b", "1")]
    assert apply_retention(scene.state, now_ms=scene.now_ms) == {"t": {0: 4}}
    assert rows_of(scene.leader()) == [(4, "b", "1")]
    scene.agree()


def test_times_are_looked_up_beyond_an_emptied_batch(scene: CompactedTopic) -> None:
    scene.topic()
    mine = {"producer_id": 7, "producer_epoch": 0}
    scene.write(("a", "1"), base_sequence=0, **mine)
    first_ms = scene.now_ms
    scene.now_ms += 10
    scene.write(("a", "2"))
    scene.compact()
    assert [facts.record_count for facts, _ in scene.leader().log.batches_from(0)] == [0, 1]
    found = first_at_time(scene.leader(), first_ms)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (1, first_ms + 10)


def test_a_producer_goes_on_behind_its_emptied_batch(tmp_path: Path) -> None:
    scene = CompactedTopic(tmp_path)
    scene.topic()
    mine = {"producer_id": 7, "producer_epoch": 0}
    scene.write(("a", "1"), ("b", "1"), base_sequence=0, **mine)
    scene.write(("a", "2"), ("b", "2"))
    scene.compact()
    again = scene.kill(tmp_path)
    with pytest.raises(Refused):
        again.write(("c", "1"), base_sequence=5, **mine)
    assert again.write(("c", "1"), base_sequence=2, **mine) == 4


# -- on disk ---------------------------------------------------------------------------------------


def test_what_was_cleaned_is_known_after_a_restart(tmp_path: Path) -> None:
    scene = CompactedTopic(tmp_path)
    scene.topic()
    scene.write(("a", "1"), ("a", "2"))
    scene.stop(3)
    scene.compact()
    cleaned = scene.leader().cleaned
    again = scene.kill(tmp_path)
    assert again.leader().cleaned == cleaned
    assert [len(rows_of(again.replica(broker))) for broker in (1, 2, 3)] == [1, 1, 2]
    again.agree()
    again.state.close()
    once_more = CompactedTopic(tmp_path, first_id=2_000)
    assert once_more.leader().cleaned == cleaned, "it is in the journal that was begun again"


def test_a_segment_left_over_when_the_process_died_is_removed(tmp_path: Path) -> None:
    """What took the place of two segments was there, the second of them not yet removed."""
    scene = CompactedTopic(tmp_path)
    scene.topic(segment_bytes="80")
    for key in ("a", "b", "a", "c"):
        scene.write((key, "1"))
    files = sorted(next((tmp_path / "broker-1" / "t").iterdir()).glob("*.log"))
    second = files[1].read_bytes()
    scene.state.alter_topic("t", {"cleanup.policy": "compact"}, now_ms=0)
    scene.compact()
    assert not files[1].exists()
    expected = rows_of(scene.replica(1))
    scene.state.close()
    files[1].write_bytes(second)
    (files[1].parent / "00000000000000000000.cleaned").write_bytes(b"half of it")
    again = CompactedTopic(tmp_path, first_id=1_000)
    assert rows_of(again.replica(1)) == expected
    assert not files[1].exists()
    assert not list(tmp_path.rglob("*.cleaned"))
    again.agree()
