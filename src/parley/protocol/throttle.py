"""Who waits when a quota is exceeded: the broker or the client (KIP-219).

Brokers before 2.0 held the answer back and then reported the time already waited. Later ones answer
at once and mute the connection, so that the client has to wait. Which of the two it is follows from
the answer's version: each API has a first version in which the client must wait.

Source: `shouldClientThrottle` of the response classes of kafka-clients 3.9.1, equal in 4.3.0.
APIs that are not listed never ask the client to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_FIRST_VERSION_BY_KEYS: dict[int, tuple[int, ...]] = {
    # DeleteRecords, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn,
    # EndTxn, TxnOffsetCommit, ACLs, AlterConfigs, AlterReplicaLogDirs,
    # DescribeLogDirs, CreatePartitions, delegation tokens, DeleteGroups
    1: (21, 22, 24, 25, 26, 28, 29, 30, 31, 33, 34, 35, 37, 38, 39, 40, 41, 42),
    # FindCoordinator, Heartbeat, LeaveGroup, SyncGroup, DescribeGroups, ListGroups, ApiVersions,
    # DeleteTopics, DescribeConfigs
    2: (10, 12, 13, 14, 15, 16, 18, 20, 32),
    3: (2, 11, 19),  # ListOffsets, JoinGroup, CreateTopics
    4: (8, 9),  # OffsetCommit, OffsetFetch
    6: (0, 3),  # Produce, Metadata
    8: (1,),  # Fetch
    # ElectLeaders, IncrementalAlterConfigs, partition reassignments, OffsetDelete, SCRAM
    # credentials, BrokerRegistration, BrokerHeartbeat, UnregisterBroker, DescribeTopicPartitions
    0: (43, 44, 45, 46, 47, 50, 51, 62, 63, 64, 75),
}

CLIENT_THROTTLES_FROM: Mapping[int, int] = MappingProxyType(
    {key: version for version, keys in _FIRST_VERSION_BY_KEYS.items() for key in keys}
)
"""API key → first response version after which the client waits out `throttle_time_ms`."""


def client_throttle_ms(api_key: int, version: int, message: object) -> int:
    """Return how long the client must send nothing on this connection after `message`.

    0 where the broker has already waited (brokers before 2.0), or where there is nothing to wait
    for.
    """
    first = CLIENT_THROTTLES_FROM.get(api_key)
    if first is None or version < first:
        return 0
    return max(0, int(getattr(message, "throttle_time_ms", 0)))
