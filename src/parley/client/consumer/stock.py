"""What a consumer has taken up, and the records that may be handed out without another question.

Records are handed out from the front by whoever polls, in its own thread; nothing is noted for
each. That is right for as long as the stock is open. The event loop closes it for whatever a poll
has to look at first: a rebalance, a seek, a pause, a position that jumped, a commit that is due, or
time that has passed. The next poll then asks the loop, which opens it again.

Only the one who polls, or the loop while that one waits, changes what is taken up. `close` may be
called in the loop at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from parley.client.consumer.deserializing import Deserializers
from parley.client.consumer.records import (
    NO_RECORDS,
    ROWS_AT_ONCE,
    SMALL_BYTES_AT_ONCE,
    CompletedFetch,
    fill_small,
)
from parley.client.fetch.state import PartitionFetch, RawFetch
from parley.client.options.client_options import FetchOptions
from parley.errors import RecordDeserializationError
from parley.records import ConsumerRecord
from parley.types import OffsetAndMetadata, TopicPartition

Wanted = Container[TopicPartition] | None
Rows = Mapping[TopicPartition, Sequence[ConsumerRecord]]


class TakenUp(NamedTuple):
    """A partition and the bytes of it that are being consumed."""

    part: PartitionFetch
    fetch: CompletedFetch

    @property
    def stale(self) -> bool:
        """Whether it lies before a seek or a reset, or in another history."""
        return self.fetch.raw.position_epoch != self.part.positions.position_epoch


class Stock:
    """The fetches being consumed, by partition, and the records in front."""

    def __init__(self, options: FetchOptions, deserializers: Deserializers | None = None) -> None:
        self._options, self._deserializers = options, deserializers
        self._taken: dict[TopicPartition, TakenUp] = {}
        self.front = NO_RECORDS
        """The records to hand out next; none where the loop is to be asked first."""
        self.tp: TopicPartition | None = None
        """The partition of those records."""
        self.is_open = False
        self._begun: tuple[TakenUp, int] | None = None
        """What was begun to be taken last, and its position then."""

    # -- in the event loop -------------------------------------------------------------------------

    def open(self) -> None:
        """Let records be handed out."""
        self.is_open = True

    def close(self) -> None:
        """Let nothing be handed out before the loop was asked."""
        self.is_open = False
        self.front = NO_RECORDS

    def put(self, part: PartitionFetch, raw: RawFetch) -> None:
        """Take bytes up."""
        position = part.positions.consumed.offset
        fetch = CompletedFetch(raw, self._options, position, deserializers=self._deserializers)
        part.positions.read_by(fetch)
        self._taken[raw.tp] = TakenUp(part, fetch)

    def drop(self, tp: TopicPartition) -> None:
        """Forget a partition's bytes."""
        self.close()
        self._taken.pop(tp, None)

    def keep(self, partitions: Container[TopicPartition]) -> None:
        """Forget the bytes of all others."""
        self.close()
        self._taken = {tp: taken for tp, taken in self._taken.items() if tp in partitions}
        self._begun = None

    def clear(self) -> None:
        """Forget all bytes."""
        self.keep(())

    def settle(self) -> list[TakenUp]:
        """Forget what is stale or used up; return what ended with an error."""
        gone = [taken for taken in self._taken.values() if taken.stale or taken.fetch.done]
        for taken in gone:
            del self._taken[taken.part.tp]
        return [taken for taken in gone if taken.fetch.error is not None and not taken.stale]

    def of(self, wanted: Wanted) -> TakenUp | None:
        """Return the first fetch that something may be handed out of."""
        return next(self._usable(wanted), None)

    def has(self, taken: TakenUp) -> bool:
        """Return whether something is still to be handed out."""
        return self._taken.get(taken.part.tp) is taken and not taken.stale

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions with bytes here."""
        return self._taken.keys()

    @property
    def partition(self) -> TopicPartition:
        """The partition of what was taken last."""
        assert self.tp is not None
        return self.tp

    # -- where records are handed out --------------------------------------------------------------

    def advance(self, wanted: Wanted) -> bool:
        """Bring decoded records to the front; return whether there are any."""
        if self.is_open:
            for taken in self._usable(wanted):
                if len(taken.fetch.records):
                    return self._show(taken)
        return False

    def decode(self, wanted: Wanted) -> None:
        """Decode the next pieces, in this thread."""
        rows = size = 0
        small: list[CompletedFetch] = []
        for taken in self._usable(wanted):
            if taken.fetch.is_small and size < SMALL_BYTES_AT_ONCE:
                small.append(taken.fetch)
                size += len(taken.fetch.raw.data)
                continue
            if small:
                break
            taken.fetch.fill_rows()
            rows += len(taken.fetch.records)
            if rows >= ROWS_AT_ONCE or not self.is_open or taken.fetch.failure is not None:
                return
        if small:
            fill_small(small, self._options)

    def failure(self, wanted: Wanted) -> RecordDeserializationError | None:
        """Return why the next record cannot be handed out, if anything; its partition is looked at
        last next time.
        """
        if self._deserializers is None:
            return None
        for taken in self._usable(wanted):
            if (found := taken.fetch.failure) is not None:
                self._taken[taken.part.tp] = self._taken.pop(taken.part.tp)
                return found
        return None

    def undecoded(self, wanted: Wanted) -> bool:
        """Return whether there are bytes to decode."""
        return self.is_open and any(True for _ in self._usable(wanted))

    def take(self, most: int, wanted: Wanted) -> list[ConsumerRecord]:
        """Return up to so many decoded records, all of the partition `tp`; none where none are
        there.
        """
        if wanted is None or self.tp in wanted:
            rows = self.front.take(most)
            if rows:
                return rows
        return self.front.take(most) if self.advance(wanted) else []

    def begin(self, taken: TakenUp | None) -> None:
        """Take note that this is going to be taken of; `lost` shows how far that went."""
        self._begun = None if taken is None else (taken, taken.fetch.position)

    def begin_front(self) -> None:
        """Take note that the records in front are going to be taken."""
        self.begin(None if self.tp is None else self._taken.get(self.tp))

    def lost(self, rows: Rows) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return where reading has to go on for records that were taken, and that nobody gets:
        those of an interrupted call, of which the last may not even be in `rows` yet.
        """
        found = {
            tp: OffsetAndMetadata(of[0].offset, "", of[0].leader_epoch)
            for tp, of in rows.items()
            if of
        }
        if self._begun is not None:
            (part, fetch), position = self._begun
            if fetch.position != position:
                at = OffsetAndMetadata(position, "", fetch.raw.epoch_before(position))
                found.setdefault(part.tp, at)
        return found

    def _show(self, taken: TakenUp) -> bool:
        self.begin(taken)
        self.tp, self.front = taken.part.tp, taken.fetch.records
        if not self.is_open:  # closed just now, by the loop's thread
            self.front = NO_RECORDS
        return self.is_open

    def _usable(self, wanted: Wanted) -> Iterator[TakenUp]:
        for taken in tuple(self._taken.values()):
            if taken.fetch.finish() or taken.fetch.done:
                if taken.fetch.error is None:
                    self._taken.pop(taken.part.tp, None)
            elif not (taken.part.paused or taken.stale) and (
                wanted is None or taken.part.tp in wanted
            ):
                yield taken
