"""Replication inside the process: leaders' appends reach the followers, images reach the brokers.

Rules of this file:
1. A follower in step takes an append by reference; one that is not catches up from its leader's
   log, after it has cut what the leader does not have (KIP-101, KIP-279).
2. A follower whose disk refuses leaves the in-sync replicas; the leader goes on.
3. Who hears whom is asked of `links`, which tests cut and slow down: the scenes of KIP-232 and
   KIP-320.
4. The ledger hears of every append and every rise of a high watermark; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parley.devcluster.state.controller import Controller, Join
from parley.devcluster.state.image import ClusterImage
from parley.devcluster.state.log.epochs import UNDEFINED
from parley.devcluster.state.log.replica import Replica, ReplicaKey, Run
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.replication.ledger import Ledger
from parley.devcluster.state.replication.links import EVERYTHING, Links


class Replication:
    """The brokers that run, and what passes between them."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.brokers: dict[int, BrokerState] = {}
        self.links = Links()
        self.stale, self.lagging = self.links.stale, self.links.lagging
        self.ledger = Ledger()

    @property
    def image(self) -> ClusterImage:
        """The controller's newest image."""
        return self.controller.image

    # -- images ------------------------------------------------------------------------------

    def publish(self, *, now_ms: int) -> None:
        """Hand the newest image out and bring followers in step; repeat until nothing changes."""
        published = None
        while published is not self.image:
            published = self.image
            changed: dict[ReplicaKey, None] = {}
            for broker in self.brokers.values():
                if self.links.hears_controller(broker.id):
                    changed.update(dict.fromkeys(broker.apply(published)))
            self.sync(changed, now_ms=now_ms)

    def sync(self, keys: Iterable[ReplicaKey], *, now_ms: int) -> None:
        """Let these partitions' followers catch up, and join the in-sync replicas then."""
        leaders = [leader for leader in map(self.leader_of, keys) if leader is not None]
        caught_up = [
            self._catch_up(leader, follower, now_ms=now_ms)
            for leader in leaders
            for follower in self._followers_of(leader)
        ]
        self._join(caught_up)
        for leader in leaders:
            self._share_high_watermark(leader)

    def _join(self, joins: Iterable[Join | None]) -> None:
        new = [join for join in joins if join is not None]
        if new:
            self.controller.join_isr(new)
            self._publish_isr()

    def sync_all(self, *, now_ms: int) -> None:
        """Bring every follower in step with its leader."""
        keys = {key: None for broker in self.brokers.values() for key in broker.replicas}
        self.sync(keys, now_ms=now_ms)

    def leader_of(self, key: ReplicaKey) -> Replica | None:
        """Return the replica that leads a partition, None when nobody that runs does."""
        replicas = [b.replicas[key] for b in self.brokers.values() if key in b.replicas]
        leaders = [replica for replica in replicas if replica.is_leader]
        # A stale broker may still believe that it leads: the highest epoch is the one that counts.
        return max(leaders, key=lambda replica: replica.leader_epoch, default=None)

    def _followers_of(self, leader: Replica) -> list[Replica]:
        found = []
        for broker in self.brokers.values():
            replica = broker.replicas.get(leader.key)
            if replica is None or replica is leader or replica.leader_epoch != leader.leader_epoch:
                continue
            if self.links.held_back(leader.broker_id, broker.id) != EVERYTHING:
                found.append(replica)
        return found

    # -- records -------------------------------------------------------------------------------

    def push(self, leader: Replica, runs: Sequence[Run], first_offset: int, *, now_ms: int) -> None:
        """Pass what a leader appended to its followers; the high watermark rises with them."""
        if not runs:
            return
        for batches, _ in runs:
            self.ledger.appended(leader, batches)
        for follower in self._followers_of(leader):
            behind = self.links.held_back(leader.broker_id, follower.broker_id)
            if behind or follower.log.end_offset != first_offset:
                self._join([self._catch_up(leader, follower, now_ms=now_ms)])
                continue
            try:
                for run in runs:
                    follower.replicate(run, leader_epoch=leader.leader_epoch, now_ms=now_ms)
            except OSError:
                self._lost(leader, follower)
            else:
                leader.follower_at(follower.broker_id, follower.log.end_offset)
        self._share_high_watermark(leader)

    def begin_segment(self, key: ReplicaKey) -> None:
        """Let a partition's next records go into a segment of their own, at every replica.

        Raises OSError.
        """
        for broker in self.brokers.values():
            if key in broker.replicas:
                broker.replicas[key].log.begin_segment()

    def _catch_up(self, leader: Replica, follower: Replica, *, now_ms: int) -> Join | None:
        """Bring a follower to its leader's end; return what makes it in sync if it was not."""
        try:
            cut_to_leader(leader, follower)
            if follower.log.end_offset < leader.log.start_offset:
                follower.restart_at(leader.log.start_offset)
            if follower.log.end_offset == follower.log.start_offset:
                follower.cleaned = leader.cleaned  # it gets what that has left
            stop = leader.log.end_offset - self.links.held_back(
                leader.broker_id, follower.broker_id
            )
            for facts, data in leader.log.batches_from(follower.log.end_offset):
                if facts.last_offset >= stop:
                    break
                epoch = (
                    facts.leader_epoch
                    if facts.magic == 2
                    else leader.epochs.epoch_at(follower.log.end_offset)
                )
                follower.replicate(((facts,), data), leader_epoch=epoch, now_ms=now_ms)
        except OSError:
            self._lost(leader, follower)
            return None
        leader.follower_at(follower.broker_id, follower.log.end_offset)
        if follower.broker_id in leader.isr or not leader.caught_up(follower.broker_id):
            return None
        return Join(leader.topic, leader.key.partition, follower.broker_id)

    def _lost(self, leader: Replica, follower: Replica) -> None:
        self.controller.leave_isr(leader.topic, leader.key.partition, follower.broker_id)
        self._publish_isr()

    def _publish_isr(self) -> None:
        """Hand out the new in-sync set: the leader epoch stays, so nobody begins again."""
        for broker in self.brokers.values():
            if self.links.hears_controller(broker.id):
                broker.apply(self.image)

    def _share_high_watermark(self, leader: Replica) -> None:
        self.ledger.settle(leader)
        for follower in self._followers_of(leader):
            follower.heard_high_watermark(leader.high_watermark)


def cut_to_leader(leader: Replica, follower: Replica) -> None:
    """Remove from a follower's log what its leader lacks, epoch by epoch (KIP-279)."""
    while follower.log.end_offset > follower.log.start_offset:
        epoch = follower.epochs.latest
        answer = leader.end_of_epoch(epoch)
        if answer.epoch == UNDEFINED:
            # No common epoch is known: only what was acknowledged is safe to keep.
            follower.truncate_to(min(follower.high_watermark, leader.log.end_offset))
            return
        if answer.epoch == epoch:
            follower.truncate_to(answer.end_offset)
            return
        own = follower.end_of_epoch(answer.epoch)
        before = follower.log.end_offset
        follower.truncate_to(
            min(answer.end_offset, own.end_offset) if own.epoch != UNDEFINED else answer.end_offset
        )
        if follower.log.end_offset == before:
            return
