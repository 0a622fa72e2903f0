"""What exists and where it ends: the questions that the driver asks the cluster.

Lives in the driver's long-lived process of a stream (or in the planner of a batch), never in a
task.

1. Metadata is asked for again when it is older than `DISCOVERY_INTERVAL_S`, or when the caller has
   a reason to doubt it; offsets are asked for every time.
2. The order is metadata, then offsets: ids that are older than the offsets beside them can only
   make a re-created topic look shrunk, never make its offsets look like the old topic's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
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
from parley.errors import BrokerError, ConfigError
from parley.errors.codes import UNKNOWN_TOPIC_OR_PARTITION
from parley.spark.options.bounds import Bound, Committed
from parley.spark.options.source import SourceOptions
from parley.spark.options.subscription import check_existence, select_partitions
from parley.spark.options.table import (
    FAIL_ON_DATA_LOSS,
    MAX_BYTES_PER_PARTITION,
    MAX_PARTITIONS,
    MAX_RECORDS_PER_PARTITION,
    MIN_PARTITIONS,
)
from parley.spark.read import asking
from parley.spark.read.history import Histories
from parley.spark.read.loss import LossPolicy
from parley.spark.read.packing import Task, pack
from parley.spark.read.ranges import OffsetRange, split_ranges
from parley.spark.read.samples import sample_ranges
from parley.spark.values.moments import Back
from parley.spark.values.offsets import Offsets, recreated, show

DISCOVERY_INTERVAL_S = 1.0
"""How long a new topic or partition may stay unnoticed by a stream that has nothing else to do."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions to read that exist, with their topics' ids (text form), if any."""

    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, str] = field(default_factory=dict)


