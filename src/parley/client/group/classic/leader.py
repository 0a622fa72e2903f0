"""What the leader of a group does: learn about the topics of all members, and
share the partitions out. What takes long for a thousand members runs in another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.view import ClusterMetadata
from parley.client.group.assignors import OWN, CooperativeStickyAssignor
from parley.client.group.assignors.base import Assignor, Member, Racks
from parley.errors import KafkaError, LocalProtocolError
from parley.types import TopicPartition

T = TypeVar("T")
FEW = {"range": 1_500, "roundrobin": 1_500, "sticky": 500, "cooperative-sticky": 500}
"""Assignor → so many members and partitions together it shares out in about two milliseconds."""
FEW_MEMBERS = 500
"""So many subscriptions are decoded in about as long."""

Shape = Mapping[str, tuple[bytes, Sequence[Racks]]]
"""What an assignment rests on: of each topic its id, and the racks of each partition's replicas."""


def shape_of(view: ClusterMetadata, topics: Iterable[str], *, racks: bool) -> Shape:
    """Return what is known of topics; those that do not exist are left out (G24)."""
    found: dict[str, tuple[bytes, Sequence[Racks]]] = {}
    for name in topics:
        topic = view.topics.get(name)
        if topic is not None and topic.partitions:
            of = topic.partitions
            places: list[Racks] = [frozenset()] * (max(of) + 1)
            if racks:
                for at, partition in of.items():
                    places[at] = _racks(view, partition.replicas)
            found[name] = topic.topic_id, places
    return found


def _racks(view: ClusterMetadata, replicas: Iterable[int]) -> Racks:
    brokers = (view.brokers.get(node) for node in replicas)
    return frozenset(broker.rack for broker in brokers if broker is not None and broker.rack)


async def learn_topics(cluster: Cluster, topics: Iterable[str], deadline: Deadline) -> None:
    """Ask for metadata until it has been asked for all these topics once.
    Raises what a refresh raises.
    """
    missing = [name for name in topics if name not in cluster.view.topics]
    if missing:
        cluster.schedule.want(missing)
        await cluster.refresh_until(deadline)


async def apart(work: Callable[[], T], size: int, few: int = FEW_MEMBERS) -> T:
    """Return what `work` on so many members and partitions returns, from another thread where they
    are not few, so that it takes longer than to get there.

    A thread has to wait for the loop's, which is busiest when a group rebalances. With a thousand
    members the work takes a tenth of a second: heartbeats, and all other tasks of the loop, go on
    meanwhile.
    """
    return work() if size <= few else await asyncio.to_thread(work)


async def share_out_apart(
    assignor: Assignor,
    view: ClusterMetadata,
    members: Sequence[Member],
    then: Callable[[dict[str, list[TopicPartition]]], T],
) -> T:
    """Do what `share_out` does by what is known of the members' topics, and `then` with the shares,
    both `apart`. An assignor of the application's own may take as long as it likes.
    """
    topics = {topic for member in members for topic in member.subscription.topics}

    def work() -> T:
        racks = any(member.subscription.rack for member in members)
        try:
            shares = share_out(assignor, shape_of(view, topics, racks=racks), members)
        except Exception as error:
            raise as_error(error, assignor.name) from error
        return then(shares)

    known = (view.topics[topic] for topic in topics & view.topics.keys())
    size = len(members) + sum(len(topic.partitions) for topic in known)
    return await apart(work, size, FEW[assignor.name] if assignor in OWN else 0)


def share_out(
    assignor: Assignor, shape: Shape, members: Sequence[Member]
) -> dict[str, list[TopicPartition]]:
    """Return each member's share.

    Raises LocalProtocolError for an assignor that leaves a member out, names somebody else, gives a
    partition twice, or, being cooperative, gives what a member owns to another one at once (G34).
    """
    shares = assignor.assign({name: racks for name, (_, racks) in shape.items()}, members)
    _check(assignor, shares, members)
    return {member: list(found) for member, found in shares.items()}


def _check(
    assignor: Assignor, shares: Mapping[str, Sequence[TopicPartition]], members: Sequence[Member]
) -> None:
    what = f'the assignor "{assignor.name}"'
    if set(shares) != {member.member_id for member in members}:
        raise LocalProtocolError(
            f"{what} has to give every member of the group a share, and nobody else"
        )
    holder = {tp: member for member, found in shares.items() for tp in found}
    if len(holder) != sum(map(len, shares.values())):
        raise LocalProtocolError(f"{what} gave a partition twice")
    # whose rule is finer
    if assignor.cooperative and not isinstance(assignor, CooperativeStickyAssignor):
        for member in members:
            for tp in member.subscription.owned:
                if holder.get(tp, member.member_id) != member.member_id:
                    raise LocalProtocolError(
                        f"{what} gave {tp} to {holder[tp]} while {member.member_id} owns it: "
                        "a cooperative assignor "
                        "leaves it out until it was given up"
                    )


def as_error(error: BaseException, assignor: str) -> KafkaError:
    """Return an exception of a user's assignor as an error that every poll raises."""
    if isinstance(error, KafkaError):
        return error
    made = LocalProtocolError(f'the assignor "{assignor}" raised {type(error).__name__}: {error}')
    made.__cause__ = error
    return made
