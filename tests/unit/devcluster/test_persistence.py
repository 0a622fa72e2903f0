"""The journal and what a cluster keeps in its data directory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.group_coordinator.topic import OFFSETS_TOPIC
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.journal import Journal, read_entries
from parley.devcluster.state.keeper import CLEAN_STOP, JOURNAL
from parley.devcluster.state.log.replica import Prepared
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors import ConfigError, DataLossError

Prepare = Callable[..., Prepared]
checked: list[int] = []


def start(directory: Path, brokers: int = 2, *, first_id: int = 1) -> ClusterState:
    ids = itertools.count(first_id)
    state = ClusterState(
        cluster_id="fresh",
        new_topic_id=lambda: next(ids).to_bytes(16, "big"),
        check_crc=lambda batch: checked.append(len(batch)) is None,
        directory=directory,
    )
    made = {
        state.make_broker(i): BrokerImage(i, "localhost", 9000 + i) for i in range(1, brokers + 1)
    }
    state.brokers_up(made, now_ms=0)
    return state


def kill(state: ClusterState) -> None:
    """Drop everything as kill -9 does: nothing is flushed, no clean-stop mark."""
    for broker in state.replication.brokers.values():
        broker.close()
    assert state.keeper.journal is not None
    state.keeper.journal.close()


@pytest.mark.parametrize("clean", [True, False])
def test_everything_survives_a_restart(tmp_path: Path, prepared: Prepare, clean: bool) -> None:
    state = start(tmp_path / "data")
    state.create_topic("t", [[1, 2]], {"min.insync.replicas": "1"}, now_ms=0)
    replica = state.replication.brokers[1].find("t", 0)
    batch = prepared(2, producer_id=0, producer_epoch=0, base_sequence=0)
    state.append(replica, [batch], now_ms=0)
    state.move_leader("t", 0, 2, now_ms=0)
    state.group_coordinator.commit_offsets(
        "g", {("t", 0): CommittedOffset(1, 0, "note", 5)}, now_ms=0
    )
    given = state.transactions.initialise("tx", None, timeout_ms=60_000, now_ms=0)
    cluster_id, topic = state.image.cluster_id, state.image.topics["t"]
    state.close() if clean else kill(state)
    checked.clear()

    again = start(tmp_path / "data", first_id=50)
    assert bool(checked) is not clean, "CRCs are checked after a crash only"
    assert again.image.cluster_id == cluster_id
    found = again.image.topics["t"]
    assert (found.topic_id, found.configs) == (topic.topic_id, topic.configs)
    assert found.partitions[0].leader_epoch > topic.partitions[0].leader_epoch
    assert again.groups.committed("g", "t", 0) == CommittedOffset(1, 0, "note", 5)
    bumped = again.transactions.initialise("tx", None, timeout_ms=60_000, now_ms=0)
    assert bumped == ProducerIdentity(given.producer_id, given.epoch + 1)
    assert again.new_producer().producer_id == given.producer_id + 1
    leader = again.replication.brokers[found.partitions[0].leader].find("t", 0)
    assert (leader.log.end_offset, leader.high_watermark) == (2, 2)
    assert again.append(leader, [batch], now_ms=0).duplicate, (
        "the producer's sequences are known again"
    )
    again.close()


def test_logs_that_no_life_has_checked_since_a_crash_are_checked_later(
    tmp_path: Path, prepared: Prepare
) -> None:
    state = start(tmp_path)
    state.create_topic("t", [[2]], {}, now_ms=0)
    state.append(state.replication.brokers[2].find("t", 0), [prepared(2)], now_ms=0)
    kill(state)
    start(tmp_path, brokers=1).close()
    assert not (tmp_path / CLEAN_STOP).exists(), "nobody looked at broker 2's logs"
    checked.clear()
    start(tmp_path).close()
    assert checked
    checked.clear()
    start(tmp_path, brokers=1).close()
    start(tmp_path).close()
    assert not checked, "all were closed in order"


def test_the_directory_is_private(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    state = start(tmp_path / "data")
    state.create_topic("t", [[1]], {}, now_ms=0)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "data").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    state.close()
    assert (tmp_path / "data" / CLEAN_STOP).exists()


def test_a_deleted_topic_stays_deleted(tmp_path: Path, prepared: Prepare) -> None:
    state = start(tmp_path)
    state.create_topic("t", [[1, 2]], {}, now_ms=0)
    state.append(state.replication.brokers[1].find("t", 0), [prepared(1)], now_ms=0)
    state.group_coordinator.commit_offsets("g", {("t", 0): CommittedOffset(1)}, now_ms=0)
    state.delete_topic("t", now_ms=0)
    kill(state)
    again = start(tmp_path, first_id=50)
    assert list(again.image.topics) == [OFFSETS_TOPIC]
    assert again.groups.names() == []
    assert {path.parts[-3] for path in tmp_path.rglob("*.log")} == {OFFSETS_TOPIC}
    again.close()


def test_what_a_deleted_topic_left_on_a_stopped_broker_is_removed(
    tmp_path: Path, prepared: Prepare
) -> None:
    state = start(tmp_path)
    state.create_topic("t", [[1, 2]], {}, now_ms=0)
    state.append(state.replication.brokers[1].find("t", 0), [prepared(1)], now_ms=0)
    state.broker_down(2, now_ms=0).close()
    state.delete_topic("t", now_ms=0)
    assert list((tmp_path / "broker-2").rglob("*.log"))
    kill(state)
    start(tmp_path).close()
    assert not list(tmp_path.rglob("*.log"))


def test_an_election_that_could_not_be_journaled_is_overtaken(
    tmp_path: Path, prepared: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders must change on a full disk too; after a restart no epoch falls
    behind what the logs saw.
    """
    state = start(tmp_path)
    state.create_topic("t", [[1, 2]], {}, now_ms=0)
    state.append(state.replication.brokers[1].find("t", 0), [prepared(1)], now_ms=0)
    assert state.keeper.journal is not None
    with monkeypatch.context() as patched:
        patched.setattr(state.keeper.journal, "append", _full)
        for _ in range(3):
            state.move_leader("t", 0, 2, now_ms=0)
            state.move_leader("t", 0, 1, now_ms=0)
        state.append(state.replication.brokers[1].find("t", 0), [prepared(1)], now_ms=0)
        epoch = state.image.topics["t"].partitions[0].leader_epoch
    kill(state)
    again = start(tmp_path)
    assert again.image.topics["t"].partitions[0].leader_epoch > epoch
    again.close()


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_refuses_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = start(tmp_path)
    assert state.keeper.journal is not None
    with monkeypatch.context() as patched:
        patched.setattr(state.keeper.journal, "append", _full)
        with pytest.raises(OSError, match="No space"):
            state.create_topic("t", [[1]], {}, now_ms=0)
        with pytest.raises(OSError, match="No space"):
            state.group_coordinator.commit_offsets("g", {("t", 0): CommittedOffset(1)}, now_ms=0)
    assert not state.image.topics
    assert state.groups.names() == []
    state.create_topic("t", [[1]], {}, now_ms=0)
    state.close()


