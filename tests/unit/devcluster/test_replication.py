"""Controller, brokers and replication without sockets: leaders, epochs,
in-sync replicas, truncation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.log.replica import Prepared, Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.errors.codes import (
    FENCED_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)

Prepare = Callable[..., Prepared]


class Scene:
    """A cluster's state, driven by hand."""

    def __init__(self, brokers: int = 3) -> None:
        ids = itertools.count(1)
        self.state = ClusterState(
            cluster_id="c",
            new_topic_id=lambda: next(ids).to_bytes(16, "big"),
            check_crc=lambda batch: True,
        )
        self.down: dict[int, BrokerState] = {}
        self.up(*range(1, brokers + 1))

    def up(self, *broker_ids: int) -> None:
        states = {i: self.down.pop(i, None) or self.state.make_broker(i) for i in broker_ids}
        self.state.brokers_up(
            {s: BrokerImage(i, "localhost", 9000 + i) for i, s in states.items()}, now_ms=0
        )

    def stop(self, broker_id: int) -> None:
        self.down[broker_id] = self.state.broker_down(broker_id, now_ms=0)

    def topic(self, *assignment: list[int]) -> None:
        self.state.create_topic("t", assignment or [[1, 2, 3]], {}, now_ms=0)

    def replica(self, broker_id: int, index: int = 0) -> Replica:
        return self.state.replication.brokers[broker_id].find("t", index)

    def leader(self, index: int = 0) -> Replica:
        return self.replica(self.state.image.topics["t"].partitions[index].leader, index)

    def append(self, batch: Prepared) -> int:
        return self.state.append(self.leader(), [batch], now_ms=0).base_offset

    def partition(self, index: int = 0) -> tuple[int, int, tuple[int, ...]]:
        found = self.state.image.topics["t"].partitions[index]
        return found.leader, found.leader_epoch, found.isr

    def logs(self) -> dict[int, bytes]:
        found = {}
        for state in self.state.replication.brokers.values():
            for replica in state.replicas.values():
                found[state.id] = b"".join(bytes(data) for _, data in replica.log.batches_from(0))
        return found

    def check_agreement(self) -> None:
        assert len(set(self.logs().values())) == 1, "all replicas agree"
        assert {s.find("t", 0).high_watermark for s in self.state.replication.brokers.values()} == {
            self.leader().log.end_offset
        }


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.topic()
    return made


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_append_is_on_every_replica_before_it_is_acknowledged(
    scene: Scene, prepared: Prepare, magic: int
) -> None:
    for number in range(5):
        assert scene.append(prepared(3, magic=magic)) == 3 * number
        assert scene.leader().high_watermark == 3 * number + 3
        scene.check_agreement()


def test_replicas_in_memory_share_the_bytes(scene: Scene, prepared: Prepare) -> None:
    scene.append(prepared(3))
    pieces = [scene.replica(i).log.read(0, 10**6).parts[0] for i in (1, 2, 3)]
    assert len({id(piece.obj) for piece in pieces}) == 1


def test_a_stopped_leader_is_followed_by_the_next_replica(scene: Scene, prepared: Prepare) -> None:
    scene.append(prepared(3))
    assert scene.partition() == (1, 0, (1, 2, 3))
    scene.stop(1)
    assert scene.partition() == (2, 1, (2, 3))
    scene.append(prepared(2))
    scene.up(1)
    assert scene.partition() == (2, 1, (1, 2, 3)), "it is back in the in-sync set, the leader stays"
    scene.check_agreement()


def test_the_last_in_sync_replica_keeps_its_place(scene: Scene, prepared: Prepare) -> None:
    scene.append(prepared(1))
    for broker_id in (1, 2):
        scene.stop(broker_id)
    scene.append(prepared(1))
    scene.stop(3)
    assert scene.partition() == (-1, 3, (3,))
    scene.up(1, 2)
    assert scene.partition()[0] == -1, "1 and 2 lack what 3 acknowledged: they may not lead"
    scene.up(3)
    leader, epoch, isr = scene.partition()
    assert (leader, epoch, isr) == (3, 4, (1, 2, 3))
    assert scene.leader().log.end_offset == 2
    scene.check_agreement()


def test_what_only_a_lost_leader_had_is_truncated(scene: Scene, prepared: Prepare) -> None:
    scene.append(prepared(2))
    scene.state.replication.lagging |= {2, 3}
    scene.append(prepared(1, size=7))  # on broker 1 only, not acknowledged
    assert scene.leader().high_watermark == 2
    scene.stop(1)
    scene.state.replication.lagging.clear()
    assert scene.partition()[:2] == (2, 1)
    scene.append(prepared(1, size=9))
    scene.up(1)
    scene.check_agreement()
    assert scene.replica(1).epochs.entries() == [(0, 0), (1, 2)]


