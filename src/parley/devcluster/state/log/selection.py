"""Which replica a consumer should read from: the nearest in its rack, else the leader (KIP-392)."""

from __future__ import annotations

from collections.abc import Mapping

from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.log.replica import Replica


def preferred_replica(
    leader: Replica, brokers: Mapping[int, BrokerImage], rack: str, offset: int
) -> int | None:
    """Return the follower that a consumer in `rack` should read from, None where it is the leader.

    Kafka's RackAwareReplicaSelector: in-sync replicas that reach the offset, of these the one that
    has most, at a tie the highest id.
    """
    own = brokers.get(leader.broker_id)
    if not rack or own is None or own.rack == rack:
        return None
    near = [
        (leader.ends[member], member)
        for member in leader.isr
        if member in brokers
        and brokers[member].rack == rack
        and leader.ends.get(member, -1) >= offset
    ]
    return max(near)[1] if near else None
