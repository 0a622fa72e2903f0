"""Where a query starts and ends: from options to questions, from brokers' answers to offsets.

Pure: `Bound.questions` says what must be asked, somebody asks, `Bound.offsets` says what came of
it. Precedence as in Spark's own source: startingTimestamp, then startingOffsetsByTimestamp, then
startingOffsets; the same for the ending.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from parley.client import (
    EARLIEST,
    LATEST,
    OffsetAndTimestamp,
    OffsetSpec,
    Timestamp,
    TopicPartition,
)
from parley.errors import ConfigError, nearest_hint
from parley.spark.options import table
from parley.spark.options.row import SparkOption, Use
from parley.spark.options.texts import GivenOptions
from parley.spark.values.moments import Ago, Back, read_ago, read_back
from parley.spark.values.offsets import show
from parley.spark.values.user_json import read_histories, read_partition_values


class Committed(NamedTuple):
    """Where a consumer group is; `otherwise` is for partitions without a commit."""

    group: str
    otherwise: OffsetSpec | None


Place = OffsetSpec | Timestamp | Ago | Back | Committed
Question = OffsetSpec | Timestamp
_NAMED = {"earliest": EARLIEST, "latest": LATEST}
_COMMITTED = {"committed": None, "committed-or-earliest": EARLIEST, "committed-or-latest": LATEST}
_BY_CODE = {EARLIEST.code: EARLIEST, LATEST.code: LATEST}


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is read, by one of `everywhere`, `offsets`, `timestamps`."""

    option: str
    """The option it came from, for errors."""
    everywhere: Place | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    otherwise_latest: bool = True
    """Whether a partition without a record so late counts from its end, or is an error."""
    ids: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The history of `offsets`, where the user copied them from a checkpoint of parley."""

    def check(self, assigned: Collection[TopicPartition]) -> None:
        """Raise ConfigError unless the bound names exactly the partitions that are read."""
        given = self.offsets if self.offsets is not None else self.timestamps
        if given is None or given.keys() == set(assigned):
            return
        missing, extra = set(assigned) - given.keys(), given.keys() - set(assigned)
        parts = []
        if missing:
            parts.append(f"these are missing: {show(missing)}")
        if extra:
            parts.append(f"these are not read, or do not exist: {show(extra)}")
        hint = (
            " Use -2 for earliest and -1 for latest where it does not matter."
            if self.offsets is not None
            else ""
        )
        raise ConfigError(
            f"{self.option} must name all partitions that are read: {'; '.join(parts)}.{hint}"
        )

    def only(self, partitions: Collection[TopicPartition]) -> Bound:
        """Return the bound without what it says about other partitions."""
        kept = set(partitions)
        offsets, timestamps = self.offsets, self.timestamps
        if offsets is not None:
            offsets = {tp: offset for tp, offset in offsets.items() if tp in kept}
        if timestamps is not None:
            timestamps = {tp: ms for tp, ms in timestamps.items() if tp in kept}
        return replace(self, offsets=offsets, timestamps=timestamps)

    def questions(
        self, partitions: Collection[TopicPartition], now_ms: int = 0
    ) -> dict[TopicPartition, Question]:
        """Return what must be asked for these partitions; not for those with offsets.

        A place before the end asks for the end; a group's place asks nothing here.
        """
        if isinstance(self.everywhere, Ago):
            return dict.fromkeys(partitions, Timestamp(max(0, now_ms - self.everywhere.ms)))
        if isinstance(self.everywhere, Back):
            return dict.fromkeys(partitions, LATEST)
        if isinstance(self.everywhere, Committed):
            return {}
        if self.everywhere is not None:
            return dict.fromkeys(partitions, self.everywhere)
        if self.timestamps is not None:
            return {tp: Timestamp(self.timestamps[tp]) for tp in partitions}
        given = self.offsets or {}
        return {tp: _BY_CODE[given[tp]] for tp in partitions if given[tp] < 0}

    def explicit(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets that the user gave as numbers."""
        given = self.offsets or {}
        return {tp: given[tp] for tp in partitions if tp in given and given[tp] >= 0}

    def unanswered(
        self, answers: Mapping[TopicPartition, OffsetAndTimestamp]
    ) -> set[TopicPartition]:
        """Return the partitions without a record as late as asked for: to be asked for LATEST.

        Raises ConfigError for them where startingOffsetsByTimestampStrategy is "error".
        """
        missing = {tp for tp, answer in answers.items() if answer.offset < 0}
        if missing and not self.otherwise_latest:
            raise ConfigError(
                f"{self.option}: no record is as late as asked for in {show(missing)}. Choose "
                'an earlier time, or set startingOffsetsByTimestampStrategy to "latest" to '
                "start at the end there."
            )
        return missing


