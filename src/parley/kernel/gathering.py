"""Records of one topic while they gather: what gatherers take and give, in both implementations.

Any thread may append; whoever closes a gatherer makes batches of it. The rules are those of
`contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

from parley.kernel.contract import Buffer, Columns

RECORD_BYTES = 16
"""What a record that is gathered takes beside its key, value and headers, about."""

HEADER_BYTES = 4
"""What a header takes beside its key and value, about."""


class GatheredColumns(NamedTuple):
    """What a RecordGatherer held. `partitions` has an int32 for each row, -1 where none was named;
    it is None where none was. The timestamps are in milliseconds.
    """

    columns: Columns
    partitions: Buffer | None


class Gatherer(Protocol):
    """Records of one topic while they gather: what a RecordGatherer is to the kernel's functions.

    Any thread may append. A caller holds the guard that it gave `admit` for everything else, and
    never while it appends or calls `gather`: a kernel that needs one holds it then.
    """

    def admit(
        self, partitions: int, headers: bool, guard: AbstractContextManager[object], /
    ) -> None:
        """Say which partitions may be named (those below `partitions`), and whether records may
        have headers.
        """

    @property
    def room(self) -> int:
        """How many bytes a record may have now; 0 once it is closed."""

    @property
    def count(self) -> int:
        """How many records there are."""

    @property
    def callbacks(self) -> list[Callable[..., object] | None] | None:
        """The callbacks of the rows, None for those without; not of those behind the last one that
        has one. None where no record has one.
        """

    def unplaced(self, hashed: bool, /) -> int:
        """Return how many records name no partition; with `hashed` of those without a key."""

    def grant(self, size: int, /) -> None:
        """Let so many bytes more in."""

    def close(self) -> tuple[int, int]:
        """Let no more records in; return how many there are, and the bytes that none has taken."""

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[bytes, bytes | None]],
        partition: int,
        timestamp_ms: int,
        callback: Callable[..., object] | None,
        size: int,
    ) -> int:
        """Append a record that takes so many bytes; return its row, or -1 where it does not fit.
        `partition` is -1 where the record names none.
        """


class GatheredBatches(NamedTuple):
    """The batches of what a RecordGatherer held: for each its partition, its bytes, the place of
    its first record in `order`, and how many it has.

    `order` has the rows (int32) in the order of the batches, None where they stand as they were
    gathered. `times_ms` has the time of each row as int64.
    """

    times_ms: Buffer
    order: Buffer | None
    batches: list[tuple[int, Buffer, int, int]]


Spread = tuple[Gatherer, int, Sequence[tuple[int, int]]]
"""A closed gatherer; how many partitions its topic has; and where records go that may go anywhere:
partitions, and how many records go there one after the other.
"""

HandleT = TypeVar("HandleT")
"""A class that derives from RowHandle and has no fields of its own (`__slots__ = ()`)."""


class Gather(Protocol):
    """The kernel's function that each record that is sent goes through."""

    # size: it is one call for each record that is sent
    def __call__(
        self,
        gatherers: Mapping[str, Gatherer],
        kind: type[HandleT],
        now_s: float,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        callback: object,
    ) -> HandleT | int | None:
        """Append a record to its topic's RecordGatherer; return its row as an instance of `kind`.

        `now_s` is the time of a record without a `timestamp_ms`. Returns the bytes that have to be
        granted first, in all, where the record has no room; None where somebody has to look at it:
        a topic that is no str; a value or key that is neither bytes nor None, or derives from
        bytes; a timestamp that is no int from 0 on; a callback that cannot be called; a partition
        or headers that the gatherer does not admit. Then nothing was done.
        """
