"""One transactional id, as its coordinator has it: a function per step (KIP-98, 360, 890).

Rules of this file:
1. A step returns the next value and changes nothing, so that it can be journaled before it holds.
2. A step that is not allowed raises Refused with the newest code; handlers translate it for old
   versions.
3. In the second generation (KIP-890) each end raises the epoch: a request of an ended transaction
   is recognized from one of the next by its epoch, and markers carry the raised one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import LARGEST_EPOCH, ProducerIdentity
from parley.errors.codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
)

NO_ID = -1
NO_EPOCH = -1
NO_TIME = -1
Partition = tuple[str, int]


class State(enum.Enum):
    """Where a transactional id stands; the values are Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id and its newest transaction.

    `last_epoch` is the epoch before the newest one and `previous_producer_id` the id before a
    rotation, by which repeated requests are recognised; `next_producer_id` is the id after an end
    that used up the epochs.
    """

    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[Partition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    second_generation: bool = False

    @property
    def identity(self) -> ProducerIdentity:
        """What its producer writes into batches now."""
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        """Whether its epochs are used up: the highest is kept for fencing."""
        return self.epoch >= LARGEST_EPOCH

    @property
    def commits(self) -> bool:
        """Whether the end that is prepared is a commit."""
        return self.state is State.PREPARE_COMMIT


# -- InitProducerId --------------------------------------------------------------------------------


def check_claim(held: Transaction, claimed: ProducerIdentity | None) -> None:
    """Raise Refused (PRODUCER_FENCED) if the id named is not this one's (KIP-360)."""
    if claimed is None or held.epoch == NO_EPOCH or claimed.producer_id == held.producer_id:
        return
    if claimed.producer_id == held.previous_producer_id and claimed.epoch >= LARGEST_EPOCH:
        return
    raise Refused(
        PRODUCER_FENCED, f"producer {claimed.producer_id} no longer has {held.transactional_id!r}"
    )


def initialised(
    held: Transaction,
    claimed: ProducerIdentity | None,
    *,
    timeout_ms: int,
    now_ms: int,
    new_id: Callable[[], int],
) -> Transaction:
    """Return the id with its next epoch, or with a new producer id where the epochs are used up.

    `claimed` is the identity that the producer says it has. Raises Refused: PRODUCER_FENCED when
    that is an older one, CONCURRENT_TRANSACTIONS while a transaction is being ended. An open one
    must be `fenced` first.
    """
    check_claim(held, claimed)
    if held.state in PREPARED:
        raise Refused(
            CONCURRENT_TRANSACTIONS, f"a transaction of {held.transactional_id!r} is being ended"
        )
    begun = replace(
        held,
        state=State.EMPTY,
        partitions=frozenset(),
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
        next_producer_id=NO_ID,
    )
    if held.exhausted and (claimed is None or claimed.epoch == held.epoch):
        last = NO_EPOCH if claimed is None else held.epoch
        return replace(
            begun, producer_id=new_id(), epoch=0, last_epoch=last,
            previous_producer_id=held.producer_id
        )  # fmt: skip
    if claimed is None:
        return replace(begun, epoch=held.epoch + 1, last_epoch=NO_EPOCH)
    if claimed.epoch == held.epoch or held.epoch == NO_EPOCH:
        return replace(begun, epoch=held.epoch + 1, last_epoch=held.epoch)
    if claimed.epoch == held.last_epoch:  # the request was answered before, and the answer was lost
        return begun
    raise Refused(
        PRODUCER_FENCED, f"epoch {claimed.epoch} of {held.transactional_id!r} is not {held.epoch}"
    )


# -- while it is open ------------------------------------------------------------------------------


def check_producer(held: Transaction | None, producer: ProducerIdentity) -> Transaction:
    """Return what is held when it is this producer's. Raises Refused
    (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED).
    """
    if held is None or held.producer_id != producer.producer_id:
        raise Refused(
            INVALID_PRODUCER_ID_MAPPING,
            f"producer {producer.producer_id} has no such transactional id",
        )
    if held.epoch != producer.epoch:
        raise Refused(
            PRODUCER_FENCED,
            f"epoch {producer.epoch} of {held.transactional_id!r} is not {held.epoch}",
        )
    return held


def with_partitions(
    held: Transaction | None,
    producer: ProducerIdentity,
    partitions: Iterable[Partition],
    *,
    now_ms: int,
    second_generation: bool = False,
) -> Transaction:
    """Return the transaction with more partitions (the first begin it), or as it is.

    Raises Refused: as `check_producer`, and CONCURRENT_TRANSACTIONS while the last one is being
    ended.
    """
    held = check_producer(held, producer)
    _check_not_prepared(held)
    added = frozenset(partitions)
    if held.state is not State.ONGOING:
        held = replace(held, partitions=frozenset(), started_ms=now_ms)
    elif added <= held.partitions:
        return held
    return replace(
        held, state=State.ONGOING, partitions=held.partitions | added, updated_ms=now_ms,
        second_generation=second_generation,
    )  # fmt: skip


def missing_partitions(
    held: Transaction | None, producer: ProducerIdentity, partitions: Iterable[Partition]
) -> frozenset[Partition]:
    """Return the partitions not in the producer's open transaction; raises as `with_partitions`."""
    held = check_producer(held, producer)
    _check_not_prepared(held)
    return frozenset(partitions) - held.partitions


