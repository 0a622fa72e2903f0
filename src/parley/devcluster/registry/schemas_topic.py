"""The topic `_schemas`, in which a registry's state lives, as with Confluent's registry.

It is written into the leader's log and those of its followers, and read from it when the registry
starts: with a data directory schemas survive whatever records do. Other clients can read it, too.
"""

from __future__ import annotations

from collections.abc import Callable

from parley.devcluster.refusals import refusals
from parley.devcluster.registry.events import Event, decoded
from parley.devcluster.registry.refusals import RegistryRefused
from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.log.appending import AppendRules, prepare
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.refused import Refused
from parley.errors import KafkaError
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    records,
)

TOPIC = "_schemas"
REPLICAS = 3
_PRODUCE_VERSIONS = (0, 2, 3)
"""By format of records, a version of Produce that brings it."""


class SchemasTopic:
    """The topic in one cluster. `magic_of` returns the format that a broker's release keeps."""

    def __init__(
        self, state: ClusterState, now_ms: Callable[[], int], magic_of: Callable[[int], int]
    ) -> None:
        self._state = state
        self._now_ms = now_ms
        self._magic_of = magic_of

    def make(self) -> None:
        """Create the topic where it is not there. Raises ConfigError when it cannot be."""
        if TOPIC in self._state.image.topics:
            return
        with refusals():
            factor = min(REPLICAS, len(self._state.image.brokers))
            assignment = self._state.controller.spread(1, factor)
            configs = {"cleanup.policy": "compact"}
            self._state.create_topic(TOPIC, assignment, configs, now_ms=self._now_ms())

    def read(self) -> list[Event]:
        """Return everything that was kept, in order. Nothing where no leader has it."""
        leader = self._leader()
        if leader is None:
            return []
        found: list[Event] = []
        for _, batch in leader.log.batches_from(leader.log.start_offset):
            for chunk in decode_columns(bytes(batch), first_offset=0):
                events = (decoded(row.key, row.value) for row in records(chunk.columns))
                found += [one for one in events if one is not None]
        return found

    def keep(self, events: list[Event]) -> None:
        """Append events, all or none. Raises RegistryRefused where no leader takes them."""
        leader = self._leader()
        if leader is None:
            raise RegistryRefused(50003, "the topic _schemas has no leader; start its brokers")
        magic, now_ms = self._magic_of(leader.broker_id), self._now_ms()
        rows = [Record(-1, now_ms, 0, *event.encoded(), ()) for event in events]
        columns = columns_from_records(rows, with_offsets=False)
        settings = self._state.settings_of(TOPIC)
        rules = AppendRules(
            _PRODUCE_VERSIONS[magic],
            magic,
            settings.max_message_bytes,
            settings.log_append_time,
        )
        try:
            batches = encode_batches(columns, options=WriteOptions(magic=magic))
            sets = [
                one
                for batch in batches
                for one in prepare(memoryview(batch.data), rules, now_ms=now_ms, where=(TOPIC, 0))
            ]
            self._state.append(leader, sets, now_ms=now_ms)
        except (Refused, KafkaError, OSError) as error:
            raise RegistryRefused(50001, f"Error while registering schema: {error}") from error

    def _leader(self) -> Replica | None:
        image = self._state.image.topics.get(TOPIC)
        if image is None:
            return None
        return self._state.replication.leader_of(ReplicaKey(image.topic_id, 0))
