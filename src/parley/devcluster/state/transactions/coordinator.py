"""A cluster's transaction coordinators: every transactional id, its steps kept, then reported.

Rules of this file:
1. What each step is stands in `transactions`; here it is journaled, then it holds.
2. An end is decided when it is journaled as prepared. Markers that cannot be written (no leader,
   full disk) are written later, by `resume`; meanwhile the id answers CONCURRENT_TRANSACTIONS.
3. Which broker coordinates an id is the handlers' question: the memory is the cluster's, so that a
   coordinator that moves loses nothing. The next one loads the ids that it takes over (`loading`);
   no time limit of theirs ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from parley.devcluster.state.journal import Entry
from parley.devcluster.state.loading import Loading, LoadingRules
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.markers import NOT_WRITTEN, Marker, Markers
from parley.devcluster.state.transactions.persistence import (
    RestoredTransactions,
    no_transaction_entry,
    transaction_entry,
)
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity, ProducerIds
from parley.devcluster.state.transactions.transaction import (
    PREPARED,
    Partition,
    State,
    Transaction,
    check_claim,
    completed,
    due_ms,
    ended,
    ended_second,
    fenced,
    initialised,
    missing_partitions,
    with_partitions,
)
from parley.errors.codes import CONCURRENT_TRANSACTIONS

RETRY_MS = 1_000


class Cluster(Protocol):
    """What coordinators need of their cluster."""

    def keep(self, *entries: Entry) -> None:
        """Journal entries. Raises OSError when the disk is full; nothing is kept then."""
        ...

    def offsets_partition(self, group: str) -> Partition:
        """Return where a group's offsets are written."""
        ...

    def transaction_ended(self, partition: Partition, producer_id: int, *, commit: bool) -> None:
        """Hear that a transaction's marker is on a partition, and cannot be lost any more."""
        ...