def test_truncation_follows_epochs_not_lengths(scene: Scene, prepared: Prepare) -> None:
    """KIP-279: leaders alternate while the other one lags, so that histories
    differ at equal lengths.
    """
    replication = scene.state.replication
    scene.append(prepared(2))
    for turn in range(3):
        other = {1, 2, 3} - {scene.partition()[0]}
        replication.lagging |= other
        scene.append(prepared(1, size=10 + turn))
        gone = scene.partition()[0]
        scene.stop(gone)
        replication.lagging.clear()
        scene.append(prepared(1, size=20 + turn))
        scene.up(gone)
        scene.check_agreement()
    assert scene.leader().log.end_offset == 5


def test_a_lagging_follower_holds_the_high_watermark_and_catches_up(
    scene: Scene, prepared: Prepare
) -> None:
    scene.state.replication.lagging.add(3)
    scene.append(prepared(2))
    assert (scene.leader().log.end_offset, scene.leader().high_watermark) == (2, 0)
    scene.state.replication.lagging.clear()
    scene.append(prepared(2))
    assert scene.leader().high_watermark == 4
    scene.check_agreement()


def test_move_leader_raises_the_epoch_and_fences(scene: Scene, prepared: Prepare) -> None:
    scene.append(prepared(1))
    old = scene.leader()
    scene.state.move_leader("t", 0, 3, now_ms=0)
    assert scene.partition() == (3, 1, (1, 2, 3))
    with pytest.raises(Refused) as caught:
        scene.state.append(old, [prepared(1)], now_ms=0)
    assert caught.value.code == NOT_LEADER_OR_FOLLOWER
    leader = scene.leader()
    leader.check_epoch(1)
    leader.check_epoch(-1)
    for epoch, code in ((0, FENCED_LEADER_EPOCH), (2, UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(Refused) as caught:
            leader.check_epoch(epoch)
        assert caught.value.code == code


def test_a_move_to_a_broker_without_replica_takes_the_log_along(prepared: Prepare) -> None:
    scene = Scene()
    scene.topic([1])
    scene.append(prepared(4))
    scene.state.move_leader("t", 0, 2, now_ms=0)
    assert scene.partition()[0] == 2
    assert scene.partition()[2] == (2,)
    assert scene.leader().log.end_offset == scene.leader().high_watermark == 4
    with pytest.raises(Refused):
        scene.replica(1)


def test_a_stale_broker_still_believes_it_leads(scene: Scene, prepared: Prepare) -> None:
    """KIP-232's scene: broker 1 does not hear of the move and answers with the old picture."""
    scene.state.replication.stale.add(1)
    scene.state.move_leader("t", 0, 2, now_ms=0)
    assert scene.replica(1).is_leader
    assert scene.state.replication.brokers[1].image.topics["t"].partitions[0].leader_epoch == 0
    scene.append(prepared(1))
    scene.state.replication.stale.clear()
    scene.state.publish(now_ms=0)
    scene.state.replication.sync_all(now_ms=0)
    assert not scene.replica(1).is_leader
    scene.check_agreement()


def test_a_follower_whose_disk_refuses_leaves_the_in_sync_set(
    scene: Scene, prepared: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(scene.replica(2).log, "append", full)
        scene.append(prepared(2))
        assert scene.partition() == (1, 0, (1, 3)), "the epoch stays: nobody else leads"
        assert scene.leader().high_watermark == 2
    scene.append(prepared(1))
    assert scene.partition()[2] == (1, 2, 3), "and comes back once it has caught up"
    scene.check_agreement()


def test_a_deleted_topic_is_gone_everywhere_and_comes_back_as_another(
    scene: Scene, prepared: Prepare
) -> None:
    first = scene.state.image.topics["t"].topic_id
    scene.append(prepared(3))
    woken = []
    scene.leader().on_change.append(lambda: woken.append(1))
    scene.state.delete_topic("t", now_ms=0)
    assert woken, "whoever waits on it is woken"
    with pytest.raises(Refused) as caught:
        scene.replica(1)
    assert caught.value.code == UNKNOWN_TOPIC_OR_PARTITION
    assert not any(state.replicas for state in scene.state.replication.brokers.values())
    scene.topic()
    assert scene.state.image.topics["t"].topic_id != first
    assert scene.leader().log.end_offset == 0


def test_a_topic_deleted_while_a_broker_was_away_is_deleted_there_too(
    scene: Scene, prepared: Prepare
) -> None:
    scene.append(prepared(3))
    scene.stop(3)
    scene.state.delete_topic("t", now_ms=0)
    scene.topic([1, 2])
    scene.up(3)
    assert not scene.state.replication.brokers[3].replicas
    assert scene.leader().log.end_offset == 0


def test_a_broker_with_many_partitions_returns_in_one_picture() -> None:
    """One picture per partition made this quadratic: 248 s for 10,000 partitions."""
    scene = Scene()
    scene.topic(*([1, 2, 3] for _ in range(500)))
    scene.stop(3)
    before = scene.state.image.epoch
    scene.up(3)
    assert scene.partition(499)[2] == (1, 2, 3)
    assert scene.state.image.epoch - before < 10


def test_leaders_are_spread(scene: Scene) -> None:
    assignment = scene.state.controller.spread(6, 2)
    assert sorted(replicas[0] for replicas in assignment) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(replicas)) == 2 for replicas in assignment)