def starting_bound(given: GivenOptions, use: Use) -> Bound:
    """Return where reading starts. Raises ConfigError for values that mean nothing here."""
    otherwise_latest = given[table.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY] == "latest"
    bound = _by_time(
        given,
        table.STARTING_TIMESTAMP,
        table.STARTING_OFFSETS_BY_TIMESTAMP,
        otherwise_latest=otherwise_latest,
    )
    if bound is not None:
        return bound
    default = "latest" if Use.STREAM_READ in use else "earliest"
    text = given[table.STARTING_OFFSETS] or default
    bound = _relative(text) or _committed(text, given) or _by_offset("startingOffsets", text)
    if Use.BATCH_READ in use and _names(bound, LATEST):
        raise ConfigError(
            "startingOffsets cannot be latest (-1) for a batch: there would be nothing to read"
        )
    return bound


def ending_bound(given: GivenOptions, use: Use = Use.BATCH_READ) -> Bound | None:
    """Return where reading ends, None for a stream without an end. Raises ConfigError
    for values that mean nothing.
    """
    bound = _by_time(
        given, table.ENDING_TIMESTAMP, table.ENDING_OFFSETS_BY_TIMESTAMP, otherwise_latest=True
    )
    if bound is not None:
        return bound
    text = given[table.ENDING_OFFSETS]
    if text is None and Use.STREAM_READ in use:
        return None
    bound = _by_offset("endingOffsets", text or "latest")
    if _names(bound, EARLIEST):
        raise ConfigError("endingOffsets cannot be earliest (-2): there would be nothing to read")
    return bound


def _relative(text: str) -> Bound | None:
    if not text.startswith("-"):
        return None
    for read in (read_back, read_ago):
        try:
            return Bound("startingOffsets", read(text))
        except ValueError:
            continue
    raise ConfigError(
        f'startingOffsets="{text}" cannot be used: "-10 minutes" or "-100 offsets" is expected'
    )


def _committed(text: str, given: GivenOptions) -> Bound | None:
    word = text.strip().lower()
    if word not in _COMMITTED:
        return None
    group = given.kafka.get("group.id", "").strip() or given[table.COMMIT_TO_GROUP]
    if not group:
        raise ConfigError(f"startingOffsets={word} needs the name of the group: set kafka.group.id")
    return Bound("startingOffsets", Committed(group, _COMMITTED[word]))


def check_order(start: Bound, end: Bound) -> None:
    """Raise ConfigError where the options alone say that reading ends before it starts."""
    first_time, last_time = start.everywhere, end.everywhere
    if (
        isinstance(first_time, Timestamp)
        and isinstance(last_time, Timestamp)
        and first_time.ms > last_time.ms
    ):
        raise ConfigError(
            f"{start.option}={first_time.ms} lies after {end.option}={last_time.ms}: exchange them"
        )
    if isinstance(first_time, Ago) and isinstance(last_time, Ago) and first_time.ms < last_time.ms:
        raise ConfigError(f"{start.option} lies after {end.option}: exchange them")
    for mine, other in ((start.offsets, end.offsets), (start.timestamps, end.timestamps)):
        for tp, first in sorted((mine or {}).items()):
            last = (other or {}).get(tp, -1)
            if 0 <= last < first:
                raise ConfigError(
                    f"{start.option} {first} of {tp} lies after {end.option} {last}: exchange them"
                )


def _by_time(
    given: GivenOptions,
    everywhere: SparkOption[int | Ago | None],
    each: SparkOption[str | None],
    *,
    otherwise_latest: bool,
) -> Bound | None:
    moment, moments = given[everywhere], given[each]
    if isinstance(moment, Ago):  # a quiet partition is no mistake then
        return Bound(everywhere.name, moment)
    if moment is not None:
        return Bound(everywhere.name, Timestamp(moment), otherwise_latest=otherwise_latest)
    if moments is not None:
        timestamps = read_partition_values(each.name, moments, low=0, what="a time in milliseconds")
        return Bound(each.name, timestamps=timestamps, otherwise_latest=otherwise_latest)
    return None


def _by_offset(option: str, text: str) -> Bound:
    word = text.strip().lower()
    if word in _NAMED:
        return Bound(option, _NAMED[word])
    if not word.startswith(("{", "[", '"')):
        known = {**_NAMED, **_COMMITTED} if option == "startingOffsets" else _NAMED
        raise ConfigError(
            f'{option}="{text}" is neither earliest, latest nor JSON like '
            f'{{"topicA":{{"0":23,"1":-2}}}}.{nearest_hint(word, known)}'
        )
    what = "an offset (-2 is earliest, -1 is latest)"
    offsets = read_partition_values(option, text, low=-2, what=what)
    ids, epochs = read_histories(option, text)
    return Bound(option, offsets=offsets, ids=ids, epochs=epochs)


def _names(bound: Bound, spec: OffsetSpec) -> bool:
    return bound.everywhere == spec or spec.code in (bound.offsets or {}).values()
