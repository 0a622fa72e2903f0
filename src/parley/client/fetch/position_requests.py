"""Asking what positions need: whether they are still in the leader's log, and where a reset leads.

P4, P5 A leader without epochs is found out when it is connected to; the position then counts as
valid.
P6 One request per leader.
P11 Each partition gets its answer or its error; what is to be done about it is decided elsewhere.
P16 A reset that meets an old leader is asked again after a refresh, and stays a reset.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from parley.client.cluster.core import Cluster
from parley.client.fetch.answers import Asked
from parley.client.fetch.positions import Duration, Spec
from parley.client.fetch.state import PartitionFetch
from parley.client.offsets.leader_epochs import EpochQuestion, ask_leader
from parley.client.offsets.list_offsets import list_offsets
from parley.client.results import EARLIEST, LATEST, EpochEndOffset, OffsetSpec, Timestamp
from parley.errors import KafkaError


class Found(NamedTuple):
    """Where a reset leads."""

    asked: Spec
    offset: int


TOGETHER_MS = 5_000
"""How long the partitions of several topics are looked up together: one of them may be gone."""

Kept = EpochEndOffset | Found | KafkaError
Answered = list[tuple[Asked, Kept]]


class PositionKeeper:
    """The questions about positions. Belongs to the event loop."""

    def __init__(self, cluster: Cluster, isolation_level: str) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level

    async def validate(self, node_id: int, lane: str, asked: Sequence[Asked]) -> Answered:
        """Ask a leader whether these positions lie in its log."""
        questions = {
            one.part.tp: EpochQuestion(one.position.offset_epoch, one.position.leader_epoch)
            for one in asked
        }
        try:
            conn = await self._cluster.connection(node_id, lane)
            found = await ask_leader(
                self._cluster, conn, questions, self._cluster.options.request_timeout_ms
            )
        except KafkaError as error:
            return [(one, error) for one in asked]
        return [(one, found[one.part.tp]) for one in asked]

    def is_unheard_of(self, part: PartitionFetch) -> bool:
        """Return whether no Metadata answer has named the topic, nor trouble was met with it."""
        topic, cluster = part.tp.topic, self._cluster
        known = topic in cluster.view.topics or cluster.cache.topic_error(topic)
        return not (known or part.attempts)

    async def hear_of(self, asked: Sequence[Asked]) -> Sequence[Asked]:
        """Return these partitions again when a Metadata answer has named their leaders, or none
        came.
        """
        self._cluster.schedule.want({one.part.tp.topic for one in asked})
        await self._cluster.refresh_quietly(self._cluster.deadline(TOGETHER_MS))
        return asked

    def reset_groups(self, parts: Sequence[PartitionFetch]) -> list[list[PartitionFetch]]:
        """Return the partitions in groups to look up: those of one leader together, and by topic
        those that nobody leads or that had trouble.
        """
        groups: dict[str | int, list[PartitionFetch]] = {}
        for part in parts:
            leader = None if part.attempts else self._cluster.leader(part.tp).node
            groups.setdefault(part.tp.topic if leader is None else leader.id, []).append(part)
        return list(groups.values())

    async def reset(self, asked: Sequence[Asked]) -> Answered:
        """Look up where these partitions are read from.

        One topic's trouble is not another's: what is not answered soon is asked for by topic.
        """
        topics: dict[str, list[Asked]] = {}
        for one in asked:
            topics.setdefault(one.part.tp.topic, []).append(one)
        try:
            return await self._look_up(asked, TOGETHER_MS if len(topics) > 1 else None)
        except KafkaError as error:
            if len(topics) == 1:
                return [(one, error) for one in asked]
        found = await asyncio.gather(*map(self.reset, topics.values()))
        return [one for answered in found for one in answered]

    async def _look_up(self, asked: Sequence[Asked], timeout_ms: int | None) -> Answered:
        """Ask for the offsets; a time after the last record is the end.

        The end is asked for before the time: what is written between the two questions is then
        read, not skipped.
        """
        wanted = [(one, spec) for one in asked if (spec := one.part.positions.reset) is not None]
        specs = {one.part.tp: _place(spec) for one, spec in wanted}
        deadline = self._cluster.deadline(timeout_ms)
        late = dict.fromkeys(
            (tp for tp, spec in specs.items() if spec not in (EARLIEST, LATEST)), LATEST
        )
        ends = (
            await list_offsets(self._cluster, late, self._isolation_level, deadline) if late else {}
        )
        found = await list_offsets(self._cluster, specs, self._isolation_level, deadline)
        found |= {tp: end for tp, end in ends.items() if found[tp].offset < 0}
        return [(one, Found(spec, found[one.part.tp].offset)) for one, spec in wanted]


def _place(spec: Spec) -> OffsetSpec | Timestamp:
    return (
        Timestamp(max(0, int(time.time() * 1000) - spec.ms)) if isinstance(spec, Duration) else spec
    )
