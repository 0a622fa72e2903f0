"""Where a request goes, and asking there: any broker, one, leaders, controller, coordinator, all.

1. A call has one deadline. What may pass is tried again until then, with the client's backoff;
   whether an error may pass stands in the error (`retry.classify`), and how long to wait first in
   `retry.backoff_after`.
2. What is known of the cluster is used until it proves wrong: a leader until metadata names another
   one, the controller until NOT_CONTROLLER, a coordinator until NOT_COORDINATOR or until it cannot
   be reached. Those who look for the same coordinator at the same time share one look-up.
3. `attempt` gets a negotiated connection, asks once, and raises what the broker answered. It may be
   called again.

Every function raises the last error at the deadline, with a note saying how often and how long was
tried, and UnsupportedVersionError, before a byte is sent, where a broker cannot do what is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from parley.client.cluster.coordinators import (
    MOVED,
    KeyType,
    allowed_versions,
    coordinators_request,
    read_coordinators,
    takes_several,
)
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline, Reaction, classify
from parley.client.cluster.wanted_topics import ensure_partitions
from parley.errors import (
    BrokerError,
    KafkaError,
    NetworkError,
    RequestTimedOut,
    UnsupportedVersionError,
    broker_error,
)
from parley.errors.codes import LEADER_NOT_AVAILABLE, NOT_CONTROLLER, UNKNOWN_LEADER_EPOCH
from parley.net import Address, BrokerConnection, Deadline as ClockDeadline
from parley.net.failures import REQUEST
from parley.net.shared import outcome
from parley.schema import ApiKey
from parley.types import Node, TopicPartition
from parley.versions import Feature

T = TypeVar("T")
Question = TypeVar("Question")
Answer = TypeVar("Answer")
Attempt = Callable[[BrokerConnection], Awaitable[T]]


async def at_any(
    cluster: Cluster,
    what: str,
    deadline: Deadline,
    attempt: Attempt[T],
    *,
    feature: Feature | None = None,
) -> T:
    """Return what `attempt` returns at any broker; with `feature`, at one that has it."""

    async def once() -> T:
        return await attempt(await _able(cluster, feature))

    return await cluster.retrying(what, deadline, once)


async def at_broker(
    cluster: Cluster, node_id: int, what: str, deadline: Deadline, attempt: Attempt[T]
) -> T:
    """Return what `attempt` returns at this broker."""

    async def once() -> T:
        return await attempt(await cluster.connection(node_id))

    return await cluster.retrying(what, deadline, once)


async def at_all(
    cluster: Cluster, what: str, deadline: Deadline, attempt: Attempt[T]
) -> dict[int, T]:
    """Return what `attempt` returns at each known broker, by id; all are asked at once."""
    nodes = sorted(cluster.view.brokers)
    asked = (
        at_broker(cluster, node, f"{what} (broker {node})", deadline, attempt) for node in nodes
    )
    return dict(zip(nodes, await asyncio.gather(*asked), strict=True))


async def at_controller(cluster: Cluster, what: str, deadline: Deadline, attempt: Attempt[T]) -> T:
    """Return what `attempt` returns at the controller.

    Metadata v0 names none: then any broker is asked, which may answer NOT_CONTROLLER.
    """

    async def once() -> T:
        if cluster.view.controller_id not in cluster.view.brokers and await _names_controllers(
            cluster
        ):
            await cluster.refresh(deadline)
        controller = cluster.view.controller_id
        conn = await cluster.connection(controller if controller in cluster.view.brokers else None)
        try:
            return await attempt(conn)
        except BrokerError as error:
            if error.code == NOT_CONTROLLER:
                await cluster.refresh_quietly(deadline)
            raise

    return await cluster.retrying(what, deadline, once)


async def at_leaders(
    cluster: Cluster,
    what: str,
    deadline: Deadline,
    questions: Mapping[TopicPartition, Question],
    ask: Callable[
        [BrokerConnection, Mapping[TopicPartition, Question]],
        Awaitable[Mapping[TopicPartition, Answer | KafkaError]],
    ],
) -> dict[TopicPartition, Answer]:
    """Return the leader's answer for each partition.

    `ask` gets the questions of the partitions that one broker leads and returns for each its
    answer, or its error. Answers are kept; errors that may pass are asked about again. Raises the
    broker's error for a partition that is missing.
    """
    found: dict[TopicPartition, Answer] = {}

    async def at_leader(node_id: int, group: Mapping[TopicPartition, Question]) -> list[KafkaError]:
        try:
            answers = await ask(await cluster.connection(node_id), group)
        except KafkaError as error:
            return [error]
        found.update({tp: one for tp, one in answers.items() if not isinstance(one, KafkaError)})
        return [one for one in answers.values() if isinstance(one, KafkaError)]

    async def once() -> None:
        missing = {tp: question for tp, question in questions.items() if tp not in found}
        await ensure_partitions(cluster, missing, deadline)
        groups: dict[int, dict[TopicPartition, Question]] = {}
        for tp, question in missing.items():
            leader = cluster.leader(tp).node
            if leader is None:
                text = "no broker leads it now"
                raise broker_error(
                    LEADER_NOT_AVAILABLE, text, topic=tp.topic, partition=tp.partition
                )
            groups.setdefault(leader.id, {})[tp] = question
        trouble = await asyncio.gather(*(at_leader(*group) for group in groups.items()))
        errors = [error for some in trouble for error in some]
        if any(
            isinstance(error, BrokerError) and error.code == UNKNOWN_LEADER_EPOCH
            for error in errors
        ):
            # P16: the leader is behind us, or a topic without id was created again. Metadata will
            #      say which.
            await cluster.refresh_quietly(deadline)
        for error in sorted(errors, key=lambda error: classify(error) is not Reaction.FAIL):
            raise error  # one that will not pass before one that may

    with cluster.interested(questions):
        await cluster.retrying(what, deadline, once)
    return {tp: found[tp] for tp in questions}


async def at_coordinator(
    cluster: Cluster, kind: KeyType, key: str, what: str, deadline: Deadline, attempt: Attempt[T]
) -> T:
    """Return what `attempt` returns at the coordinator of a group or of a transactional id."""

    async def once() -> T:
        node_id = await coordinator_of(cluster, kind, key, deadline)
        try:
            return await attempt(await cluster.connection(node_id))
        except KafkaError as error:
            if isinstance(error, NetworkError) or (
                isinstance(error, BrokerError) and error.code in MOVED
            ):
                forget_coordinator(cluster, kind, key, node_id)
            raise

    return await cluster.retrying(what, deadline, once)


async def coordinator_of(cluster: Cluster, kind: KeyType, key: str, deadline: Deadline) -> int:
    """Return the coordinator of a group or a transactional id; asks once where it is not known.

    All who look for it at the same time wait for one answer (G1). Raises what FindCoordinator
    answers, what asking raises, and RequestTimedOut at the deadline.
    """
    where = kind, key
    if where in cluster.coordinators:
        return cluster.coordinators[where]
    conn = await _able(cluster, _LOOKED_UP_BY[kind])
    if where in cluster.coordinators:  # another has found it meanwhile
        return cluster.coordinators[where]
    task = cluster.look_ups.get(where)
    if task is None:
        task = asyncio.get_running_loop().create_task(_coordinator_at(cluster, conn, kind, key))
        cluster.look_ups[where] = task
        task.add_done_callback(lambda done: _looked_up(cluster, where, done))
    try:
        async with ClockDeadline(cluster.clock, max(deadline.at_ms, cluster.now_ms() + 1)):
            return await outcome(task)
    except TimeoutError:
        raise RequestTimedOut(
            f"FindCoordinator for {key!r} was not answered before the deadline of the call "
            "(timeout_ms or default_api_timeout_ms); nothing but this look-up was sent",
            address=str(conn.address),
            stage=REQUEST,
        ) from None


async def _coordinator_at(cluster: Cluster, conn: BrokerConnection, kind: KeyType, key: str) -> int:
    """Ask for one coordinator, for everybody who waits: no deadline of theirs ends it."""
    deadline = cluster.deadline(cluster.options.request_timeout_ms)
    found = (await _look_up(cluster, conn, kind, [key], deadline))[key]
    if isinstance(found, KafkaError):
        raise found
    return found.id


def _looked_up(cluster: Cluster, where: tuple[KeyType, str], task: asyncio.Task[int]) -> None:
    del cluster.look_ups[where]
    if not task.cancelled():
        task.exception()  # retrieved: those who wait for it get it too


def forget_coordinator(cluster: Cluster, kind: KeyType, key: str, node_id: int | None) -> None:
    """Look a coordinator up before the next request, if it is still taken for this broker.

    Of several that it refused the last ones would forget what the first has found since.
    """
    if cluster.coordinators.get((kind, key)) == node_id:
        cluster.coordinators.pop((kind, key), None)


async def find_coordinators(
    cluster: Cluster, kind: KeyType, keys: Iterable[str], deadline: Deadline
) -> None:
    """Learn the coordinators of unknown keys, by one request where brokers take several (KIP-699).

    An error of one key, and a lost connection, are left to the calls that need the keys: they try
    again.
    """
    unknown = [key for key in dict.fromkeys(keys) if (kind, key) not in cluster.coordinators]
    if len(unknown) < 2:
        return
    with contextlib.suppress(NetworkError):
        conn = await _able(cluster, _LOOKED_UP_BY[kind])
        if takes_several(conn.versions):
            await _look_up(cluster, conn, kind, unknown, deadline)


async def _look_up(
    cluster: Cluster, conn: BrokerConnection, kind: KeyType, keys: Sequence[str], deadline: Deadline
) -> dict[str, Node | KafkaError]:
    """Ask once for the coordinators of these keys; what is found is remembered."""
    allowed = allowed_versions(kind)
    message = coordinators_request(
        kind, keys, conn.versions.choose(ApiKey.FIND_COORDINATOR, allowed)
    )
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
    found = read_coordinators(reply.message, reply.version, kind, keys)
    for key, node in found.items():
        if isinstance(node, Node):
            cluster.coordinators[kind, key] = node.id
            if node.id not in cluster.view.brokers:  # metadata does not name it yet
                known = {
                    one.id: Address(one.host, one.port)
                    for one in (node, *cluster.view.brokers.values())
                }
                cluster.pool.update_nodes(known)
    return found


_LOOKED_UP_BY = {KeyType.GROUP: None, KeyType.TRANSACTION: Feature.EXACTLY_ONCE}
"""What a broker must know to look a coordinator up: before 0.11 there are none of transactions."""


async def _able(cluster: Cluster, feature: Feature | None) -> BrokerConnection:
    """Return a connection to a broker that has a feature: during an upgrade not all may have it.

    Raises UnsupportedVersionError where none has it.
    """
    if feature is None:
        return await cluster.connection(None)
    refusal: KafkaError | None = None
    for node_id in [None, *cluster.view.brokers]:
        try:
            conn = await cluster.connection(node_id)
            conn.versions.require(feature)
            return conn
        except UnsupportedVersionError as error:
            refusal = error
        except KafkaError as error:
            if node_id is None:
                raise  # no broker can be reached
            refusal = refusal or error
    assert refusal is not None  # each connection was refused or raised
    raise refusal


async def _names_controllers(cluster: Cluster) -> bool:
    """Return whether asking again may name the controller: Metadata v0 never does."""
    return (await cluster.connection(None)).versions.supports(Feature.CONTROLLER_ID)
