"""What a member owes brokers for the records that they gave it. Pure.

A record is *handed* to the application, which acknowledges it; a commit makes that *due*, and a
request takes what is due at its broker. A record that was renewed is handed out again (KIP-1222).
What a session gave can be acknowledged in that session only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from parley.errors import KafkaError
from parley.types import TopicPartition

Record = TypeVar("Record")
GAP = 0
"""The acknowledgement of an offset that has no record."""


class AcknowledgeType(IntEnum):
    """What becomes of a record that a share group has delivered."""

    ACCEPT = 1
    """It was processed."""
    RELEASE = 2
    """It was not: it is delivered again, to whoever asks, up to the group's limit."""
    REJECT = 3
    """It cannot be processed: it is not delivered again."""
    RENEW = 4
    """It is still being processed: its lock begins again (KIP-1222, Kafka 4.2)."""


class Grant(NamedTuple):
    """Who gave records: a broker, in one session."""

    node_id: int
    session: int
    topic_id: bytes


class Due(NamedTuple):
    """Offsets that are to be acknowledged in one way; `record` where the application had it."""

    tp: TopicPartition
    first: int
    last: int
    type: int
    grant: Grant
    record: object | None = None


class Outcome(NamedTuple):
    """What came of acknowledgements for one partition."""

    partition: TopicPartition
    offsets: tuple[int, ...]
    error: KafkaError | None


class AcknowledgementBatch(NamedTuple):
    """Consecutive offsets that are acknowledged in one way."""

    first: int
    last: int
    type: int


class Book(Generic[Record]):
    """The records of one member that are not settled."""

    def __init__(self) -> None:
        self._handed: dict[tuple[TopicPartition, int], tuple[Record, Grant]] = {}
        self._renewed: dict[tuple[TopicPartition, int], tuple[Record, Grant]] = {}
        self._marked: dict[tuple[TopicPartition, int], tuple[Record, Grant, AcknowledgeType]] = {}
        self._due: dict[int, list[Due]] = {}

    # -- records ----------------------------------------------------------------------------------

    @property
    def unacknowledged(self) -> int:
        """How many records the application has and has said nothing of."""
        return len(self._handed)

    def hand_out(self, tp: TopicPartition, offset: int, record: Record, grant: Grant) -> None:
        """Take note that the application has a record."""
        key = tp, offset
        self._handed[key] = record, grant
        self._renewed.pop(key, None)  # it was delivered again: what was before is over
        self._marked.pop(key, None)

    def take_back(self) -> None:
        """Take note that the application did not get what it has said nothing of: it comes again,
        first of all, as what was renewed does.
        """
        self._renewed = {**self._handed, **self._renewed}
        self._handed.clear()

    def take_renewed(
        self, most: int, wanted: Callable[[Record], bool] | None = None
    ) -> list[tuple[TopicPartition, Record]]:
        """Return up to so many records whose locks were renewed, all or those that are wanted; the
        application has them again.
        """
        renewed = self._renewed.items()
        some = [key for key, (record, _) in renewed if wanted is None or wanted(record)]
        found = []
        for key in some[:most]:
            self._handed[key] = self._renewed.pop(key)
            found.append((key[0], self._handed[key][0]))
        return found

    # -- acknowledgements -------------------------------------------------------------------------

    def acknowledge(self, tp: TopicPartition, offset: int, kind: AcknowledgeType) -> bool:
        """Say what becomes of a record; return False where the application does not have it.

        What was said before counts no more, unless it was committed.
        """
        key = tp, offset
        found = self._handed.pop(key, None) or self._renewed.pop(key, None)
        if found is None and key in self._marked:
            found = self._marked[key][:2]
        if found is None:
            return False
        self._marked[key] = *found, kind
        return True

    def acknowledge_rest(
        self, tp: TopicPartition, offsets: Iterable[int], kind: AcknowledgeType
    ) -> int:
        """Say it of those records that nothing was said of yet; return how many they are."""
        return sum(
            self.acknowledge(tp, offset, kind)
            for offset in offsets
            if (tp, offset) in self._handed or (tp, offset) in self._renewed
        )

    def accept_all(self) -> None:
        """Accept what the application has said nothing of."""
        for key, (record, grant) in self._handed.items():
            self._marked[key] = record, grant, AcknowledgeType.ACCEPT
        self._handed.clear()

    def commit(self) -> None:
        """Make due what the application has said."""
        for (tp, offset), (record, grant, kind) in self._marked.items():
            self._put(Due(tp, offset, offset, kind, grant, record))
        self._marked.clear()

    def settle_unseen(
        self, tp: TopicPartition, ranges: Iterable[tuple[int, int]], kind: int, grant: Grant
    ) -> None:
        """Make due what becomes of offsets that the application never sees."""
        for first, last in ranges:
            self._put(Due(tp, first, last, kind, grant))

    def _put(self, due: Due) -> None:
        self._due.setdefault(due.grant.node_id, []).append(due)

    # -- requests ---------------------------------------------------------------------------------

    @property
    def due_at(self) -> frozenset[int]:
        """The brokers that something is due at."""
        return frozenset(self._due)

    def due(self, node_id: int) -> tuple[Due, ...]:
        """Return what is due at a broker."""
        return tuple(self._due.get(node_id, ()))

    def take(self, node_id: int, session: int) -> tuple[tuple[Due, ...], tuple[Due, ...]]:
        """Return what is due at a broker: what its session gave, and what can be sent no more."""
        dues = self._due.pop(node_id, [])
        alive = tuple(due for due in dues if due.grant.session == session)
        return alive, tuple(due for due in dues if due.grant.session != session)

    def put_back(self, dues: Iterable[Due]) -> None:
        """Make due again what was taken and not sent."""
        for due in dues:
            self._put(due)

    def clear(self) -> None:
        """Forget everything: brokers have released it."""
        for some in (self._handed, self._renewed, self._marked, self._due):
            some.clear()

    def settle(
        self, dues: Iterable[Due], errors: Mapping[TopicPartition, KafkaError]
    ) -> list[Outcome]:
        """Take the answer to what was sent; return what came of it, for what was handed out."""
        offsets: dict[TopicPartition, list[int]] = {}
        for due in dues:
            if due.record is None:
                continue
            offsets.setdefault(due.tp, []).append(due.first)
            if due.type == AcknowledgeType.RENEW and due.tp not in errors:
                self._renew(due)
        return [Outcome(tp, tuple(sorted(found)), errors.get(tp)) for tp, found in offsets.items()]

    def _renew(self, due: Due) -> None:
        key = due.tp, due.first
        if key not in self._handed and key not in self._marked:
            self._renewed[key] = due.record, due.grant  # type: ignore[assignment]  # as handed out


def batches(dues: Iterable[Due]) -> list[AcknowledgementBatch]:
    """Return what is due of one partition as a request has it: in order, no offset twice.

    Of two words about a record that was delivered again the last one counts.
    """
    found: list[AcknowledgementBatch] = []
    for _, _, due in sorted((due.first, -at, due) for at, due in enumerate(dues)):
        last = found[-1] if found else AcknowledgementBatch(-2, -2, -1)
        first = max(due.first, last.last + 1)
        if first > due.last:
            continue
        if first == last.last + 1 and due.type == last.type:
            found[-1] = last._replace(last=due.last)
        else:
            found.append(AcknowledgementBatch(first, due.last, due.type))
    return found
