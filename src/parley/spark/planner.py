"""What exists and where it ends: the questions that the driver asks the cluster.

Lives in the driver's long-lived process of a stream (or in the planner of a batch), never in a task.

1. Metadata is asked for anew when it is older than `DISCOVERY_INTERVAL_S`, or when the caller has a
   reason to doubt it; offsets are asked for every time.
2. The order is metadata, then offsets: ids that are older than the offsets beside them can only make a
   re-created topic look shrunk, never make its offsets look like the old topic's.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from parley.client import (
    EARLIEST,
    LATEST,
    ClusterMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    Timestamp,
    TopicPartition,
    format_uuid,
)
from parley.errors import BrokerError
from parley.spark.bounds import Bound
from parley.spark.clients import client_for
from parley.spark.loss import LossPolicy
from parley.spark.offsets import Offsets
from parley.spark.source_options import SourceOptions
from parley.spark.subscription import UNKNOWN_TOPIC_OR_PARTITION, check_existence, select_partitions

DISCOVERY_INTERVAL_S = 1.0
"""How long a new topic or partition may stay unnoticed by a stream that has nothing else to do."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that exist and are to be read, with the ids of their topics (text form) where there are any."""

    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, str] = field(default_factory=dict)


class Planner:
    """Asks a cluster for what a subscription reads and where it begins and ends. Connects at its first question."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.policy = LossPolicy(options.fail_on_data_loss)
        self._assignment: Assignment | None = None
        self._asked_at = 0.0
        self._some_are_missing = False

    def assignment(self, *, fresh: bool = False, must_exist: bool = False) -> Assignment:
        """Return the partitions to read.

        With `must_exist` a topic or partition that is named and missing raises the broker's error for it;
        otherwise it is left out.
        """
        now = time.monotonic()
        known = self._assignment
        if known is not None and not fresh and not must_exist and now - self._asked_at < DISCOVERY_INTERVAL_S:
            return known
        metadata = self._metadata()
        if must_exist:
            check_existence(self.options.subscription, metadata)
        found = _assignment(select_partitions(self.options.subscription, metadata), metadata)
        self._assignment, self._asked_at = found, now
        return found

    def _metadata(self) -> ClusterMetadata:
        client = client_for(self.options.client)
        wanted = self.options.subscription.wanted_topics()
        if wanted is not None and not self._some_are_missing:
            try:
                return client.metadata(wanted)
            except BrokerError as error:
                if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        # One of them is gone: what is left is read all the same. To ask for all topics, unlike for a
        # missing one by its name, waits for none to appear.
        found = client.metadata(None)
        self._some_are_missing = any(topic not in found.topics for topic in wanted or ())
        return found

    def ask(
        self, questions: Mapping[TopicPartition, OffsetSpec | Timestamp]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the answers of ListOffsets. The client follows leaders and retries what may pass."""
        if not questions:
            return {}
        client = client_for(self.options.client)
        return client.list_offsets(questions, isolation_level=self.options.fetch.isolation_level)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the logs begin."""
        return {tp: found.offset for tp, found in self.ask(dict.fromkeys(partitions, EARLIEST)).items()}

    def latest(self, assignment: Assignment) -> Offsets:
        """Return where the logs end, and in which history. (read_committed: the last stable offset.)"""
        answers = self.ask(dict.fromkeys(assignment.partitions, LATEST))
        return offsets_of(answers, assignment.ids)

    def resolve(self, bound: Bound, assignment: Assignment) -> Offsets:
        """Return the offsets that a bound stands for. Raises ConfigError as `Bound.check` and `Bound.unanswered`."""
        partitions = assignment.partitions
        bound.check(partitions)
        answers = self.ask(bound.questions(partitions))
        late = bound.unanswered(answers)
        answers |= self.ask(dict.fromkeys(late, LATEST))
        found = offsets_of(answers, assignment.ids)
        return Offsets(dict(found.positions) | bound.explicit(partitions), found.ids, found.epochs)

    def inside(self, wanted: Offsets, explicit: Collection[TopicPartition]) -> Offsets:
        """Return `wanted` with the offsets that a user named brought inside the logs; what is lost is reported."""
        first = self.earliest(explicit)
        last = offsets_of(self.ask(dict.fromkeys(explicit, LATEST)), wanted.ids)
        positions = dict(wanted.positions)
        for tp in sorted(explicit):
            offset, end = positions[tp], last.positions[tp]
            if offset < first[tp]:
                self.policy.aged_out(tp, offset, first[tp])
            elif offset > end:
                self.policy.shrunk(tp, offset, end)
            positions[tp] = min(max(offset, first[tp]), end)
        return Offsets(positions, wanted.ids, {**wanted.epochs, **last.epochs})


def offsets_of(answers: Mapping[TopicPartition, OffsetAndTimestamp], ids: Mapping[str, str]) -> Offsets:
    """Return answers as offsets of a stream, with the leader epochs that came with them (ListOffsets v4+).

    Not with those of the metadata: an epoch older than its offset would make every later truncation
    check (KIP-320) find the records in between gone.
    """
    epochs = {tp: answer.leader_epoch for tp, answer in answers.items() if answer.leader_epoch >= 0}
    return Offsets({tp: answer.offset for tp, answer in answers.items()}, ids, epochs)


def _assignment(partitions: tuple[TopicPartition, ...], metadata: ClusterMetadata) -> Assignment:
    topics = (metadata.topics[name] for name in {tp.topic for tp in partitions})
    return Assignment(partitions, {topic.name: format_uuid(topic.topic_id) for topic in topics if any(topic.topic_id)})
