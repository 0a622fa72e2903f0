"""How transactions become journal entries, and come back.

| kind | says |
|---|---|
| transaction | everything about one transactional id; a later one replaces it |
| no-transaction | an id was forgotten |
| transactional | the identity behind a transactional id, as earlier releases of parley wrote it |
| pending | offsets of a group that wait for a producer's transaction |
| no-pending | they were committed or dropped |
| offsets-epoch | the newest epoch of a producer in a partition of the offsets topic |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from parley.devcluster.state.groups.offsets import CommittedOffset, Groups
from parley.devcluster.state.journal import Entry
from parley.devcluster.state.transactions.pending_offsets import Offsets, PendingOffsets
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.devcluster.state.transactions.transaction import State, Transaction

NUMBERS = (
    "producer_id", "epoch", "last_epoch", "previous_producer_id", "next_producer_id", "timeout_ms",
    "started_ms", "updated_ms",
)  # fmt: skip


@dataclass(slots=True)
class RestoredTransactions:
    """What an earlier life of the cluster left of transactions."""

    by_name: dict[str, Transaction] = field(default_factory=dict)
    offsets: PendingOffsets = field(default_factory=PendingOffsets)
    coordinator_epoch: int = 0

    def apply(self, entry: Entry, groups: Groups) -> None:
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
        elif kind == "pending":
            offsets = {
                (topic, partition): CommittedOffset(*committed)
                for topic, partition, *committed in entry["offsets"]
            }
            groups.stamps_from(entry["stamp"])
            who = ProducerIdentity(entry["producer"], entry["epoch"])
            self.offsets.add(who, entry["group"], offsets, entry["stamp"])
        elif kind == "no-pending":
            self.offsets.end(entry["producer"], entry["group"])
        elif kind == "offsets-epoch":
            self.offsets.raise_epoch(
                entry["partition"], ProducerIdentity(entry["producer"], entry["epoch"])
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


def pending_entry(producer: ProducerIdentity, group: str, offsets: Offsets, stamp: int) -> Entry:
    """Return the entry of offsets that wait for a transaction."""
    listed = [
        [
            topic,
            partition,
            one.offset,
            one.leader_epoch,
            one.metadata,
            one.committed_at_ms,
            one.expires_at_ms,
        ]
        for (topic, partition), one in offsets.items()
    ]
    return {
        "kind": "pending",
        "producer": producer.producer_id,
        "epoch": producer.epoch,
        "group": group,
        "offsets": listed,
        "stamp": stamp,
    }


def pending_end_entry(producer_id: int, group: str) -> Entry:
    """Return the entry of offsets that wait no more."""
    return {"kind": "no-pending", "producer": producer_id, "group": group}


def epochs_entry(offsets_partition: int, producer: ProducerIdentity) -> Entry:
    """Return the entry of a producer's epoch in a partition of the offsets topic."""
    return {
        "kind": "offsets-epoch",
        "partition": offsets_partition,
        "producer": producer.producer_id,
        "epoch": producer.epoch,
    }


def transactions_snapshot(
    transactions: Iterable[Transaction], coordinator_epoch: int, offsets: PendingOffsets
) -> Iterator[Entry]:
    """Yield the shortest journal that says everything about transactions."""
    for held in transactions:
        yield transaction_entry(held, coordinator_epoch)
    newest: dict[int, int] = {}
    for partition, producer, epoch in offsets.epochs():
        newest[producer] = max(epoch, newest.get(producer, -1))
        yield epochs_entry(partition, ProducerIdentity(producer, epoch))
    for producer, group, stamp, listed in offsets.items():
        yield pending_entry(ProducerIdentity(producer, newest[producer]), group, listed, stamp)
