"""Where a group's offsets go in a reset: places that people name, offsets within the log. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TextIO

from parley.errors import ConfigError
from parley.types import OffsetAndMetadata, TopicPartition

_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_HEADER = ["topic", "partition", "offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Where to: exactly one of these."""

    to_earliest: bool = False
    to_latest: bool = False
    to_datetime: str | None = None
    by_duration: str | None = None
    shift_by: int | None = None
    to_offset: int | None = None
    from_file: str | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self.__slots__}
        named = [
            f"--{name.replace('_', '-')}"
            for name, value in given.items()
            if value is not None and value is not False
        ]
        if len(named) != 1:
            options = (
                "--to-earliest, --to-latest, --to-datetime, --by-duration, --shift-by, "
                "--to-offset or --from-file"
            )
            what = (
                f"{' and '.join(named)} are {len(named)} places"
                if named
                else "it is not said where to"
            )
            raise ConfigError(f"{what}: give one of {options}")
        if self.to_offset is not None and self.to_offset < 0:
            raise ConfigError(f"--to-offset {self.to_offset}: offsets start at 0")

    def timestamp_ms(self, now_ms: int) -> int | None:
        """Return the time that offsets are looked up by, None where they are not."""
        if self.to_datetime is not None:
            return read_datetime(self.to_datetime)
        return (
            None if self.by_duration is None else max(0, now_ms - read_duration(self.by_duration))
        )


class Known(NamedTuple):
    """What is known of a partition: first offset, the one after its last, the group's commit."""

    begin: int
    end: int
    committed: OffsetAndMetadata | None
    by_time: int | None = None
    """The first offset at or after the time that is asked for; -1 where no record is as late."""


class Move(NamedTuple):
    """A partition's offset before and after; `asked` is what was wanted, beyond the log's ends."""

    partition: TopicPartition
    current: int | None
    new: int
    asked: int | None = None


def plan(
    reset: Reset, known: Mapping[TopicPartition, Known], listed: Mapping[TopicPartition, int]
) -> list[Move]:
    """Return where each partition goes. `listed` are the offsets of a file.

    An offset outside of the log becomes the nearest one inside. Raises ConfigError where there is
    no offset to shift.
    """
    moves = []
    for tp, found in sorted(known.items()):
        wanted = listed[tp] if reset.from_file is not None else _wanted(reset, tp, found)
        new = min(max(wanted, found.begin), found.end)
        current = found.committed.offset if found.committed is not None else None
        moves.append(Move(tp, current, new, wanted if wanted != new else None))
    return moves


def _wanted(reset: Reset, tp: TopicPartition, found: Known) -> int:
    if reset.to_earliest:
        return found.begin
    if reset.to_offset is not None:
        return reset.to_offset
    if reset.shift_by is not None:
        if found.committed is None:
            raise ConfigError(
                f"--shift-by: the group has committed nothing for {tp}; leave it out, or say "
                "where to"
            )
        return found.committed.offset + reset.shift_by
    if found.by_time is not None and found.by_time >= 0:
        return found.by_time
    return found.end


def read_datetime(text: str, option: str = "--to-datetime") -> int:
    """Return milliseconds since 1970 of a time as Java's tool takes it: UTC unless it names a zone.
    `option` is named in errors.

    >>> read_datetime("1970-01-02T00:00:00.000"), read_datetime("1970-01-01T01:00:00+01:00")
    (86400000, 0)
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f'{option} "{text}" is no date and time: give 2026-01-31T23:59:59.000'
        ) from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    ms = (found - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if ms < 0:
        raise ConfigError(f'{option} "{text}" lies before 1970')
    return ms


def read_duration(text: str) -> int:
    """Return the milliseconds of a duration as ISO 8601 and Java write it.

    >>> read_duration("P7D"), read_duration("PT1H30M"), read_duration("PT0.5S")
    (604800000, 5400000, 500)
    """
    found = _DURATION.fullmatch(text.upper())
    parts = (
        {name: float(value) for name, value in found.groupdict().items() if value} if found else {}
    )
    if not parts:
        raise ConfigError(
            f'--by-duration "{text}" is no duration: give P7D for a week, PT1H30M for 90 minutes'
        )
    try:
        return timedelta(**parts) // timedelta(milliseconds=1)
    except OverflowError:
        raise ConfigError(f'--by-duration "{text}" is too long') from None


def read_offsets(name: str, lines: TextIO) -> dict[TopicPartition, int]:
    """Return the offsets in a file of Java's tool, lines of `topic,partition,offset`."""
    found: dict[TopicPartition, int] = {}
    reader = csv.reader(lines)
    for row in reader:
        where = f"{name}, line {reader.line_num}"
        if not row or row == _HEADER:
            continue
        if not _is_offset(row):
            raise ConfigError(f'{where}: "{",".join(row)}" is not topic,partition,offset')
        tp = TopicPartition(row[0], int(row[1]))
        if tp in found:
            raise ConfigError(f"{where}: {tp} stands there twice")
        found[tp] = int(row[2])
    if not found:
        raise ConfigError(
            f"{name} names no partition: topic,partition,offset is expected in each line"
        )
    return found


def _is_offset(row: list[str]) -> bool:
    if (
        len(row) != 3
        or not row[0]
        or not (row[1].strip().isdecimal() and row[2].strip().isdecimal())
    ):
        return False
    return int(row[1]) < 2**31 and int(row[2]) < 2**63