def _check_not_prepared(held: Transaction) -> None:
    if held.state in PREPARED:
        raise Refused(
            CONCURRENT_TRANSACTIONS,
            f"the last transaction of {held.transactional_id!r} is being ended",
        )


# -- EndTxn ----------------------------------------------------------------------------------------


def prepared(
    held: Transaction, *, commit: bool, now_ms: int, new_id: Callable[[], int] | None = None
) -> Transaction:
    """Return the transaction on its way to an end; `new_id`: the second generation's."""
    state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
    if new_id is None:
        return replace(held, state=state, updated_ms=now_ms, second_generation=False)
    return replace(
        held,
        state=state,
        updated_ms=now_ms,
        second_generation=True,
        epoch=held.epoch + 1,
        last_epoch=held.epoch,
        next_producer_id=new_id() if held.exhausted else NO_ID,
        started_ms=held.started_ms if held.state is State.ONGOING else now_ms,
    )


def ended(
    held: Transaction | None,
    producer: ProducerIdentity,
    *,
    commit: bool,
    now_ms: int,
    strict: bool = True,
) -> Transaction | None:
    """Return the transaction prepared to end, None if that end was before (generation 1).

    Without `strict` an epoch above the one held passes where no transaction is open, as in releases
    before 2.5. Raises Refused: as `check_producer`, CONCURRENT_TRANSACTIONS (asked again
    meanwhile), INVALID_TXN_STATE (nothing to end, or it ends the other way).
    """
    if held is not None and not strict and held.state is not State.ONGOING:
        producer = ProducerIdentity(producer.producer_id, min(producer.epoch, held.epoch))
    held = check_producer(held, producer)
    if held.state is State.ONGOING:
        return prepared(held, commit=commit, now_ms=now_ms)
    _check_repeated(held, commit=commit)
    return None


def _check_repeated(held: Transaction, *, commit: bool) -> None:
    """Raise Refused unless the same end was reached before."""
    if held.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
        raise Refused(
            CONCURRENT_TRANSACTIONS, f"a transaction of {held.transactional_id!r} is being ended"
        )
    if held.state is not (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        wanted = "commit" if commit else "abort"
        raise Refused(
            INVALID_TXN_STATE,
            f"{held.transactional_id!r} is {held.state.value}: nothing to {wanted}",
        )


def ended_second(
    held: Transaction | None,
    producer: ProducerIdentity,
    *,
    commit: bool,
    now_ms: int,
    new_id: Callable[[], int],
) -> Transaction | None:
    """As `ended`, in generation 2: ends raise the epoch, aborts may end nothing (KIP-890)."""
    if held is None:
        raise Refused(
            INVALID_PRODUCER_ID_MAPPING,
            f"producer {producer.producer_id} has no such transactional id",
        )
    rotated = (
        held.previous_producer_id == producer.producer_id
        and producer.epoch == LARGEST_EPOCH
        and held.epoch == 0
    )
    if held.producer_id != producer.producer_id and not rotated:
        raise Refused(
            INVALID_PRODUCER_ID_MAPPING,
            f"producer {producer.producer_id} has no such transactional id",
        )
    bumped = producer.epoch + 1 == held.epoch
    if not _is_valid_second(held, producer, bumped=bumped, rotated=rotated):
        raise Refused(
            PRODUCER_FENCED,
            f"epoch {producer.epoch} of {held.transactional_id!r} is not {held.epoch}",
        )
    if held.state is State.ONGOING:
        return prepared(held, commit=commit, now_ms=now_ms, new_id=new_id)
    if held.state in PREPARED or bumped or rotated:
        _check_repeated(held, commit=commit)
        return None
    if commit:
        raise Refused(
            INVALID_TXN_STATE, f"{held.transactional_id!r} is {held.state.value}: nothing to commit"
        )
    return prepared(
        replace(held, partitions=frozenset()), commit=False, now_ms=now_ms, new_id=new_id
    )


def _is_valid_second(
    held: Transaction, producer: ProducerIdentity, *, bumped: bool, rotated: bool
) -> bool:
    if held.state in PREPARED:
        return bumped
    if held.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return bumped or rotated or producer.epoch == held.epoch
    return producer.epoch == held.epoch


def fenced(held: Transaction, *, now_ms: int, epochs: int = 1) -> Transaction:
    """Return an open transaction to be aborted, its producer shut out: too old, or replaced.

    The epoch rises by `epochs`, as far as there are any.
    """
    epoch = min(held.epoch + epochs, LARGEST_EPOCH + 1)
    return replace(
        held, epoch=epoch, last_epoch=NO_EPOCH, state=State.PREPARE_ABORT, updated_ms=now_ms
    )


def completed(held: Transaction, *, now_ms: int) -> Transaction:
    """Return a transaction whose markers are all written."""
    state = State.COMPLETE_COMMIT if held.commits else State.COMPLETE_ABORT
    done = replace(
        held, state=state, partitions=frozenset(), updated_ms=now_ms, next_producer_id=NO_ID
    )
    if held.next_producer_id == NO_ID:
        return done
    return replace(
        done, producer_id=held.next_producer_id, previous_producer_id=held.producer_id, epoch=0
    )


# -- time ------------------------------------------------------------------------------------------


def due_ms(held: Transaction, expiration_ms: int) -> int | None:
    """Return an open transaction's or idle id's last moment; None while it is ended."""
    if held.state is State.ONGOING:
        return held.started_ms + held.timeout_ms
    return None if held.state in PREPARED else held.updated_ms + expiration_ms