class Transactions:
    """Transactional ids by name."""

    def __init__(
        self,
        cluster: Cluster,
        markers: Markers,
        ids: ProducerIds,
        *,
        expiration_ms: int,
        loading: LoadingRules,
    ) -> None:
        self._cluster = cluster
        self._markers = markers
        self._ids = ids
        self._expiration_ms = expiration_ms
        self._by_name: dict[str, Transaction] = {}
        # of those that are prepared: where a marker lies
        self._unmarked: dict[str, dict[Partition, int]] = {}
        self.coordinator_epoch = 0
        self.epochs_per_fence: Callable[[str], int] = lambda _: 1
        """How far the release of a coordinator raises the epoch of a producer that it fences."""
        self.coordinator_of: Callable[[str], int] = lambda _: -1
        """Which broker coordinates an id, -1 for none."""
        self._known_coordinators: dict[str, int] = {}
        self.loading: Loading[str] = Loading(loading)
        """The ids that their coordinators have taken over and still read."""
        self.next_due_ms: int | None = None
        """The next moment at which `expire` may have something to do; None for never."""

    def restore(self, found: RestoredTransactions) -> None:
        """Go on where an earlier life of the cluster stopped."""
        for held in found.by_name.values():
            self._hold(held)
            if held.state in PREPARED:
                self._unmarked[held.transactional_id] = dict.fromkeys(held.partitions, NOT_WRITTEN)
        if found.by_name:
            self.coordinator_epoch = found.coordinator_epoch + 1

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> Transaction | None:
        """Return a transactional id, or None."""
        return self._by_name.get(name)

    def coordinators_changed(self) -> None:
        """Note that ids may have a new coordinator: what the old one would write is fenced."""
        self.coordinator_epoch += 1

    def follow(self, *, now_ms: int) -> None:
        """Let the coordinators that ids have now load those that they have taken over."""
        for name in self._by_name:
            at = self.coordinator_of(name)
            if self._known_coordinators.get(name) != at:
                self._known_coordinators[name] = at
                self.loading.stop(name)
                if at >= 0:
                    self.loading.begin(name, at, now_ms)

    def is_loading(self, name: str, *, now_ms: int) -> bool:
        """Whether an id's coordinator still reads what it has taken over."""
        if self.loading:
            self.loading.take_finished(now_ms)
        return name in self.loading

    # -- steps ---------------------------------------------------------------------------------

    def initialise(
        self, name: str, claimed: ProducerIdentity | None, *, timeout_ms: int, now_ms: int
    ) -> ProducerIdentity:
        """Give a producer its next identity (InitProducerId).

        An open transaction is aborted first, its producer fenced, and CONCURRENT_TRANSACTIONS
        raised, as Kafka does: the caller asks again. Raises Refused or OSError; no identity is
        given then.
        """
        held = self._tried(name, now_ms)
        if held is None:
            held = Transaction(name, self._ids.new())
        if held.state is State.ONGOING:
            check_claim(held, claimed)
            self._fence(held, now_ms=now_ms)
            raise Refused(
                CONCURRENT_TRANSACTIONS, f"the open transaction of {name!r} is aborted first"
            )
        begun = initialised(
            held, claimed, timeout_ms=timeout_ms, now_ms=now_ms, new_id=self._ids.new
        )
        self._keep(begun, {"kind": "producers", "next": self._ids.next_id})
        return begun.identity

    def add(
        self,
        name: str,
        producer: ProducerIdentity,
        partitions: Iterable[Partition],
        *,
        now_ms: int,
        second_generation: bool = False,
    ) -> None:
        """Make partitions part of the producer's transaction. Raises Refused or OSError."""
        held = self._tried(name, now_ms)
        added = with_partitions(
            held, producer, partitions, now_ms=now_ms, second_generation=second_generation
        )
        if added is not held:
            self._keep(added)

    def missing(
        self, name: str, producer: ProducerIdentity, partitions: Iterable[Partition]
    ) -> frozenset[Partition]:
        """Return which partitions are not in the producer's open transaction, or raise Refused."""
        return missing_partitions(self._by_name.get(name), producer, partitions)

    def add_group(
        self,
        name: str,
        producer: ProducerIdentity,
        group: str,
        *,
        now_ms: int,
        second_generation: bool = False,
    ) -> None:
        """Add a group's offsets to the producer's transaction. Raises Refused or OSError."""
        partition = self._cluster.offsets_partition(group)
        self.add(name, producer, [partition], now_ms=now_ms, second_generation=second_generation)

    def end(
        self,
        name: str,
        producer: ProducerIdentity,
        *,
        commit: bool,
        now_ms: int,
        second_generation: bool = False,
        strict: bool = True,
    ) -> ProducerIdentity:
        """Commit or abort; return what the producer goes on with. Raises Refused or OSError."""
        held = self._tried(name, now_ms)
        if second_generation:
            begun = ended_second(held, producer, commit=commit, now_ms=now_ms, new_id=self._ids.new)
        else:
            begun = ended(held, producer, commit=commit, now_ms=now_ms, strict=strict)
        if begun is None:
            return self._by_name[name].identity
        self._end(begun, now_ms=now_ms)
        return completed(begun, now_ms=now_ms).identity

    def expire(self, *, now_ms: int) -> None:
        """Abort transactions that lasted too long, fence their producers; forget unused ids."""
        self.resume(now_ms=now_ms)
        for held in self:
            due = due_ms(held, self._expiration_ms)
            if due is None or due >= now_ms:
                continue
            if self.is_loading(held.transactional_id, now_ms=now_ms):
                continue
            try:
                if held.state is State.ONGOING:
                    self._fence(held, now_ms=now_ms)
                else:
                    self._cluster.keep(no_transaction_entry(held.transactional_id))
                    del self._by_name[held.transactional_id]
                    self._known_coordinators.pop(held.transactional_id, None)
                    self.loading.stop(held.transactional_id)
            except OSError:  # a full disk: the next time
                continue
        moments = (due_ms(held, self._expiration_ms) for held in self)
        again_ms = now_ms + RETRY_MS  # for those that the disk did not take
        self.next_due_ms = min(
            (due if due >= now_ms else again_ms for due in moments if due is not None), default=None
        )
        if self._unmarked:
            self._look_again(again_ms)

    # -- ends ----------------------------------------------------------------------------------

    def _fence(self, held: Transaction, *, now_ms: int) -> None:
        epochs = self.epochs_per_fence(held.transactional_id)
        self._end(fenced(held, now_ms=now_ms, epochs=epochs), now_ms=now_ms)

    def _end(self, begun: Transaction, *, now_ms: int) -> None:
        self._keep(begun, {"kind": "producers", "next": self._ids.next_id})
        self._unmarked[begun.transactional_id] = dict.fromkeys(begun.partitions, NOT_WRITTEN)
        self._finish(begun, now_ms=now_ms)

    def _tried(self, name: str, now_ms: int) -> Transaction | None:
        """Return an id; where it waits for markers, they are tried once more."""
        if name in self._unmarked:
            self._finish(self._by_name[name], now_ms=now_ms)
        return self._by_name.get(name)

    def resume(self, *, now_ms: int) -> None:
        """Write the markers that could not be written when their transactions ended."""
        for name in list(self._unmarked):
            self._finish(self._by_name[name], now_ms=now_ms)

    def _finish(self, begun: Transaction, *, now_ms: int) -> None:
        left = self._unmarked[begun.transactional_id]
        marker = Marker(begun.identity, begun.commits, self.coordinator_epoch)
        for partition, at in sorted(left.items()):
            written = self._markers.write(partition, marker, at, now_ms=now_ms)
            if written is None:
                del left[partition]
                self._cluster.transaction_ended(partition, begun.producer_id, commit=begun.commits)
            else:
                left[partition] = written
        if not left:
            try:
                self._keep(completed(begun, now_ms=now_ms))
                del self._unmarked[begun.transactional_id]
            except OSError:  # the end is decided; that it is done is noted later
                pass
        if begun.transactional_id in self._unmarked:
            self._look_again(now_ms + RETRY_MS)

    def _keep(self, held: Transaction, *entries: Entry) -> None:
        self._cluster.keep(transaction_entry(held, self.coordinator_epoch), *entries)
        self._hold(held)

    def _hold(self, held: Transaction) -> None:
        name = held.transactional_id
        self._by_name[name] = held
        if name not in self._known_coordinators:
            self._known_coordinators[name] = self.coordinator_of(name)
        due = due_ms(held, self._expiration_ms)
        if due is not None:
            self._look_again(due)

    def _look_again(self, due_ms: int) -> None:
        if self.next_due_ms is None or due_ms < self.next_due_ms:
            self.next_due_ms = due_ms
