"""Which error of which request does what to a transaction, as in Java's TransactionManager.

| code | name | what it does |
|---|---|---|
| 14, 15, 16, 51 | coordinator loads, moves, or writes earlier markers | the request is repeated |
| 47, 90 | INVALID_PRODUCER_EPOCH, PRODUCER_FENCED | fatal; 47 from a leader: as 49 (KIP-588) |
| 48 | INVALID_TXN_STATE | fatal: both sides do not agree any more |
| 49, 59, 45 | id unknown, or a sequence missing | abort, new epoch (KIP-360); fatal before 2.5 |
| 53, 31 | not authorized for the transactional id, or the cluster | fatal |
| 29, 30 | not authorized for a topic or the group | abort |
| 120 | TRANSACTION_ABORTABLE | abort (KIP-890) |
"""

from __future__ import annotations

from enum import Enum

from parley.client.cluster.retry import Reaction, classify
from parley.errors import BrokerError, KafkaError, RequestTimedOut, UnsupportedVersionError
from parley.errors.codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_PRODUCER_ID,
)
from parley.schema import ApiKey

FENCED = (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)


class Severity(Enum):
    """What an error does to the producer's transaction."""

    RETRY = "retry"
    """Nothing: the same request may go again."""
    ABORTABLE = "abortable"
    """The transaction can only be aborted."""
    RENEW = "renew"
    """Abortable; the next transaction needs a new epoch. Fatal if the coordinator has none."""
    FATAL = "fatal"


_EVERYWHERE = {
    INVALID_PRODUCER_EPOCH: Severity.FATAL,
    PRODUCER_FENCED: Severity.FATAL,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Severity.FATAL,
    TRANSACTION_ABORTABLE: Severity.ABORTABLE,
    INVALID_PRODUCER_ID_MAPPING: Severity.RENEW,
    UNKNOWN_PRODUCER_ID: Severity.RENEW,
    INVALID_TXN_STATE: Severity.FATAL,
}
_GROUP = {
    22: Severity.ABORTABLE,
    25: Severity.ABORTABLE,
    30: Severity.ABORTABLE,
    82: Severity.ABORTABLE,
}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, GROUP_AUTHORIZATION_FAILED,
FENCED_INSTANCE_ID: the group has moved on.
"""
_BY_API: dict[ApiKey, dict[int, Severity]] = {
    ApiKey.INIT_PRODUCER_ID: dict.fromkeys((49, 59, 120), Severity.FATAL),
    ApiKey.FIND_COORDINATOR: {30: Severity.ABORTABLE},
    ApiKey.ADD_OFFSETS_TO_TXN: _GROUP,
    ApiKey.TXN_OFFSET_COMMIT: {
        **_GROUP,
        29: Severity.ABORTABLE,
        12: Severity.ABORTABLE,
        28: Severity.ABORTABLE,
    },
    ApiKey.PRODUCE: {
        CLUSTER_AUTHORIZATION_FAILED: Severity.FATAL,
        OUT_OF_ORDER_SEQUENCE_NUMBER: Severity.RENEW,
        INVALID_PRODUCER_EPOCH: Severity.RENEW,
        INVALID_TXN_STATE: Severity.RENEW,
    },
}
_OTHERWISE = {ApiKey.ADD_PARTITIONS_TO_TXN: Severity.ABORTABLE, ApiKey.PRODUCE: Severity.ABORTABLE}
"""For other codes: what is wrong with a partition is no reason to give up the producer."""


def judge_code(api: ApiKey, code: int, *, retriable: bool = False) -> Severity:
    """Return what an error code in the answer to a request does to the transaction.

    >>> judge_code(ApiKey.END_TXN, 51, retriable=True), judge_code(ApiKey.PRODUCE, 47)
    (<Severity.RETRY: 'retry'>, <Severity.RENEW: 'renew'>)
    """
    found = _BY_API.get(api, {}).get(code) or _EVERYWHERE.get(code)
    if found is not None:
        return found
    return (
        Severity.RETRY
        if retriable and api is not ApiKey.PRODUCE
        else _OTHERWISE.get(api, Severity.FATAL)
    )


def judge(api: ApiKey, error: KafkaError) -> Severity:
    """Return what an error that ended a request for good does to the transaction.

    `api` is what the caller was about; a broker's error says itself which request it answers. A
    request that got no answer until its deadline leaves an EndTxn to be asked again; any other can
    only be followed by an abort.
    """
    if isinstance(error, BrokerError):
        api = (
            ApiKey[error.api] if error.api is not None and error.api in ApiKey.__members__ else api
        )
        severity = judge_code(api, error.code, retriable=error.retriable)
    elif api is ApiKey.PRODUCE:
        severity = Severity.ABORTABLE
    elif api is ApiKey.TXN_OFFSET_COMMIT and isinstance(error, UnsupportedVersionError):
        severity = Severity.ABORTABLE  # the offsets were not sent; nothing else is in doubt
    elif isinstance(error, RequestTimedOut) or classify(error) is not Reaction.FAIL:
        severity = Severity.RETRY
    else:
        severity = Severity.FATAL
    if severity is Severity.RETRY and api not in (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
        return Severity.ABORTABLE  # the caller's time is over
    return severity
