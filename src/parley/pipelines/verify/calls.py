"""The calls: asynchronous, and blocking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parley.client import AsyncClient, Client
from parley.errors import ConfigError
from parley.pipelines.verify.beginnings import later_beginning
from parley.pipelines.verify.comparing import compare_latest, compare_records
from parley.pipelines.verify.planning import Alignment, Pair, matched, named_topics, planned, within
from parley.pipelines.verify.reading import READ_COMMITTED, Side
from parley.pipelines.verify.results import (
    Difference,
    DifferenceKind,
    Verification,
    VerifiedPartition,
)
from parley.types import Names, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What counts in a comparison. The class takes what `verify_topics` takes by name.

    Raises ConfigError for options that exclude each other.
    """

    isolation_level: str = READ_COMMITTED
    """`read_uncommitted` reads records of open and aborted transactions, too. Brokers before 0.11
    have no transactions, and are read as they are."""
    ignore_timestamps: bool = False
    """Leave timestamps out. This happens by itself for a partition of which a side has records in
    format 0 (brokers before 0.10), and `timestamps_compared` says so."""
    latest_per_key: bool = False
    """Compare, for each key, the latest record: for compacted topics, whose other records may be
    gone on either side. Tombstones count."""
    ignore_tombstones: bool = False
    """With `latest_per_key`: a key whose latest record is a tombstone is the same as none."""
    from_later_beginning: bool = False
    """Compare from the later of both beginnings on, where retention has deleted more of one side:
    its first record is looked up in the other."""
    alignment: Alignment | None = None
    """Which offsets of the right side belong to offsets of the left one, where somebody knows."""
    left_offsets: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """What of the left side is compared, where it is not all: of a partition the first offset and
    the one behind the last."""

    def __post_init__(self) -> None:
        if self.ignore_tombstones and not self.latest_per_key:
            raise ConfigError("ignore_tombstones needs latest_per_key: else each record counts")
        if self.from_later_beginning and self.latest_per_key:
            raise ConfigError(
                "from_later_beginning and latest_per_key exclude each other: what compaction "
                "leaves has no common first record"
            )


async def async_verify_topics(
    left: AsyncClient,
    right: AsyncClient,
    topics: Names | Mapping[str, str],
    options: VerifyOptions | None = None,
) -> Verification:
    """Compare topics of two clusters, or of one, and return what was found; no record is moved.

    `topics` are names, or the right side's name of each of the left one's. What was written when
    the call began is compared, record by record in the order of their offsets: offsets themselves
    may differ and have holes. Each side is read once, in its own tasks and threads; what is kept of
    it are digests of runs, about 200 KB for a partition at most. Where they differ the runs are
    read again, shorter each time, down to the first record that differs.

    Equal means equal keys, values, headers (their order, null and empty ones apart) and
    timestamps. Header keys that are no UTF-8 are compared after U+FFFD has replaced what is wrong.
    Two different sides pass for equal with a probability of about 2^-61: hashes find accidents, not
    forgeries.

    Raises ConfigError for topics that are no names, and those that neither side has; DataLossError
    where records are deleted meanwhile; CorruptRecordError where records are damaged; the brokers'
    errors otherwise.
    """
    options = VerifyOptions() if options is None else options
    names = named_topics(topics)
    ours = await Side.of(left, options.isolation_level)
    theirs = await Side.of(right, options.isolation_level)
    pairs, lacking = matched(names, await ours.partitions(), await theirs.partitions())
    left_extents = await ours.extents(one for one, _ in pairs)
    left_extents |= within(left_extents, options.left_offsets)
    right_extents = await theirs.extents(other for _, other in pairs)
    plan = list(planned(pairs, left_extents, right_extents, options.alignment))
    timestamps = not options.ignore_timestamps and ours.has_timestamps and theirs.has_timestamps
    if options.latest_per_key:
        done = await compare_latest(ours, theirs, plan, timestamps, options.ignore_tombstones)
    else:
        strangers: Sequence[VerifiedPartition] = ()
        if options.from_later_beginning:
            plan, strangers = await _from_later_beginnings(ours, theirs, plan, timestamps)
        done = [*await compare_records(ours, theirs, plan, timestamps), *strangers]
    order = {name: place for place, name in enumerate(names)}
    order |= {name: place for place, name in enumerate(names.values()) if name not in order}
    return Verification(tuple(sorted([*done, *lacking], key=lambda one: _place(one, order))))


def _place(found: VerifiedPartition, order: Mapping[str, int]) -> tuple[int, int]:
    tp = found.left if found.left is not None else found.right
    assert tp is not None
    return order[tp.topic], tp.partition


async def _from_later_beginnings(
    left: Side, right: Side, plan: Sequence[Pair], timestamps: bool
) -> tuple[list[Pair], list[VerifiedPartition]]:
    begun, strangers = [], []
    for pair in plan:
        found = await later_beginning(left, right, pair, timestamps)
        if found is not None:
            begun.append(found)
            continue
        detail = (
            f"the first record of {pair.left} is not in the right side, and that of the right side "
            "not in the left one: nothing common is left, or one of these records is damaged"
        )
        strangers.append(
            VerifiedPartition(
                pair.left,
                pair.right,
                (pair.left_extent.start, pair.left_extent.end),
                (pair.right_extent.start, pair.right_extent.end),
                timestamps_compared=timestamps,
                difference=Difference(DifferenceKind.NO_COMMON_BEGINNING, detail),
            )
        )
    return begun, strangers


def verify_topics(
    left: Client,
    right: Client,
    topics: Names | Mapping[str, str],
    options: VerifyOptions | None = None,
) -> Verification:
    """Compare topics as `async_verify_topics` does, with blocking clients."""
    return left._run(async_verify_topics(left._async(), right._async(), topics, options))
