"""Where a transactional producer stands, what it may be asked, which request comes next: pure.

    UNINITIALIZED ──initialized──> READY
    READY ──begin──> IN_TRANSACTION ──commit──> COMMITTING ──ended──> READY
                        │        └───failure───┐    │
                      abort                    │  failure
                        v                      v    v
    READY <──ended── ABORTING <──abort── ABORTABLE_ERROR           (any) ──> FATAL

1. After an abortable error nothing but an abort goes on, and no commit is ever sent for that
   transaction.
2. Once EndTxn(commit) may have reached the coordinator nothing but the same request may follow:
   whether the transaction is committed is not known until it is answered.
3. FATAL is the end: no request is sent any more.
4. A transaction to which nothing was added is not known to the coordinator: it is ended without a
   request.
5. An epoch that can no longer be trusted (a record's fate is unknown, the broker has forgotten us)
   is replaced by InitProducerId v3+ after the abort (KIP-360). Before Kafka 2.5 a new producer has
   to be made instead.
6. In the second generation of the protocol (KIP-890) each EndTxn answers with the next epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from parley.client.transactions.decisions import FENCED, Severity
from parley.errors import (
    BrokerError,
    KafkaError,
    LocalProtocolError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionFatalError,
)
from parley.errors.codes import INVALID_PRODUCER_ID_MAPPING
from parley.types import TopicPartition


class State(Enum):
    """Where a transactional producer stands."""

    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    PREPARED = "prepared"
    """Handed over: another process ends this transaction; this producer does no more."""
    FATAL = "fatal"


class Step(Enum):
    """A request that has to be sent next."""

    INIT_PRODUCER_ID = "InitProducerId"
    END_TXN = "EndTxn"


class Identity(NamedTuple):
    """Who writes: a producer id and the epoch that fences those before it."""

    producer_id: int
    epoch: int


NOBODY = Identity(-1, -1)


@dataclass(slots=True)
class TransactionState:
    """One transactional producer. Every method mutates it, `check_...` and properties aside."""

    transactional_id: str
    state: State = State.UNINITIALIZED
    identity: Identity = NOBODY
    generation: int = 1
    can_renew: bool = False
    """Whether the coordinator gives a new epoch for the old one (InitProducerId v3+, KIP-360)."""
    error: KafkaError | None = None
    """Why the state is ABORTABLE_ERROR or FATAL."""
    partitions: set[TopicPartition] = field(default_factory=set)
    """Those that the coordinator has taken into the open transaction."""
    groups: set[str] = field(default_factory=set)
    started: bool = False
    """Whether the coordinator may know of the open transaction."""
    must_renew: bool = False
    end_sent: bool = False
    ended: bool = False

    # -- what the application asks for -------------------------------------------------------------

    def begin(self, generation: int = 1) -> None:
        """Open a transaction in one generation of the protocol. Nothing is sent for that."""
        self._expect("begin_transaction", State.READY)
        self.partitions, self.groups = set(), set()
        self.started = self.end_sent = self.ended = False
        self.generation, self.state, self.error = generation, State.IN_TRANSACTION, None

    def resume(self, identity: Identity) -> None:
        """Take over another process's identity: whether it can be renewed is not known."""
        self._expect("resume", State.UNINITIALIZED)
        self.initialized(identity, can_renew=False)

    def check_open(self, call: str) -> None:
        """Raise unless a transaction is open and well."""
        self._expect(call, State.IN_TRANSACTION)

    def check_writing(self) -> None:
        """Raise unless rows of an allowed call may still go out: a commit waits for them."""
        self._expect("produce", State.IN_TRANSACTION, State.COMMITTING)

    def commit(self) -> None:
        """Go on to COMMITTING; again after a commit that got no answer."""
        self._expect("commit_transaction", State.IN_TRANSACTION, State.COMMITTING)
        self.state = State.COMMITTING

    def abort(self) -> None:
        """Go on to ABORTING, whatever went wrong; again after an abort that got no answer."""
        if self.state is State.COMMITTING and not self.end_sent:
            self.state = State.IN_TRANSACTION
        self._expect(
            "abort_transaction", State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING
        )
        self.state = State.ABORTING

    def prepare(self) -> None:
        """Hand the open transaction over: this producer is done with it."""
        self._expect("prepare_transaction", State.IN_TRANSACTION)
        self.state = State.PREPARED

    def keep(self) -> None:
        """Have the transaction again: handing it over was cancelled."""
        self._expect("keep", State.PREPARED)
        self.state = State.IN_TRANSACTION

    @property
    def is_open(self) -> bool:
        """Whether an abort is still possible and due."""
        return self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING) or (
            self.state is State.COMMITTING and not self.end_sent
        )

    # -- which request comes next ------------------------------------------------------------------

    @property
    def committed(self) -> bool:
        """Whether the EndTxn that is due commits."""
        return self.state is State.COMMITTING

    @property
    def next_step(self) -> Step | None:
        """The request that is due now; None when the application may go on."""
        if self.state is State.UNINITIALIZED:
            return Step.INIT_PRODUCER_ID
        if self.state in (State.COMMITTING, State.ABORTING) and self.started and not self.ended:
            return Step.END_TXN
        if self.state is State.ABORTING and self.must_renew and self.can_renew:
            return Step.INIT_PRODUCER_ID
        return None

    def missing(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return which partitions must be added to the transaction before they are written."""
        return [tp for tp in dict.fromkeys(partitions) if tp not in self.partitions]

    def adding(self) -> None:
        """Note that a request goes out after which the coordinator may know the transaction."""
        self.started = True

    def sending(self, step: Step) -> None:
        """Take note that a step's request goes out."""
        if step is Step.END_TXN:
            self.end_sent = True

    # -- what came of it ---------------------------------------------------------------------------

    def initialized(self, identity: Identity, *, can_renew: bool) -> None:
        """Take the answer to InitProducerId."""
        self.identity, self.can_renew = identity, can_renew
        self.must_renew = False
        if self.state is State.UNINITIALIZED:
            self.state = State.READY

    def end_answered(self, identity: Identity | None = None) -> None:
        """Take the answer to EndTxn; the second generation's brings the next epoch."""
        self.ended = True
        if identity is not None:
            self.identity, self.must_renew = identity, False

    def finish(self) -> None:
        """Go on to READY if no step is left. Fatal if an epoch is due and cannot be renewed."""
        if self.state not in (State.COMMITTING, State.ABORTING) or self.next_step is not None:
            raise LocalProtocolError(
                f"the transaction of {self.transactional_id} cannot be finished: {self.state}"
            )
        if self.must_renew:
            text = (
                f"the transaction of {self.transactional_id!r} was aborted, but the fate of some "
                "of its records is unknown and the coordinator cannot renew the epoch (Kafka 2.5 "
                "can): close this producer and make a new one of the same transactional id"
            )
            cause, self.error = self.error, self._described(TransactionFatalError(text))
            self.error.__cause__ = cause
            self.state = State.FATAL
            raise self.error
        self.state, self.error = State.READY, None

    def failed(self, severity: Severity, error: KafkaError) -> None:
        """Note what an error does to the transaction: FATAL stays, the first abortable too."""
        if self.state in (State.FATAL, State.PREPARED) or severity is Severity.RETRY:
            return
        if severity is Severity.RENEW and not self.can_renew and self.generation < 2:
            severity = Severity.FATAL
        if severity is Severity.FATAL or self.state in (State.UNINITIALIZED, State.READY):
            self.state, self.error = State.FATAL, error
            return
        self.must_renew = self.must_renew or severity is Severity.RENEW
        forgotten = _code(error) == INVALID_PRODUCER_ID_MAPPING
        if self.state is State.ABORTING:
            if not forgotten or self.ended or not self.can_renew:
                # what cannot even be aborted cannot go on
                self.state, self.error = State.FATAL, error
                return
            self.ended = True
            return
        if forgotten:
            self.ended = True  # the coordinator would refuse EndTxn too: straight on to a new epoch
        if self.state is not State.ABORTABLE_ERROR:
            self.state, self.error = State.ABORTABLE_ERROR, error

    def doubt(self) -> None:
        """Take note that a record may still be on its way under this epoch."""
        self.must_renew = True

    # -- errors ------------------------------------------------------------------------------------

    def trouble(self) -> KafkaError:
        """Return what to raise in ABORTABLE_ERROR or FATAL, made from the error behind it."""
        who, error = f"the transaction of {self.transactional_id!r}", self.error
        if self.state is State.FATAL and isinstance(error, TransactionFatalError):
            return error
        if self.state is State.FATAL and _code(error) in FENCED:
            made: KafkaError = ProducerFencedError(
                f"{who} (producer {self.identity.producer_id}, epoch {self.identity.epoch}) is "
                "fenced: another producer has begun with this transactional id, or the "
                "coordinator aborted it after transaction_timeout_ms. What it did not commit is "
                f"discarded; close this producer. ({error})",
                code=_code(error),
            )
        elif self.state is State.FATAL:
            text = (
                f"{who} met an error after which this producer cannot go on; close it and make a "
                f"new one: {error}"
            )
            made = TransactionFatalError(text, code=_code(error))
        else:
            text = (
                f"{who} cannot be committed any more; call abort_transaction, then begin it "
                f"again: {error}"
            )
            made = TransactionAbortableError(text, code=_code(error))
        made = self._described(made)
        made.__cause__ = error
        return made

    def _described(self, error: KafkaError) -> KafkaError:
        vars(error).update(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
        )
        return error

    def _expect(self, call: str, *states: State) -> None:
        if self.state in states:
            return
        if self.state in (State.ABORTABLE_ERROR, State.FATAL):
            raise self.trouble()
        raise LocalProtocolError(f"{call}: {_REMEDIES[self.state]}")


_REMEDIES = {
    State.UNINITIALIZED: "this producer has not begun; call start() first",
    State.READY: "no transaction is open; call begin_transaction first",
    State.IN_TRANSACTION: "a transaction is open already; commit or abort it first",
    State.COMMITTING: "the commit is not over; call commit_transaction again until it is answered",
    State.ABORTING: "the abort is not over; call abort_transaction again until it is answered",
    State.PREPARED: "the transaction was handed over; end it with client.transactions.end, and "
    "make a new producer",
}


def _code(error: KafkaError | None) -> int | None:
    return error.code if isinstance(error, BrokerError) else None
