"""The account of a group that was killed: its members' diaries, the brokers' log of commits and the
topics, held against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from parley.errors import RebalanceInProgressError

from .group_diary import Line
from .offsets_topic import Commit, History

READ_COLUMNS = (
    "seed", "brokers", "members", "what happened, in this order", "generations", "records", "lost",
    "delivered again", "commits", "put off", "refused", "of fenced members", "went back",
    "ahead of the work", "seconds",
)  # fmt: skip
COPY_COLUMNS = (
    "seed", "brokers", "members", "what happened, in this order", "generations", "records", "lost",
    "duplicated", "transactions", "given up", "of fenced members", "went back", "seconds",
)  # fmt: skip


@dataclass
class Account:
    """What became of one run."""

    seed: int
    brokers: str
    members: str
    work: str
    happened: list[str] = field(default_factory=list)
    records: int = 0
    """Records that were acknowledged to the producers."""
    lost: int = 0
    again: int = 0
    """Records delivered more than once; for copies, how often a copy is there beyond once."""
    generations: int | None = None
    """None, as what is below, where the brokers have no log of commits: embedded ones."""
    commits: int = 0
    put_off: int = 0
    """Commits that the group's rebalance did not allow; the same goes with the next one."""
    refused: int = 0
    fenced: int | None = None
    """Commits that were taken from who was no member, or of what was another's."""
    went_back: int | None = None
    ahead: int = 0
    """Offsets that were committed before somebody had done the work up to there."""
    vanished: int = 0
    """Commits that returned without an error and are not in the log."""
    left_open: int = 0
    """Offsets that read_committed readers do not see in the end."""
    seconds: float = 0

    @property
    def good(self) -> bool:
        """Whether all is as it must be."""
        wrong = self.lost + self.ahead + self.vanished + self.left_open
        wrong += (self.fenced or 0) + (self.went_back or 0)
        wrong += self.again if self.work == "copy" else 0
        return self.records > 0 and self.commits > 0 and not wrong

    def cells(self) -> list[object]:
        """Return the account as a line of its table."""
        last: list[object] = [_or_none(self.fenced), _or_none(self.went_back)]
        last += [self.ahead] if self.work == "read" else []
        return [
            self.seed,
            self.brokers,
            self.members,
            ", ".join(self.happened),
            _or_none(self.generations),
            self.records,
            self.lost,
            self.again,
            self.commits,
            *([self.put_off] if self.work == "read" else []),
            self.refused,
            *last,
            round(self.seconds),
        ]


def _or_none(count: int | None) -> str:
    return "–" if count is None else str(count)


Diaries = Mapping[str, Iterable[Line]]
"""The lines of each process, by its name."""


def settle_reads(
    account: Account, diaries: Diaries, acked: Collection[int], history: History
) -> None:
    """Count what a group that reads did."""
    reads: Counter[int] = Counter()
    done_at: dict[tuple[int, int], float] = {}
    asked: dict[tuple[str, int], Line] = {}
    returned: set[tuple[str, int]] = set()
    for name, lines in diaries.items():
        for line in lines:
            if line["did"] == "read":
                for partition, records in line["records"].items():
                    reads.update(number for _, number in records)
                    for offset, _ in records:
                        place = int(partition), offset
                        done_at[place] = min(line["at"], done_at.get(place, line["at"]))
            elif line["did"] == "commits":
                asked[name, line["number"]] = line
            elif line["did"] == "committed":
                returned.add((name, line["number"]))
            elif line["did"] == "refused":
                if line["why"] == RebalanceInProgressError.__name__:
                    account.put_off += 1
                else:
                    account.refused += 1
    account.lost = sum(number not in reads for number in acked)
    account.again = sum(count - 1 for count in reads.values())
    account.commits = len(history.commits)
    settle_owners(account, history)
    account.ahead = _ahead(history.commits, done_at, asked)
    logged = {(*_asked(commit), commit.partition, commit.offset) for commit in history.commits}
    account.vanished = sum(
        (*which, int(partition), offset) not in logged
        for which in returned
        for partition, offset in asked[which]["offsets"].items()
    )


def settle_copies(
    account: Account, diaries: Diaries, acked: Collection[int], copies: Counter[int]
) -> None:
    """Count what a group that copies did, by the copies that read_committed readers see."""
    did = Counter(line["did"] for lines in diaries.values() for line in lines)
    account.lost = sum(number not in copies for number in acked)
    account.again = sum(count - 1 for count in copies.values())
    account.commits, account.refused = did["committed"], did["refused"]


def settle_owners(account: Account, history: History) -> None:
    """Count commits of members that did not own the partition, and offsets that went back."""
    last: dict[int, int] = {}
    account.generations, account.fenced, account.went_back = history.generations, 0, 0
    for commit in history.commits:
        account.fenced += not commit.allowed
        account.went_back += commit.offset < last.get(commit.partition, 0)
        last[commit.partition] = commit.offset


def _ahead(
    commits: Iterable[Commit],
    done_at: Mapping[tuple[int, int], float],
    asked: Mapping[tuple[str, int], Line],
) -> int:
    """Count offsets that were committed before anybody had read them."""
    reached: dict[int, int] = {}
    count = 0
    for commit in commits:
        before, by = reached.get(commit.partition, 0), asked[_asked(commit)]["at"]
        never = float("inf")
        count += sum(
            done_at.get((commit.partition, offset), never) > by
            for offset in range(before, commit.offset)
        )
        reached[commit.partition] = max(before, commit.offset)
    return count


def _asked(commit: Commit) -> tuple[str, int]:
    """Return which member's which commit it was, by the tag that went with it."""
    name, number, _ = commit.tag.split("/", 2)
    return name, int(number)