# -- the journal -----------------------------------------------------------------------------------

ENTRIES = [
    {"kind": "x", "n": 1},
    {"kind": "y", "text": "ä\n\t\u2028"},
    {"kind": "z", "list": [1, None]},
]


def test_a_journal_torn_at_any_byte_gives_its_whole_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    journal.begin([])
    ends = []
    for entry in ENTRIES:
        journal.append(entry)
        ends.append((tmp_path / JOURNAL).stat().st_size)
    journal.close()
    data = (tmp_path / JOURNAL).read_bytes()
    for kept in range(len(data) + 1):
        assert list(read_entries(data[:kept])) == ENTRIES[: sum(end <= kept for end in ends)]


def test_a_damaged_line_is_never_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    journal.begin(ENTRIES)
    journal.close()
    data = (tmp_path / JOURNAL).read_bytes()
    second_line = range(data.index(b"\n") + 1, data.rindex(b"\n", 0, -1))
    for at in second_line:
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(DataLossError, match="line 2"):
            list(read_entries(bytes(damaged)))


def test_opening_writes_the_journal_again(tmp_path: Path) -> None:
    state = start(tmp_path)
    for _ in range(200):
        state.new_producer()
    grown = (tmp_path / JOURNAL).stat().st_size
    state.close()
    start(tmp_path).close()
    assert (tmp_path / JOURNAL).stat().st_size < grown / 20


def test_a_long_journal_is_shortened_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.devcluster.state.journal.LONG_BYTES", 10_000)
    state = start(tmp_path)
    state.create_topic("t", [[1]], {}, now_ms=0)
    for _ in range(1_000):
        state.new_producer()
    assert (tmp_path / JOURNAL).stat().st_size < 20_000
    kill(state)
    again = start(tmp_path)
    assert list(again.image.topics) == ["t"]
    assert again.new_producer().producer_id == 1_000
    again.close()


def test_a_failed_append_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / JOURNAL)
    journal.begin(ENTRIES[:1])
    real, room = os.pwrite, [10]

    def little_room(fd: int, data: bytes, at: int) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        room[0] = 0
        return real(fd, memoryview(data)[:10], at)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", little_room)
        with pytest.raises(OSError, match="No space"):
            journal.append(ENTRIES[1])
    journal.append(ENTRIES[2])
    assert journal.read() == [ENTRIES[0], ENTRIES[2]]
    journal.close()


def test_another_layout_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    journal.begin([{"kind": "cluster", "id": "x", "layout": 99}])
    journal.close()
    with pytest.raises(ConfigError, match="layout 99"):
        start(tmp_path)
