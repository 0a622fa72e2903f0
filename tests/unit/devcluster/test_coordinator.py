"""The coordinators over a whole cluster without sockets: markers, offsets,
expiry, full disks, restarts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.groups.expiry import Expiry
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.log.replica import Prepared, Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.retention import expire_offsets
from parley.devcluster.state.settings import ClusterSettings
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.devcluster.state.transactions.transaction import State, Transaction
from parley.errors.codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED,
)

Prepare = Callable[..., Prepared]
TIMEOUT_MS = 1_000
EXPIRATION_MS = 100_000


class Scene:
    """A cluster's state, driven by hand, and one transactional producer."""

    def __init__(self, prepared: Prepare, directory: Path | None = None, first_id: int = 1) -> None:
        ids = itertools.count(first_id)
        self.state = ClusterState(
            cluster_id="c", new_topic_id=lambda: next(ids).to_bytes(16, "big"),
            check_crc=lambda batch: True,
            directory=directory,
            settings=ClusterSettings(transactional_id_expiration_ms=EXPIRATION_MS),
        )  # fmt: skip
        self.prepared = prepared
        self.down: dict[int, BrokerState] = {}
        self.up(1, 2)
        self.sequence = 0

    def up(self, *broker_ids: int) -> None:
        states = {i: self.down.pop(i, None) or self.state.make_broker(i) for i in broker_ids}
        self.state.brokers_up(
            {s: BrokerImage(i, "localhost", 9000 + i) for i, s in states.items()}, now_ms=0
        )

    def stop(self, broker_id: int) -> None:
        self.down[broker_id] = self.state.broker_down(broker_id, now_ms=0)

    def kill(self) -> None:
        """Drop everything as kill -9 does."""
        for broker in self.state.replication.brokers.values():
            broker.close()
        assert self.state.keeper.journal is not None
        self.state.keeper.journal.close()

    def topic(self, *assignment: list[int]) -> None:
        self.state.create_topic("t", list(assignment), {}, now_ms=0)

    def replica(self, index: int = 0) -> Replica:
        leader = self.state.image.topics["t"].partitions[index].leader
        return self.state.replication.brokers[leader].find("t", index)

    def init(self, now_ms: int = 0) -> ProducerIdentity:
        return self.state.transactions.initialise("tx", None, timeout_ms=TIMEOUT_MS, now_ms=now_ms)

    def write(self, who: ProducerIdentity, index: int = 0, now_ms: int = 0) -> None:
        self.state.transactions.add("tx", who, [("t", index)], now_ms=now_ms)
        batch = self.prepared(
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.state.append(self.replica(index), [batch], now_ms=now_ms)

    def offset(self, who: ProducerIdentity, offset: int, group: str = "g") -> None:
        self.state.transactions.add_group("tx", who, group, now_ms=0)
        self.state.group_coordinator.add_pending(
            who, group, {("t", 0): CommittedOffset(offset)}, now_ms=0
        )

    def end(self, who: ProducerIdentity, *, commit: bool = True) -> ProducerIdentity:
        return self.state.transactions.end("tx", who, commit=commit, now_ms=0)

    @property
    def held(self) -> Transaction:
        found = self.state.transactions.get("tx")
        assert found is not None
        return found

    def committed(self, group: str = "g") -> int | None:
        found = self.state.groups.committed(group, "t", 0)
        return None if found is None else found.offset

    def stable(self, index: int = 0) -> tuple[int, int]:
        """Return last stable and end offset of a partition."""
        replica = self.replica(index)
        return replica.last_stable_offset, replica.log.end_offset


@pytest.fixture
def scene(prepared: Prepare) -> Scene:
    made = Scene(prepared)
    made.topic([1, 2], [2, 1])
    return made


def code(step: Callable[[], object]) -> int:
    with pytest.raises(Refused) as caught:
        step()
    return caught.value.code


def test_markers_reach_every_partition_and_every_replica(scene: Scene) -> None:
    who = scene.init()
    scene.write(who, 0)
    scene.write(who, 1)
    assert (scene.stable(0), scene.stable(1)) == ((0, 1), (0, 1))
    scene.end(who)
    assert (scene.stable(0), scene.stable(1)) == ((2, 2), (2, 2))
    for broker in scene.state.replication.brokers.values():
        assert [replica.log.end_offset for replica in broker.replicas.values()] == [2, 2]
    assert scene.held.state is State.COMPLETE_COMMIT


def test_offsets_are_read_after_the_commit_and_never_after_an_abort(scene: Scene) -> None:
    who = scene.init()
    for commit, offset, expected in ((True, 5, 5), (False, 9, 5), (True, 7, 7)):
        before = scene.committed()
        scene.offset(who, offset)
        assert scene.committed() == before
        assert scene.state.pending_offsets.is_pending("g", "t", 0)
        scene.end(who, commit=commit)
        assert scene.committed() == expected
        assert not scene.state.pending_offsets.is_pending("g", "t", 0)


def test_h20_an_offset_that_a_transaction_would_change_does_not_expire(scene: Scene) -> None:
    def expire() -> dict[str, dict[str, list[int]]]:
        return expire_offsets(scene.state, lambda group: Expiry(10, by_group=True), now_ms=10)

    scene.state.group_coordinator.commit_offsets(
        "g", {("t", 0): CommittedOffset(3, committed_at_ms=0)}, now_ms=0
    )
    who = scene.init()
    scene.offset(who, 5)
    assert expire() == {}
    scene.end(who, commit=False)
    assert expire() == {"g": {"t": [0]}}
    assert scene.committed() is None


def test_what_was_committed_meanwhile_is_not_overwritten(scene: Scene) -> None:
    who = scene.init()
    scene.offset(who, 5)
    scene.state.group_coordinator.commit_offsets("g", {("t", 0): CommittedOffset(20)}, now_ms=0)
    scene.end(who)
    assert scene.committed() == 20


def test_a_second_producer_aborts_the_first_and_fences_it(scene: Scene) -> None:
    old = scene.init()
    scene.write(old)
    scene.offset(old, 5)
    assert code(scene.init) == CONCURRENT_TRANSACTIONS
    assert scene.held.state is State.COMPLETE_ABORT
    new = scene.init()
    assert new == (old.producer_id, old.epoch + 2)
    assert scene.stable() == (2, 2)
    assert len(scene.replica().producers.transactions.aborted_within(0, 2)) == 1
    assert code(lambda: scene.end(old)) == PRODUCER_FENCED
    assert code(lambda: scene.write(old)) == PRODUCER_FENCED
    late = {("t", 0): CommittedOffset(6)}
    assert (
        code(lambda: scene.state.group_coordinator.add_pending(old, "g", late, now_ms=0))
        == INVALID_PRODUCER_EPOCH
    )


def test_a_marker_waits_for_a_leader(scene: Scene) -> None:
    """The end is decided all the same, and the id does nothing else until it is done."""
    scene.state.create_topic("alone", [[2]], {}, now_ms=0)
    who = scene.init()
    scene.write(who, 0)
    scene.state.transactions.add("tx", who, [("alone", 0)], now_ms=0)
    scene.stop(2)
    scene.end(who)
    assert scene.held.state is State.PREPARE_COMMIT
    assert scene.stable(0) == (2, 2), "where there is a leader it is done"
    assert code(lambda: scene.end(who)) == CONCURRENT_TRANSACTIONS
    assert code(lambda: scene.write(who, 0)) == CONCURRENT_TRANSACTIONS
    scene.up(2)
    assert scene.held.state is State.COMPLETE_COMMIT
    assert scene.state.replication.brokers[2].find("alone", 0).log.end_offset == 1
    scene.end(who)


def test_a_topic_that_was_deleted_is_not_waited_for(scene: Scene) -> None:
    who = scene.init()
    scene.write(who, 0)
    scene.offset(who, 4)
    scene.state.delete_topic("t", now_ms=0)
    scene.end(who)
    assert scene.held.state is State.COMPLETE_COMMIT
    assert scene.committed() is None


def test_a_leader_that_moves_keeps_the_transaction_open(scene: Scene) -> None:
    who = scene.init()
    scene.write(who, 0)
    scene.state.move_leader("t", 0, 2, now_ms=0)
    assert scene.stable() == (0, 1)
    scene.end(who, commit=False)
    assert scene.stable() == (2, 2)
    (aborted,) = scene.replica().producers.transactions.aborted_within(0, 2)
    assert aborted.first_offset == 0


def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(scene: Scene) -> None:
    who = scene.init()
    scene.write(who, now_ms=50)
    transactions = scene.state.transactions
    assert transactions.next_due_ms == 50 + TIMEOUT_MS
    transactions.expire(now_ms=50 + TIMEOUT_MS)
    assert scene.held.state is State.ONGOING, "not a moment too early"
    transactions.expire(now_ms=51 + TIMEOUT_MS)
    assert (scene.held.state, scene.held.epoch) == (State.COMPLETE_ABORT, who.epoch + 1)
    assert scene.stable() == (2, 2)
    assert code(lambda: scene.end(who)) == PRODUCER_FENCED
    assert scene.init().epoch == who.epoch + 2


def test_an_id_that_nobody_uses_is_forgotten(scene: Scene) -> None:
    who = scene.init()
    scene.write(who)
    scene.end(who)
    scene.state.transactions.expire(now_ms=EXPIRATION_MS + 1)
    assert scene.state.transactions.get("tx") is None
    assert scene.state.transactions.next_due_ms is None
    assert code(lambda: scene.end(who)) == INVALID_PRODUCER_ID_MAPPING
    assert scene.init().producer_id > who.producer_id, "a new life, another producer"


@pytest.mark.parametrize("clean", [True, False])
def test_everything_about_transactions_survives_a_restart(
    tmp_path: Path, prepared: Prepare, clean: bool
) -> None:
    scene = Scene(prepared, tmp_path)
    scene.topic([1, 2], [2, 1])
    who = scene.init()
    scene.write(who, 0)
    scene.end(who, commit=False)
    scene.sequence = 1
    scene.write(who, 0)
    scene.offset(who, 5)
    before = scene.held
    coordinator_epoch = scene.state.transactions.coordinator_epoch
    scene.state.close() if clean else scene.kill()

    again = Scene(prepared, tmp_path, first_id=50)
    assert again.held == before
    assert again.state.transactions.coordinator_epoch > coordinator_epoch
    assert again.stable() == (2, 3)
    assert len(again.replica().producers.transactions.aborted_within(0, 3)) == 1
    assert again.committed() is None
    assert again.state.pending_offsets.is_pending("g", "t", 0)
    again.end(who)
    assert (again.committed(), again.stable()) == (5, (4, 4))
    again.state.close()
    third = Scene(prepared, tmp_path, first_id=90)
    assert (third.committed(), third.held.state) == (5, State.COMPLETE_COMMIT)
    assert not third.state.pending_offsets.is_pending("g", "t", 0)
    third.state.close()


def test_an_end_that_was_decided_is_finished_after_a_crash(
    tmp_path: Path, prepared: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(prepared, tmp_path)
    scene.topic([1, 2])
    who = scene.init()
    scene.write(who)
    scene.offset(who, 5)
    with monkeypatch.context() as patched:  # it dies between the decision and the first marker
        patched.setattr(type(scene.state.transactions), "_finish", lambda *_, **__: None)
        scene.end(who)
    assert scene.held.state is State.PREPARE_COMMIT
    scene.kill()
    again = Scene(prepared, tmp_path, first_id=50)
    assert again.held.state is State.COMPLETE_COMMIT
    assert (again.stable(), again.committed()) == ((2, 2), 5)
    again.state.close()


def test_a_full_disk_refuses_a_step_and_changes_nothing(
    tmp_path: Path, prepared: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(prepared, tmp_path)
    scene.topic([1, 2])
    who = scene.init()
    scene.write(who)
    before = scene.held

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    assert scene.state.keeper.journal is not None
    with monkeypatch.context() as patched:
        patched.setattr(scene.state.keeper.journal, "append", full)
        for step in (
            lambda: scene.end(who),
            scene.init,
            lambda: scene.offset(who, 5),
            lambda: scene.state.transactions.add("tx", who, [("t", 5)], now_ms=0),
        ):
            with pytest.raises(OSError, match="No space"):
                step()
        scene.state.transactions.expire(now_ms=10 * TIMEOUT_MS)
        assert scene.state.transactions.next_due_ms == 11 * TIMEOUT_MS, (
            "tried again later, not at once"
        )
        assert (scene.held, scene.stable()) == (before, (0, 1))
    scene.end(who)
    assert (scene.held.state, scene.stable()) == (State.COMPLETE_COMMIT, (2, 2))
    scene.state.close()


def test_a_marker_counts_when_it_cannot_be_lost(scene: Scene) -> None:
    """A follower in sync that lags holds the end back; where it leads next, it is
    given the marker once more.
    """
    who = scene.init()
    scene.write(who)
    leader = scene.replica().broker_id
    follower = 3 - leader
    scene.state.replication.links.hold_back(follower)
    scene.end(who)
    assert scene.held.state is State.PREPARE_COMMIT
    assert scene.stable() == (0, 2), "written, and not yet replicated"
    assert code(lambda: scene.write(who)) == CONCURRENT_TRANSACTIONS
    scene.state.replication.links.let_go(follower)
    scene.stop(leader)
    assert scene.replica().broker_id == follower
    assert scene.held.state is State.COMPLETE_COMMIT
    assert scene.stable() == (2, 2)
    scene.up(leader)
    assert scene.stable() == (2, 2), "and the old leader's own marker went with its log's end"


def test_a_marker_needs_as_many_replicas_as_a_record(scene: Scene) -> None:
    scene.state.alter_topic("t", {"min.insync.replicas": "2"}, now_ms=0)
    who = scene.init()
    scene.write(who)
    scene.stop(2)
    scene.end(who)
    assert (scene.held.state, scene.stable()[0]) == (State.PREPARE_COMMIT, 0)
    scene.up(2)
    assert (scene.held.state, scene.stable()) == (State.COMPLETE_COMMIT, (2, 2))


def test_a_marker_that_waits_is_tried_again_by_the_clock(scene: Scene) -> None:
    who = scene.init()
    scene.write(who)
    links = scene.state.replication.links
    links.isolated.add(scene.replica().broker_id)
    scene.end(who)
    assert scene.held.state is State.PREPARE_COMMIT
    due = scene.state.transactions.next_due_ms
    assert due is not None
    assert due <= TIMEOUT_MS
    links.isolated.clear()
    scene.state.transactions.expire(now_ms=due)
    assert scene.held.state is State.COMPLETE_COMMIT
