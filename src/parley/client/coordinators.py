"""Which broker coordinates a group or a transactional id, and asking it: FindCoordinator.

1. A coordinator is remembered until it says that it is none (NOT_COORDINATOR), or cannot be reached.
2. A look-up of several keys is one request where the broker takes several (v4, KIP-699), else one each.
3. What may pass is tried again until the deadline: 14, 15 and 16 while a coordinator loads or moves, 51
   while the markers of the transaction before are being written (with a shorter pause: that is soon over).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from enum import IntEnum
from typing import Any, TypeVar

from parley.client.cluster import Cluster
from parley.client.retry import Backoff, Deadline, Reaction, classify
from parley.errors import BrokerError, KafkaError, NetworkError, UnsupportedVersionError, broker_error
from parley.messages import FindCoordinatorRequest
from parley.net import Address, BrokerConnection
from parley.schema import ApiKey
from parley.versions import Feature, VersionRange

T = TypeVar("T")
BATCHED_COORDINATORS = 4
"""First FindCoordinator version that takes several keys (KIP-699)."""
MOVED = (15, 16)
"""COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR: another broker has to be looked for."""
CONCURRENT_TRANSACTIONS = 51
_SOON = Backoff(20, 250)
"""Pauses after CONCURRENT_TRANSACTIONS; Java's producer begins with 20 ms too."""


class KeyType(IntEnum):
    """What a coordinator is looked for: the numbers of FindCoordinator v1+."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """The coordinators that one client knows. Belongs to the event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[KeyType, str], int] = {}

    async def find(self, kind: KeyType, keys: Iterable[str], deadline: Deadline) -> None:
        """Learn the coordinators of keys that are not known yet, all at once where the broker can.

        An error of one key, and a lost connection, are left to the calls that need the keys: they try again.
        """
        unknown = [key for key in dict.fromkeys(keys) if (kind, key) not in self._known]
        if len(unknown) < 2:
            return
        with contextlib.suppress(NetworkError):
            conn = await self._able(kind)
            if conn.versions.choose(ApiKey.FIND_COORDINATOR) >= BATCHED_COORDINATORS:
                found = await _look_up(self._cluster, conn, kind, unknown, deadline)
                self._known |= {(kind, key): node for key, node in found.items() if isinstance(node, int)}

    async def ask(
        self,
        kind: KeyType,
        key: str,
        what: str,
        deadline: Deadline,
        attempt: Callable[[BrokerConnection], Awaitable[T]],
    ) -> T:
        """Return what `attempt` returns at the coordinator of a key, repeating it after errors that may pass.

        Raises the last error, with a note saying how often and how long was tried.
        """
        cluster, count, began = self._cluster, 0, self._cluster.now_ms()
        while True:
            try:
                node = await self._node(kind, key, deadline)
                return await attempt(await cluster.connection(node))
            except KafkaError as error:
                code = error.code if isinstance(error, BrokerError) else None
                if code in MOVED or isinstance(error, NetworkError):
                    self._known.pop((kind, key), None)
                reaction = classify(error)
                count += 1
                if reaction is Reaction.FAIL or deadline.passed(cluster.now_ms()):
                    if reaction is not Reaction.FAIL:
                        error.add_note(f"{what}: gave up after {count} attempts in {cluster.now_ms() - began} ms")
                    raise
                backoff = _SOON if code == CONCURRENT_TRANSACTIONS else cluster.backoff
            delay_ms = backoff.delay_ms(count - 1, cluster.dice)
            await cluster.clock.sleep_ms(min(delay_ms, deadline.remaining_ms(cluster.now_ms())))
            if reaction is Reaction.REFRESH:
                await cluster.refresh_quietly(deadline)

    async def _node(self, kind: KeyType, key: str, deadline: Deadline) -> int:
        if (kind, key) not in self._known:
            found = (await _look_up(self._cluster, await self._able(kind), kind, [key], deadline))[key]
            if not isinstance(found, int):
                raise found
            self._known[kind, key] = found
        return self._known[kind, key]

    async def _able(self, kind: KeyType) -> BrokerConnection:
        """Return a connection to a broker that can look such a coordinator up: not all of a cluster may.

        Raises UnsupportedVersionError, before a byte is sent, where none can (transactions: before 0.11).
        """
        refusal: KafkaError | None = None
        for node_id in [None, *self._cluster.view.brokers]:
            try:
                conn = await self._cluster.connection(node_id)
                if kind is KeyType.TRANSACTION:
                    conn.versions.require(Feature.EXACTLY_ONCE)
                return conn
            except UnsupportedVersionError as error:
                refusal = error
            except KafkaError as error:
                if node_id is None:
                    raise
                refusal = refusal or error
        assert refusal is not None  # every connection was refused or raised
        raise refusal


async def _look_up(
    cluster: Cluster, conn: BrokerConnection, kind: KeyType, keys: list[str], deadline: Deadline
) -> dict[str, int | KafkaError]:
    """Return the coordinator of each key, or why there is none. Several keys need v4."""
    allowed = VersionRange(int(kind), 2**15 - 1)  # v0 knows groups only
    version = conn.versions.choose(ApiKey.FIND_COORDINATOR, allowed)
    if version >= BATCHED_COORDINATORS:
        message = FindCoordinatorRequest(coordinator_keys=keys, key_type=int(kind))
    else:
        message = FindCoordinatorRequest(key=keys[0], key_type=int(kind))
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
    answers = reply.message.coordinators if version >= BATCHED_COORDINATORS else [reply.message]
    found: dict[str, int | KafkaError] = {}
    for asked, answer in zip(keys, answers, strict=False):
        key = answer.key if version >= BATCHED_COORDINATORS else asked
        if answer.error_code:
            text = answer.error_message
            found[key] = broker_error(answer.error_code, text, api="FIND_COORDINATOR", version=version)
        else:
            found[key] = _noted(cluster, answer)
    for key in keys:
        missing = f"the answer to FindCoordinator leaves out {key!r}"
        found.setdefault(key, broker_error(15, missing, api="FIND_COORDINATOR", version=version))
    return found


def _noted(cluster: Cluster, answer: Any) -> int:
    """Let the pool know a coordinator that metadata does not name yet."""
    if answer.node_id not in cluster.view.brokers:
        known = {node.id: Address(node.host, node.port) for node in cluster.view.brokers.values()}
        cluster.pool.update_nodes({answer.node_id: Address(answer.host, answer.port)} | known)
    return int(answer.node_id)


async def find_coordinator(cluster: Cluster, group_id: str, deadline: Deadline) -> int:
    """Return the id of the broker that coordinates a group, asking anew each time.

    Raises COORDINATOR_NOT_AVAILABLE, which may pass, while the cluster has none for it.
    """
    conn = await cluster.connection(None)
    found = (await _look_up(cluster, conn, KeyType.GROUP, [group_id], deadline))[group_id]
    if not isinstance(found, int):
        raise found
    return found