class Planner:
    """Asks a cluster what a subscription reads, from where to where. Connects when asked."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.policy = LossPolicy(options.own[FAIL_ON_DATA_LOSS])
        self.histories = Histories(self._epoch_ends)
        self._assignment: Assignment | None = None
        self._leaders: dict[TopicPartition, int] = {}
        """Broker ids, where tasks read ranges of one leader."""
        self._asked_at = 0.0
        self._some_are_missing = False
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def assignment(self, *, fresh: bool = False, must_exist: bool = False) -> Assignment:
        """Return the partitions to read.

        With `must_exist` a topic or partition that is named and missing raises the broker's error
        for it; otherwise it is left out.
        """
        now = time.monotonic()
        known = self._assignment
        if (
            known is not None
            and not fresh
            and not must_exist
            and now - self._asked_at < DISCOVERY_INTERVAL_S
        ):
            return known
        metadata = self._metadata()
        if must_exist:
            check_existence(self.options.subscription, metadata)
        found = _assignment(select_partitions(self.options.subscription, metadata), metadata)
        self._assignment, self._asked_at = found, now
        if self.options.own[MAX_PARTITIONS] is not None:
            known_leaders = ((tp, metadata.leader(tp)) for tp in found.partitions)
            self._leaders = {tp: node.id for tp, node in known_leaders if node is not None}
        return found

    def _metadata(self) -> ClusterMetadata:
        wanted = self.options.subscription.wanted_topics()
        if wanted is not None and not self._some_are_missing:
            try:
                return asking.ask(self.options, lambda client: client.metadata(wanted))
            except BrokerError as error:
                if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        # One of them is gone: what is left is read all the same. To ask for all topics, unlike for
        # a missing one by its name, waits for none to appear.
        found = asking.ask(self.options, lambda client: client.metadata(None))
        self._some_are_missing = any(topic not in found.topics for topic in wanted or ())
        return found

    def ask(
        self, questions: Mapping[TopicPartition, OffsetSpec | Timestamp]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return ListOffsets' answers. The client follows leaders, retries what may pass."""
        if not questions:
            return {}
        level = self.options.fetch.isolation_level
        return asking.ask(
            self.options, lambda client: client.list_offsets(questions, isolation_level=level)
        )

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the logs begin."""
        return {
            tp: found.offset for tp, found in self.ask(dict.fromkeys(partitions, EARLIEST)).items()
        }

    def latest(self, assignment: Assignment) -> Offsets:
        """Return where the logs end (read_committed: the last stable offset), in which history."""
        answers = self.ask(dict.fromkeys(assignment.partitions, LATEST))
        return offsets_of(answers, assignment.ids)

    def _epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = asking.ask(self.options, lambda client: client.offsets_for_leader_epochs(epochs))
        return {tp: answer.end_offset for tp, answer in found.items() if answer.end_offset >= 0}

    def tasks(self, ranges: Collection[OffsetRange]) -> list[Task]:
        """Return what each task reads, as minPartitions, maxPartitions, maxRecordsPerPartition and
        maxBytesPerPartition say.
        """
        options, densities = self.options, {}
        if options.own[MAX_BYTES_PER_PARTITION] is not None:
            level = options.fetch.isolation_level
            densities = asking.ask(options, lambda client: sample_ranges(client, ranges, level))
        found = split_ranges(
            ranges,
            min_partitions=options.own[MIN_PARTITIONS],
            max_records=options.own[MAX_RECORDS_PER_PARTITION],
            max_bytes=options.own[MAX_BYTES_PER_PARTITION],
            densities=densities,
        )
        return pack(found, options.own[MAX_PARTITIONS], self._leaders, densities)

    def resolve(self, bound: Bound, assignment: Assignment) -> Offsets:
        """Return the offsets that a bound stands for, named ones brought inside the logs.

        Raises ConfigError as `Bound.check` and `Bound.unanswered`; what is lost is reported to the
        policy.
        """
        partitions = assignment.partitions
        bound.check(partitions)
        if isinstance(bound.everywhere, Committed):
            return self._inside(*self._committed(bound.everywhere, assignment))
        questions = bound.questions(partitions, self.now_ms())
        # The ends come first: what is written between the
        # two questions is then read, and not skipped.
        ends = self.ask(
            {tp: LATEST for tp, place in questions.items() if isinstance(place, Timestamp)}
        )
        answers = self.ask(questions)
        answers |= {tp: ends[tp] for tp in bound.unanswered(answers) if tp in ends}
        found = offsets_of(answers, assignment.ids)
        positions = dict(found.positions)
        if isinstance(bound.everywhere, Back):
            first, back = self.earliest(partitions), bound.everywhere.offsets
            positions = {tp: max(first[tp], end - back) for tp, end in positions.items()}
        explicit = bound.explicit(partitions)
        others: dict[str, str] = {}
        if bound.ids or bound.epochs:  # copied from a checkpoint
            now = offsets_of(self.ask(dict.fromkeys(explicit, LATEST)), assignment.ids)
            others = recreated(Offsets(explicit, bound.ids, bound.epochs), now)
        for topic in sorted(others):
            self.policy.recreated(topic, others[topic])
            explicit |= self.earliest([tp for tp in explicit if tp.topic == topic])
        epochs = {
            **found.epochs,
            **{tp: epoch for tp, epoch in bound.epochs.items() if tp.topic not in others},
        }
        named_in = "" if bound.ids or bound.epochs else bound.option
        return self._inside(Offsets(positions | explicit, found.ids, epochs), explicit, named_in)

    def _committed(
        self, place: Committed, assignment: Assignment
    ) -> tuple[Offsets, Collection[TopicPartition]]:
        """Return where a group is, and in which partitions it has committed. Raises
        ConfigError where it has not.
        """
        found = asking.ask(
            self.options,
            lambda client: client.committed_offsets(place.group, assignment.partitions),
        )
        there = {tp: where for tp, where in found.items() if where is not None}
        missing = found.keys() - there.keys()
        if missing and place.otherwise is None:
            raise ConfigError(
                f'group "{place.group}" has committed nothing for {show(missing)}. '
                "Set startingOffsets to committed-or-earliest or "
                "committed-or-latest to say where to start there."
            )
        rest = offsets_of(
            self.ask(dict.fromkeys(missing, place.otherwise or LATEST)), assignment.ids
        )
        positions = {tp: where.offset for tp, where in there.items()}
        epochs = {tp: where.leader_epoch for tp, where in there.items() if where.leader_epoch >= 0}
        return Offsets(
            {**positions, **rest.positions}, assignment.ids, {**rest.epochs, **epochs}
        ), positions

    def _inside(
        self, wanted: Offsets, explicit: Collection[TopicPartition], named_in: str = ""
    ) -> Offsets:
        """Return `wanted` with named offsets brought inside the logs; what is lost is reported.

        `named_in` is the option that names offsets of which nobody knows that they were ever in a
        log.
        """
        first = self.earliest(explicit)
        last = offsets_of(self.ask(dict.fromkeys(explicit, LATEST)), wanted.ids)
        positions = dict(wanted.positions)
        for tp in sorted(explicit):
            offset, end = positions[tp], last.positions[tp]
            if offset < first[tp]:
                self.policy.aged_out(tp, offset, first[tp])
            elif offset > end and named_in:
                self.policy.beyond(tp, named_in, offset, end)
            elif offset > end:
                self.policy.shrunk(tp, offset, end)
            positions[tp] = min(max(offset, first[tp]), end)
        return Offsets(positions, wanted.ids, {**last.epochs, **wanted.epochs})


def offsets_of(
    answers: Mapping[TopicPartition, OffsetAndTimestamp], ids: Mapping[str, str]
) -> Offsets:
    """Return answers as a stream's offsets, with their leader epochs (ListOffsets v4+).

    Not with those of the metadata: an epoch older than its offset would make every later truncation
    check (KIP-320) find the records in between gone.
    """
    epochs = {tp: answer.leader_epoch for tp, answer in answers.items() if answer.leader_epoch >= 0}
    return Offsets({tp: answer.offset for tp, answer in answers.items()}, ids, epochs)


def _assignment(partitions: tuple[TopicPartition, ...], metadata: ClusterMetadata) -> Assignment:
    topics = (metadata.topics[name] for name in {tp.topic for tp in partitions})
    return Assignment(
        partitions,
        {topic.name: format_uuid(topic.topic_id) for topic in topics if any(topic.topic_id)},
    )
