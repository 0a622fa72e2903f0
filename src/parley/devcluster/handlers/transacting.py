"""What the handlers of transactions share: codes by version, and how records and
offsets join a transaction.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.state.log.batches import Bytes, read_facts
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors.codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    INVALID_TXN_STATE,
    NOT_ENOUGH_REPLICAS,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from parley.records import layout

ATTRIBUTES_END = layout.ATTRIBUTES_AT + 1
FIRST_ABORTABLE_PRODUCE = 11
FIRST_ADDING_PRODUCE = 12
FIRST_ADDING_OFFSETS = 5


def code_for(error: Refused | OSError, version: int, first_fenced_version: int) -> int:
    """Return the code of a coordinator's refusal: PRODUCER_FENCED only for
    versions that know it (KIP-588).
    """
    if isinstance(error, OSError):
        return COORDINATOR_NOT_AVAILABLE
    fenced = error.code == PRODUCER_FENCED and version < first_fenced_version
    return INVALID_PRODUCER_EPOCH if fenced else error.code


def admit_batch(call: Call, name: str | None, replica: Replica, records: Bytes | None) -> None:
    """Let a transactional batch pass to the log when its partition is part of the transaction.

    Releases before 3.6 do not ask. Produce v12+ adds the partition (KIP-890). Raises Refused with
    Produce's codes, or OSError.
    """
    if (
        records is None
        or len(records) <= ATTRIBUTES_END
        or not records[ATTRIBUTES_END] & layout.TRANSACTIONAL
    ):
        return  # most batches are plain: one look shows it
    behaviour, facts = call.profile.behaviour, read_facts(records)
    if facts is None or not facts.is_transactional:
        return
    if name is None and behaviour.demands_transactional_id:
        raise Refused(
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional records without a transactional id",
        )
    if name is None or not behaviour.verifies_transactions:
        return
    producers, producer = (
        replica.producers,
        ProducerIdentity(facts.producer_id, facts.producer_epoch),
    )
    is_open = producers.transactions.first_offset(producer.producer_id) is not None
    if is_open and (
        producers.epoch_of(producer.producer_id) == producer.epoch or not behaviour.verifies_epochs
    ):
        return
    if call.broker.id in call.cluster.replication.links.isolated:
        raise Refused(
            NOT_ENOUGH_REPLICAS, f"broker {call.broker.id} cannot ask the coordinator of {name!r}"
        )
    partitions = {(replica.topic, replica.key.partition)}
    transactions = call.cluster.transactions
    if transactions.is_loading(name, now_ms=call.now_ms):
        raise Refused(NOT_ENOUGH_REPLICAS, f"the coordinator of {name!r} is loading")
    try:
        if call.version >= FIRST_ADDING_PRODUCE:
            transactions.add(name, producer, partitions, now_ms=call.now_ms, second_generation=True)
        elif transactions.missing(name, producer, partitions):
            code = (
                TRANSACTION_ABORTABLE
                if call.version >= FIRST_ABORTABLE_PRODUCE
                else INVALID_TXN_STATE
            )
            raise Refused(code, f"{replica.topic} is not part of a transaction of {name!r}")
    except Refused as error:
        raise Refused(_produce_code(error.code, call.version), error.message) from error


def admit_offsets(call: Call, name: str, producer: ProducerIdentity, group: str) -> None:
    """Let the offsets of a group pass when they are part of the transaction; TxnOffsetCommit v5+
    adds them (KIP-890).

    Releases before 3.7 do not ask. Raises Refused or OSError.
    """
    transactions, behaviour = call.cluster.transactions, call.profile.behaviour
    verifies = call.version >= FIRST_ADDING_OFFSETS or behaviour.verifies_offsets
    if verifies and transactions.is_loading(name, now_ms=call.now_ms):
        raise Refused(COORDINATOR_NOT_AVAILABLE, f"the coordinator of {name!r} is loading")
    if call.version >= FIRST_ADDING_OFFSETS:
        transactions.add_group(name, producer, group, now_ms=call.now_ms, second_generation=True)
        return
    if not behaviour.verifies_offsets:
        return
    if not name:
        raise Refused(INVALID_REQUEST, "a transactional id is not empty")
    offsets = {call.cluster.offsets_partition(group)}
    if transactions.missing(name, producer, offsets):
        raise Refused(
            behaviour.unverified_code,
            f"the offsets of {group!r} are not part of a transaction of {name!r}",
        )


def _produce_code(code: int, version: int) -> int:
    if code == PRODUCER_FENCED:
        return INVALID_PRODUCER_EPOCH  # producers abort on it and go on (KIP-588)
    if code == CONCURRENT_TRANSACTIONS and version < FIRST_ADDING_PRODUCE:
        return NOT_ENOUGH_REPLICAS  # old producers try again on this one
    return code
