"""How transactions become journal entries, and come back.

| kind | says |
|---|---|
| transaction | everything about one transactional id; a later one replaces it |
| no-transaction | an id was forgotten |
| transactional | the identity behind a transactional id, as earlier releases of parley wrote it |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from parley.devcluster.state.journal import Entry
from parley.devcluster.state.transactions.transaction import State, Transaction

NUMBERS = (
    "producer_id", "epoch", "last_epoch", "previous_producer_id", "next_producer_id", "timeout_ms",
    "started_ms", "updated_ms",
)  # fmt: skip


@dataclass(slots=True)
class RestoredTransactions:
    """What an earlier life of the cluster left of transactions."""

    by_name: dict[str, Transaction] = field(default_factory=dict)
    coordinator_epoch: int = 0

    def apply(self, entry: Entry) -> None:
        """Take in one journal entry; entries of other kinds change nothing."""
        kind = entry["kind"]
        if kind == "transaction":
            self.coordinator_epoch = max(self.coordinator_epoch, entry["coordinator"])
            self.by_name[entry["name"]] = _transaction_of(entry)
        elif kind == "no-transaction":
            self.by_name.pop(entry["name"], None)
        elif kind == "transactional":
            self.by_name[entry["name"]] = Transaction(
                entry["name"], entry["producer"], entry["epoch"]
            )


def transaction_entry(held: Transaction, coordinator_epoch: int) -> Entry:
    """Return the entry that says everything about a transactional id."""
    return {
        "kind": "transaction",
        "name": held.transactional_id,
        "state": held.state.value,
        "partitions": sorted(held.partitions),
        "second": held.second_generation,
        "coordinator": coordinator_epoch,
        **{name: getattr(held, name) for name in NUMBERS},
    }


def _transaction_of(entry: Entry) -> Transaction:
    return Transaction(
        entry["name"],
        state=State(entry["state"]),
        partitions=frozenset((topic, index) for topic, index in entry["partitions"]),
        second_generation=entry["second"],
        **{name: entry[name] for name in NUMBERS},
    )


def no_transaction_entry(name: str) -> Entry:
    """Return the entry of an id that was forgotten."""
    return {"kind": "no-transaction", "name": name}


def transactions_snapshot(
    transactions: Iterable[Transaction], coordinator_epoch: int
) -> Iterator[Entry]:
    """Yield the shortest journal that says everything about transactions."""
    for held in transactions:
        yield transaction_entry(held, coordinator_epoch)
