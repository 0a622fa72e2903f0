"""What went in against what came out: counting, the balance, and the words for it.

Counting trusts nobody's metrics: row numbers and checksums are read back from the table and from
the topic of aggregates, and compared with what the brokers acknowledged.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple


class TableCount(NamedTuple):
    """The rows of a table, held against those that were acknowledged.

    rows = acknowledged - lost + duplicated + foreign.
    """

    rows: int
    lost: int
    """Acknowledged, and not in the table."""
    duplicated: int
    """In the table more than once: each time after the first counts."""
    altered: int
    """In the table with a value whose checksum is another."""
    foreign: int
    """In the table, and never acknowledged."""


def count_table(
    batches: Iterable[tuple[Iterable[int], Iterable[int]]], acknowledged: array[int]
) -> TableCount:
    """Count a table: batches of (row ids, checksums); `acknowledged[row_id]` is the right one.

    >>> count_table([([0, 2, 2], [7, 9, 9])], array("L", [7, 8, 9]))
    TableCount(rows=3, lost=1, duplicated=1, altered=0, foreign=0)
    """
    expected = len(acknowledged)
    seen = bytearray(expected)
    rows = duplicated = altered = foreign = 0
    for row_ids, checksums in batches:
        for row_id, checksum in zip(row_ids, checksums, strict=True):
            rows += 1
            if row_id is None or not 0 <= row_id < expected:
                foreign += 1
                continue
            if seen[row_id]:
                duplicated += 1
            seen[row_id] = 1
            altered += checksum != acknowledged[row_id]
    return TableCount(rows, seen.count(0), duplicated, altered, foreign)


class AggregateCount(NamedTuple):
    """The topic of aggregates: the newest record of each key counts."""

    records: int
    keys: int
    rows: int
    """Sum of the newest counts of all keys: the rows of the table, if all went well."""


def count_aggregates(records: Iterable[tuple[bytes | None, bytes]]) -> AggregateCount:
    """Count the topic of aggregates: (key, value) in the order of offsets per partition."""
    newest: dict[bytes | None, int] = {}
    total = 0
    for key, value in records:
        total += 1
        newest[key] = int(json.loads(value)["rows"])
    return AggregateCount(total, len(newest), sum(newest.values()))


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerFacts:
    """A broker at the end: the releases it spoke as, and the versions that were used with it."""

    cluster: str
    broker: int
    releases: tuple[str, ...] = ()
    api_versions: Mapping[str, str] = field(default_factory=dict)
    """API name to the versions used, as `7-9` or `11`."""


class ProofFacts(NamedTuple):
    """What comparing both clusters' topics has found; `difference` is the first one, if any."""

    records: int
    partitions: int
    seconds: float
    difference: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """Everything the demo job states at its end. `balanced` decides the exit status."""

    source: str
    rows_in: int
    rows_acknowledged: int
    idempotent: bool
    rows_copied: int
    proof: ProofFacts
    table: TableCount
    aggregates: AggregateCount
    leader_moves: Mapping[str, int]
    """By cluster; of those that are not ours, what was seen."""
    brokers: tuple[BrokerFacts, ...]
    seconds: float
    output: Mapping[str, str]
    """What lies where: a name and a path or topic."""

    @property
    def rows_per_second(self) -> float:
        """Rows per second through the whole pipeline, from its first batch to the last row."""
        return self.rows_acknowledged / self.seconds if self.seconds > 0 else 0.0

    @property
    def guarantee(self) -> str:
        """The delivery guarantee from the file to the table, in words."""
        if self.idempotent:
            return "exactly once: idempotent producer, copy in transactions, numbered commits"
        return "at least once: brokers before 0.11 have no idempotent producer"

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the account does not balance, nothing if it does."""
        found = []
        if self.rows_acknowledged != self.rows_in:
            found.append(f"{self.rows_in - self.rows_acknowledged:,} rows were not acknowledged")
        if self.proof.difference is not None:
            found.append(f"the clusters differ: {self.proof.difference}")
        if self.table.lost:
            found.append(f"{self.table.lost:,} acknowledged rows are not in the table")
        if self.table.duplicated and self.idempotent:
            found.append(
                f"{self.table.duplicated:,} rows are in the table again, against the guarantee"
            )
        if self.table.altered:
            found.append(f"{self.table.altered:,} rows have another value than was produced")
        if self.table.foreign:
            found.append(f"{self.table.foreign:,} rows of the table were never acknowledged")
        if self.aggregates.rows != self.table.rows:
            found.append(
                f"the aggregates count {self.aggregates.rows:,} rows, the table has "
                f"{self.table.rows:,}"
            )
        return tuple(found)

    @property
    def balanced(self) -> bool:
        """Whether what came out is what went in."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """Return the account as JSON has it."""
        return {
            **asdict(self),
            "proof": self.proof._asdict(),
            "table": self.table._asdict(),
            "aggregates": self.aggregates._asdict(),
            "rows_per_second": round(self.rows_per_second),
            "guarantee": self.guarantee,
            "balanced": self.balanced,
            "problems": list(self.problems),
        }

    def lines(self) -> Iterator[str]:
        """Yield the account for a person."""
        table, aggregates, proof = self.table, self.aggregates, self.proof
        yield _line("rows in", self.rows_in, f"read from {Path(self.source).name}")
        yield _line(
            "acknowledged",
            self.rows_acknowledged,
            "by the old brokers, as Avro (acks=all)",
        )
        yield _line("copied", self.rows_copied, "to the new brokers, in transactions")
        yield _line("compared", proof.records, _proof_text(proof))
        yield _line("rows out", table.rows, "counted in the Delta table, by row number")
        yield _line("lost", table.lost, "")
        yield _line("duplicated", table.duplicated, self.guarantee)
        yield _line("altered", table.altered, "by the checksum of each row")
        topic = (
            f"in {aggregates.records:,} records of {aggregates.keys:,} keys, in transactions; the "
            "newest of a key counts"
        )
        yield _line("aggregated", aggregates.rows, topic)
        for cluster, moves in self.leader_moves.items():
            yield _line("leader moves", moves, f"survived in the {cluster} cluster")
        yield _line(
            "rows/s",
            round(self.rows_per_second),
            f"over {self.seconds:.1f} s, from the file to the table, Spark being warm",
        )
        for broker in self.brokers:
            yield (
                f"  {broker.cluster} broker {broker.broker}   "
                f"{' -> '.join(broker.releases) or 'release as negotiated'}"
            )
            yield (
                "                 "
                f"{', '.join(f'{api} {used}' for api, used in broker.api_versions.items())}"
            )
        for name, place in self.output.items():
            yield f"  {name:<14} {place}"
        yield (
            "The account balances."
            if self.balanced
            else f"The account does NOT balance: {'; '.join(self.problems)}."
        )


def _proof_text(proof: ProofFacts) -> str:
    text = f"records on both sides in {proof.seconds:.1f} s, {proof.partitions} partitions: "
    return text + ("they are equal" if proof.difference is None else "they DIFFER")


def _line(name: str, number: int, remark: str) -> str:
    return f"  {name:<14} {number:>11,}  {remark}".rstrip()


def version_span(versions: Iterable[int]) -> str:
    """Return the versions used as `v7` or `v7-v9`.

    >>> version_span([9, 7])
    'v7-v9'
    """
    used = sorted(set(versions))
    return f"v{used[0]}" if len(used) == 1 else f"v{used[0]}-v{used[-1]}"
