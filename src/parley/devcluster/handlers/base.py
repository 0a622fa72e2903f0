"""What every handler is given and may answer.

A handler is a synchronous function from a request to a response. It translates between messages and
`state`; it keeps nothing itself. Some answers are no messages: `Wait` (not yet), `Slices` (much to
do), `NoAnswer` (acks=0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from parley.devcluster.release.profile import Profile
from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.fetch_sessions import FetchSessions
from parley.devcluster.state.groups.share.sessions import ShareSessions
from parley.devcluster.state.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.errors.codes import NOT_LEADER_OR_FOLLOWER
from parley.messages import (
    FetchResponse,
    Message,
    ProduceResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from parley.schema import ApiKey, VersionRange

Q = TypeVar("Q", bound=Message)
"""The request of one API."""


@dataclass(slots=True)
class Call:
    """One request's surroundings: who is asked, in which version, when.

    `listener` names the listener that the client came by; None is the first, whose addresses the
    image has.
    """

    cluster: ClusterState
    broker: BrokerState
    profile: Profile
    version: int
    now_ms: int
    fetch_sessions: FetchSessions
    client_id: str | None = None
    client_host: str = ""
    """Where the client is, as coordinators write it: `/127.0.0.1`."""
    ahead: dict[int, object] = field(default_factory=dict)
    """What was done before the handler ran, by what it was done to; see `Handler.ahead`."""
    listener: str | None = None
    share_sessions: ShareSessions = field(default_factory=ShareSessions)
    connection: int = 0
    """The number of the connection that the request came by, among those of the broker."""
    clock: Callable[[], int] | None = None
    """The time of day for answers that have to wait; without it, that of the request."""
    _seen: tuple[ClusterImage, ClusterImage] | None = None
    """The broker's image that was last asked for, and the same as clients of `listener` see it."""

    @property
    def present_ms(self) -> int:
        """The time of day now, while `now_ms` is when the request came."""
        return self.now_ms if self.clock is None else self.clock()

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker knows it, with the addresses of the client's listener."""
        known = self.broker.image
        if self.listener is None:
            return known
        if self._seen is None or self._seen[0] is not known:
            self._seen = known, known.seen_from(self.listener)
        return self._seen[1]

    def reported_isr(self, partition: PartitionImage) -> tuple[int, ...]:
        """Return the in-sync replicas as this release reports them."""
        return () if self.reported_eligible(partition) else partition.isr

    def reported_eligible(self, partition: PartitionImage) -> tuple[int, ...]:
        """Return the replicas that are reported as eligible leaders: those that all
        records are on, and none runs.
        """
        gone = partition.leader == NO_LEADER and self.profile.behaviour.names_eligible_leaders
        return partition.isr if gone else ()


class Watched(Protocol):
    """What an answer may wait for: a replica, or an answer that other
    members have to bring about.
    """

    @property
    def on_change(self) -> list[Callable[[], None]]:
        """Called after each change."""


@dataclass(slots=True)
class Wait:
    """No answer yet: `attempt(False)` is asked whenever something of `on` changes, `attempt(True)`
    at the end.

    `attempt` returns None while there is still nothing to say; the last one always answers, with a
    message or slices.
    """

    on: Sequence[Watched]
    timeout_ms: int
    attempt: Callable[[bool], Message | Slices | None]


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The request is not answered. With `close` the connection ends: a failed acks=0 Produce."""

    close: bool = False


@dataclass(frozen=True, slots=True)
class Slices:
    """Much to do: the broker takes one of `steps` after the other, and serves others between them.

    The last one is the answer. Each before it is None, or work that a thread does before the next
    step is asked for; it may touch no state. The state may change between them.
    """

    steps: Iterator[Message | Callable[[], None] | None]


Answer = Message | Wait | Slices | NoAnswer


@dataclass(frozen=True, slots=True)
class Handler(Generic[Q]):
    """One API: its key, the versions written here, and its two functions.

    `refuse(request, version, code)` gives a response that says `code` wherever this API has a place
    for it; fault injection uses it. `ahead` returns work for a thread that takes too long for the
    loop of all brokers, or None; `handle` runs after it.
    """

    key: ApiKey
    versions: VersionRange
    handle: Callable[[Call, Q], Answer]
    refuse: Callable[[Q, int, int], Message]
    ahead: Callable[[Call, Q], Callable[[], None] | None] | None = None


def leader_replica(call: Call, topic: str, index: int, current_leader_epoch: int = -1) -> Replica:
    """Return this broker's replica, as its leader. Raises Refused (3, 6,
    74, 75) in Kafka's order.
    """
    replica = call.broker.find(topic, index)
    replica.check_epoch(current_leader_epoch)
    replica.require_leader()
    return replica


E = TypeVar(
    "E",
    FetchResponse.NodeEndpoint,
    ProduceResponse.NodeEndpoint,
    ShareFetchResponse.NodeEndpoint,
    ShareAcknowledgeResponse.NodeEndpoint,
)
Hinted = (
    FetchResponse.PartitionData
    | ProduceResponse.PartitionProduceResponse
    | ShareFetchResponse.PartitionData
    | ShareAcknowledgeResponse.PartitionData
)


class LeaderHints:
    """The new leaders and their endpoints that a response names for partitions that moved
    (KIP-951).

    `codes` are the errors that carry a hint. Endpoints are collected once per node (K14); a
    partition whose leader is unknown or not alive gets (-1, -1) and no endpoint (K16).
    """

    def __init__(
        self, image: ClusterImage, codes: Sequence[int] = (NOT_LEADER_OR_FOLLOWER,)
    ) -> None:
        self._image = image
        self._codes = codes
        self._nodes: dict[int, BrokerImage] = {}

    def hint(self, partition: Hinted, code: int, topic: str, index: int) -> None:
        """Fill `partition.current_leader` when `code` asks for it."""
        found = self._image.partition(topic, index) if code in self._codes else None
        if found is None:
            return
        broker = self._image.brokers.get(found.leader)
        if broker is None:
            return
        partition.current_leader.leader_id = found.leader
        partition.current_leader.leader_epoch = found.leader_epoch
        self._nodes[broker.id] = broker

    def endpoints(self, kind: type[E]) -> list[E]:
        """Return the endpoints of the leaders that were named."""
        return [
            kind(node_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in self._nodes.values()
        ]


def code_of(error: Refused | OSError, storage_code: int) -> int:
    """Return the code that answers a refusal; a disk that refuses is `storage_code`."""
    return error.code if isinstance(error, Refused) else storage_code
