"""What senders were let know of each of their records, against the brokers' logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parley.client import RecordMetadata
from parley.testing.delivery import settle_account

COLUMNS = (
    "seed", "brokers", "leaders moved", "kill -9", "connections cut", "cancelled", "not taken",
    "acknowledged", "failed", "in doubt", "lost", "duplicated", "reordered", "elsewhere",
    "not reported", "against its report", "seconds",
)  # fmt: skip


@dataclass(slots=True)
class Reports:
    """What senders were let know: each number is in one of these, or `missing`."""

    acknowledged: dict[int, RecordMetadata] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    """Not written, it was said."""
    in_doubt: set[int] = field(default_factory=set)
    not_taken: set[int] = field(default_factory=set)
    """`send` itself was cancelled, or raised: the record was not sent."""
    missing: set[int] = field(default_factory=set)
    """Taken, and nobody said what became of it though all was flushed; or said it twice."""
    cancelled: int = 0
    """Tasks that were cancelled in `send`, or while they waited for the acknowledgement."""

    def add(self, other: Reports) -> None:
        """Take over what another sender was let know."""
        self.acknowledged |= other.acknowledged
        self.failed |= other.failed
        self.in_doubt |= other.in_doubt
        self.not_taken |= other.not_taken
        self.missing |= other.missing
        self.cancelled += other.cancelled


Log = Mapping[int, int]
"""The numbers of one partition by offset, in its order."""


@dataclass(slots=True)
class Account:
    """One run: a line of the page."""

    seed: int
    brokers: str
    moves: int = 0
    kills: int = 0
    cuts: int = 0
    cancelled: int = 0
    not_taken: int = 0
    acknowledged: int = 0
    failed: int = 0
    in_doubt: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    elsewhere: int = 0
    """Acknowledged, and another record is at the offset that was named."""
    not_reported: int = 0
    against: int = 0
    """In a log, though its sender was let know that it was not written, or was not taken."""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether acknowledged records are there once, in order, where they are said to be, and
        the outcome of every other one is known and true.
        """
        return not (
            self.lost
            or self.duplicated
            or self.reordered
            or self.elsewhere
            or self.not_reported
            or self.against
        )

    def cells(self) -> list[object]:
        """Return the line of the table."""
        return [
            self.seed, self.brokers, self.moves, self.kills, self.cuts, self.cancelled,
            self.not_taken, self.acknowledged, self.failed, self.in_doubt, self.lost,
            self.duplicated, self.reordered, self.elsewhere, self.not_reported, self.against,
            round(self.seconds),
        ]  # fmt: skip


def settle(account: Account, reports: Reports, logs: Sequence[Log], writers: int) -> None:
    """Put what was reported beside what the logs have. `writers`: number modulo this is who sent
    it, and each sent its own in the order of their numbers.
    """
    by_writer = [
        [number for number in log.values() if number % writers == writer]
        for log in logs
        for writer in range(writers)
    ]
    delivery = settle_account(reports.acknowledged, by_writer)
    account.cancelled, account.not_taken = reports.cancelled, len(reports.not_taken)
    account.acknowledged = delivery.acknowledged
    account.failed, account.in_doubt = len(reports.failed), len(reports.in_doubt)
    account.lost, account.duplicated = delivery.lost, delivery.duplicated
    account.reordered, account.not_reported = delivery.reordered, len(reports.missing)
    account.elsewhere = _elsewhere(reports.acknowledged.items(), logs)
    written = {number for log in logs for number in log.values()}
    account.against = len(written & (reports.failed | reports.not_taken))


def _elsewhere(acknowledged: Iterable[tuple[int, RecordMetadata]], logs: Sequence[Log]) -> int:
    return sum(
        logs[found.partition].get(found.offset) != number
        for number, found in acknowledged
        if found.offset >= 0  # a batch that was known to be there already has none
    )
