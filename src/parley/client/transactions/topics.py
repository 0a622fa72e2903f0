"""Whether a topic was deleted or created again while a transaction was writing to it.

What was written to the former topic is gone, and a commit would make the rest of the transaction
visible without it. Two things show it: another topic id (Kafka 2.8), and offsets that start over.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping

from parley.client.cluster.core import Cluster
from parley.client.cluster.metadata_source import metadata_request, read_answer
from parley.client.cluster.retry import Deadline
from parley.client.cluster.view import TOPIC_IDS_VERSION
from parley.client.results import PartitionAck
from parley.errors import DataLossError
from parley.errors.codes import LEADER_NOT_AVAILABLE, NONE
from parley.schema import ApiKey
from parley.types import ZERO_UUID, TopicPartition
from parley.versions import Feature, VersionRange

CONFIRMATIONS = 4
"""Answers in a row that must deny a topic's id before it counts as gone."""


class WrittenTopics:
    """What the open transaction has written to: topic ids, how far each partition got. Pure."""

    def __init__(self) -> None:
        self._ids: dict[str, bytes] = {}
        self._written: dict[TopicPartition, list[tuple[int, int]]] = {}

    @property
    def known(self) -> list[str]:
        """The topics whose id is known."""
        return sorted(self._ids)

    def clear(self) -> None:
        """Begin with another transaction."""
        self._ids.clear()
        self._written.clear()

    def begun(self, topic: str, topic_id: bytes) -> None:
        """Take note of the id that a topic has when it is first written to."""
        if topic_id != ZERO_UUID:
            self._ids.setdefault(topic, topic_id)

    def acknowledged(self, acks: Iterable[PartitionAck]) -> None:
        """Note offsets. Raises DataLossError if they were given before: the log is another."""
        for ack in acks:
            written = self._written.setdefault(ack.partition, [])
            for batch in ack.batches:
                start, end = batch.base_offset, batch.base_offset + batch.records
                if start < 0:
                    # a retry that the broker knew already; it does not always say where it is
                    continue
                at = bisect(written, (start, end))
                before, after = written[at - 1 : at], written[at : at + 1]
                if (before and before[0][1] > start) or (after and after[0][0] < end):
                    raise _lost(ack.partition.topic, ack.partition.partition)
                if before and before[0][1] == start:
                    written[at - 1] = (before[0][0], end)
                else:
                    written.insert(at, (start, end))

    def check(self, ids: Mapping[str, bytes]) -> None:
        """Raise DataLossError for a topic that has another id now, or none: it is gone."""
        for topic, before in self._ids.items():
            now = ids.get(topic, b"")
            if now not in (before, ZERO_UUID):
                raise _lost(topic)


async def check_topics(cluster: Cluster, written: WrittenTopics, deadline: Deadline) -> None:
    """Ask whether written topics are the same. Raises DataLossError if it is denied for long.

    Asked again for a moment first: a broker may be behind.
    """
    if not written.known:
        return

    async def ask() -> dict[str, bytes] | None:
        return await _topic_ids(cluster, written.known, deadline)

    for attempt in range(CONFIRMATIONS):
        ids = await cluster.retrying("asking whether topics are still the same", deadline, ask)
        if ids is None:
            return
        try:
            written.check(ids)
            return
        except DataLossError:
            if attempt + 1 == CONFIRMATIONS:
                # the next transaction begins with the new ids
                await cluster.refresh_quietly(deadline)
                raise
        await cluster.pause(attempt, deadline)


async def _topic_ids(
    cluster: Cluster, topics: list[str], deadline: Deadline
) -> dict[str, bytes] | None:
    """Return the ids that topics have now by a broker; None where that one has no ids."""
    conn = await cluster.connection(None)
    if not conn.versions.supports(Feature.TOPIC_IDS):
        return None
    reply = await cluster.ask(
        conn,
        metadata_request(topics, conn.versions.choose(ApiKey.METADATA)),
        cluster.request_timeout_ms(deadline),
        VersionRange(TOPIC_IDS_VERSION, 2**15 - 1),
    )
    update = await read_answer(reply)
    return {
        topic.name: topic.topic_id
        for topic in update.topics
        if topic.error_code in (NONE, LEADER_NOT_AVAILABLE)
    }


def _lost(topic: str, partition: int | None = None) -> DataLossError:
    return DataLossError(
        f'topic "{topic}" was deleted, and maybe created again, while a '
        "transaction was writing to it: what the transaction had written "
        "there is gone. Call abort_transaction, then write all of it again.",
        topic=topic,
        partition=partition,
    )
