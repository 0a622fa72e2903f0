"""What a verification finds: a row for each pair of partitions, and where each first differs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from parley.errors import printable
from parley.types import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]
SHOWN_CHARACTERS = 120
"""Of a key, a value or headers a text shows so much."""


class DifferenceKind(StrEnum):
    """How two partitions differ where they first do, the left one being what is expected."""

    DIFFERS = "differs"
    """Another record stands there."""
    MISSING = "missing"
    """The right side lacks a record (with `latest_per_key`: a key)."""
    ADDED = "added"
    """The right side has one more."""
    ORDER = "order"
    """The same records in another order."""
    NO_PARTITION = "no partition"
    """A topic or a partition that one side does not have."""
    NO_COMMON_BEGINNING = "no common beginning"
    """`from_later_beginning`: neither side has the record that the other begins with."""
    CHANGED = "changed"
    """The sides differed, and no longer do: retention, compaction or a writer came in between."""


@dataclass(frozen=True, slots=True)
class ComparedRecord:
    """A record as one side has it."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    """-1 where the record has none."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def lines(self) -> list[str]:
        """Return what the record has, a line for each, cut short."""
        return [
            f"topic      {self.partition.topic}",
            f"partition  {self.partition.partition}",
            f"offset     {self.offset}",
            f"timestamp  {self.timestamp_ms}",
            f"key        {shortened(self.key)}",
            f"value      {shortened(self.value)}",
            f"headers    {shortened(list(self.headers))}",
        ]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two partitions: each side's record there, None where it has none."""

    kind: DifferenceKind
    detail: str
    """A sentence that names what differs."""
    rank: int | None = None
    """How many records that both sides have come before it; None where that says nothing."""
    left: ComparedRecord | None = None
    right: ComparedRecord | None = None

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True, slots=True)
class VerifiedPartition:
    """A partition of the left side against its partner; one of them is None where it is missing.
    Where a side lacks the whole topic, the other's partition is -1.

    `left_range` and `right_range` are the offsets that were compared: from the first up to, not
    including, the second. `left_records` and `right_records` count records, or with
    `latest_per_key` keys. `timestamps_compared` is False where that was asked for, and where a side
    has records in format 0, which have none.
    """

    left: TopicPartition | None
    right: TopicPartition | None
    left_range: tuple[int, int] = (0, 0)
    right_range: tuple[int, int] = (0, 0)
    left_records: int = 0
    right_records: int = 0
    timestamps_compared: bool = True
    difference: Difference | None = None

    @property
    def equal(self) -> bool:
        """Whether both have the same records."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of a verification, partition by partition."""

    partitions: tuple[VerifiedPartition, ...]

    @property
    def equal(self) -> bool:
        """Whether both sides have the same partitions with the same records."""
        return all(found.equal for found in self.partitions)

    @property
    def first_difference(self) -> Difference | None:
        """The difference of the first partition that has one."""
        return next((found.difference for found in self.partitions if found.difference), None)


def shortened(value: object) -> str:
    """Return the repr of a value, cut short, with its size where bytes are cut."""
    size = ""
    if isinstance(value, bytes) and len(value) > SHOWN_CHARACTERS:
        size = f" ({len(value)} bytes)"
        value = value[:SHOWN_CHARACTERS]
    text = repr(value)
    if len(text) <= SHOWN_CHARACTERS:
        return printable(text, SHOWN_CHARACTERS) + size
    return printable(text[: SHOWN_CHARACTERS - 3], SHOWN_CHARACTERS) + "..." + size
