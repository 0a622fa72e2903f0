"""FindCoordinator: which broker coordinates a group or a transactional id. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from parley.errors import KafkaError, broker_error
from parley.errors.codes import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from parley.messages import FindCoordinatorRequest, FindCoordinatorResponse
from parley.schema import ApiKey
from parley.types import Node
from parley.versions import BrokerVersions, Feature, VersionRange

SEVERAL_KEYS_VERSION = Feature.BATCHED_COORDINATORS.first_version(ApiKey.FIND_COORDINATOR)
"""First FindCoordinator version that takes several keys (KIP-699)."""
MOVED = (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
"""Another broker has to be looked for."""


class KeyType(IntEnum):
    """What a coordinator is looked for: the numbers of FindCoordinator v1+."""

    GROUP = 0
    TRANSACTION = 1


_NAMES = {KeyType.GROUP: "group", KeyType.TRANSACTION: "transactional id"}


def allowed_versions(kind: KeyType) -> VersionRange:
    """Return the versions that can ask for this kind: v0 knows groups only."""
    return VersionRange(int(kind), 2**15 - 1)


def takes_several(versions: BrokerVersions) -> bool:
    """Return whether a broker can be asked for several keys in one request."""
    return versions.supports(Feature.BATCHED_COORDINATORS)


def coordinators_request(
    kind: KeyType, keys: Sequence[str], version: int
) -> FindCoordinatorRequest:
    """Return the request for these keys; below v4 there may be one only."""
    if version >= SEVERAL_KEYS_VERSION:
        return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=int(kind))
    (key,) = keys
    return FindCoordinatorRequest(key=key, key_type=int(kind))


def read_coordinators(
    response: FindCoordinatorResponse, version: int, kind: KeyType, keys: Sequence[str]
) -> dict[str, Node | KafkaError]:
    """Return the coordinator of each key, or why there is none."""
    found: dict[str, Node | KafkaError] = {}
    for answer in response.coordinators if version >= SEVERAL_KEYS_VERSION else [response]:
        key = keys[0] if isinstance(answer, FindCoordinatorResponse) else answer.key
        if answer.error_code:
            found[key] = broker_error(
                answer.error_code,
                answer.error_message,
                api="FIND_COORDINATOR",
                version=version,
                resource=f"{_NAMES[kind]} {key}",
            )
        else:
            found[key] = Node(answer.node_id, answer.host, answer.port)
    for key in keys:
        text = f"the answer to FindCoordinator leaves out {key!r}"
        found.setdefault(
            key,
            broker_error(COORDINATOR_NOT_AVAILABLE, text, api="FIND_COORDINATOR", version=version),
        )
    return found
