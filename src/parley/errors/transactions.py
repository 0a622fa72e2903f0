"""What can become of a transaction, as exceptions: what each means for records (KIP-98, KIP-890).

TransactionError
  TransactionAbortableError     abort, then go on with the same producer
  TransactionFatalError         this producer is done for; a new one of the same id may go on
    ProducerFencedError         (47, 90) another producer has taken the transactional id over
  TransactionAbortedError       (48) a commit, but the transaction is aborted: its records are gone
  TransactionCommittedError     (48) an abort, but the transaction is committed: its records stay
  TransactionForgottenError     (49) the coordinator knows this id, or this producer id, no more
"""

from __future__ import annotations

from parley.errors.tree import KafkaError


class TransactionError(KafkaError):
    """Something about a transaction; `code` is Kafka's, where a broker gave one, else None."""

    def __init__(
        self,
        message: str,
        *,
        transactional_id: str | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.code = code


class TransactionAbortableError(TransactionError):
    """The open transaction cannot be committed. Call `abort_transaction`, then begin again."""


class TransactionFatalError(TransactionError):
    """The producer cannot go on. Close it; a new one of the id aborts what this one left."""


class ProducerFencedError(TransactionFatalError):
    """The epoch is over (47 INVALID_PRODUCER_EPOCH, 90 PRODUCER_FENCED).

    Another producer has begun with the same transactional id, or the coordinator aborted the
    transaction after transaction_timeout_ms. If it had not been committed before, its records are
    discarded.
    """


class TransactionAbortedError(TransactionError):
    """A commit, but the transaction is aborted (48 INVALID_TXN_STATE): its records are gone."""


class TransactionCommittedError(TransactionError):
    """An abort, but the transaction is committed (48 INVALID_TXN_STATE): its records stay."""


class TransactionForgottenError(TransactionError):
    """The coordinator knows no such transaction (49 INVALID_PRODUCER_ID_MAPPING).

    The transactional id expired (transactional.id.expiration.ms, 7 days) or has another producer id
    now. Neither happens while a transaction is open: this one ended earlier, which way cannot be
    known any more.
    """
