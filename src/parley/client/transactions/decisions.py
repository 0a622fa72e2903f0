"""Which error of which request does what to a transaction, as Java's TransactionManager has it: pure tables.

| code | name | what it does |
|---|---|---|
| 14, 15, 16, 51 | coordinator loads, moves, or writes the markers before | the request is repeated |
| 47, 90 | INVALID_PRODUCER_EPOCH, PRODUCER_FENCED | fatal; 47 from a partition's leader: as 49 (KIP-588) |
| 48 | INVALID_TXN_STATE | fatal: both sides do not agree any more |
| 49, 59, 45 | producer id unknown, or a sequence missing | abort and a new epoch (KIP-360); fatal before 2.5 |
| 53, 31 | not authorized for the transactional id, or the cluster | fatal |
| 29, 30 | not authorized for a topic or the group | abort |
| 120 | TRANSACTION_ABORTABLE | abort (KIP-890) |
"""

from __future__ import annotations

from enum import Enum

from parley.client.cluster.retry import Reaction, classify
from parley.errors import BrokerError, KafkaError, RequestTimedOut
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


class Verdict(Enum):
    """What an error does to the producer's transaction."""

    RETRY = "retry"
    """Nothing: the same request may go again."""
    ABORTABLE = "abortable"
    """The transaction can only be aborted."""
    RENEW = "renew"
    """Abortable, and the next transaction needs a new epoch. Fatal where the coordinator can give none."""
    FATAL = "fatal"


_EVERYWHERE = {
    INVALID_PRODUCER_EPOCH: Verdict.FATAL,
    PRODUCER_FENCED: Verdict.FATAL,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
    TRANSACTION_ABORTABLE: Verdict.ABORTABLE,
    INVALID_PRODUCER_ID_MAPPING: Verdict.RENEW,
    UNKNOWN_PRODUCER_ID: Verdict.RENEW,
    INVALID_TXN_STATE: Verdict.FATAL,
}
_GROUP = {22: Verdict.ABORTABLE, 25: Verdict.ABORTABLE, 30: Verdict.ABORTABLE, 82: Verdict.ABORTABLE}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID: the group has moved on."""
_BY_API: dict[ApiKey, dict[int, Verdict]] = {
    ApiKey.INIT_PRODUCER_ID: dict.fromkeys((49, 59, 120), Verdict.FATAL),
    ApiKey.FIND_COORDINATOR: {30: Verdict.ABORTABLE},
    ApiKey.ADD_OFFSETS_TO_TXN: _GROUP,
    ApiKey.TXN_OFFSET_COMMIT: {**_GROUP, 29: Verdict.ABORTABLE, 12: Verdict.ABORTABLE, 28: Verdict.ABORTABLE},
    ApiKey.PRODUCE: {
        CLUSTER_AUTHORIZATION_FAILED: Verdict.FATAL,
        OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.RENEW,
        INVALID_PRODUCER_EPOCH: Verdict.RENEW,
        INVALID_TXN_STATE: Verdict.RENEW,
    },
}
_OTHERWISE = {ApiKey.ADD_PARTITIONS_TO_TXN: Verdict.ABORTABLE, ApiKey.PRODUCE: Verdict.ABORTABLE}
"""For codes that stand nowhere above: what is wrong with a partition is no reason to give the producer up."""


def judge_code(api: ApiKey, code: int, *, retriable: bool = False) -> Verdict:
    """Return what an error code in the answer to a request does to the transaction.

    >>> judge_code(ApiKey.END_TXN, 51, retriable=True), judge_code(ApiKey.PRODUCE, 47)
    (<Verdict.RETRY: 'retry'>, <Verdict.RENEW: 'renew'>)
    """
    found = _BY_API.get(api, {}).get(code) or _EVERYWHERE.get(code)
    if found is not None:
        return found
    return Verdict.RETRY if retriable and api is not ApiKey.PRODUCE else _OTHERWISE.get(api, Verdict.FATAL)


def judge(api: ApiKey, error: KafkaError) -> Verdict:
    """Return what an error that ended a request for good does to the transaction.

    `api` is what the caller was about; a broker's error says itself which request it answers. A request
    that got no answer until its deadline leaves an EndTxn to be asked again; any other can only be
    followed by an abort.
    """
    if isinstance(error, BrokerError):
        api = ApiKey[error.api] if error.api is not None and error.api in ApiKey.__members__ else api
        verdict = judge_code(api, error.code, retriable=error.retriable)
    elif api is ApiKey.PRODUCE:
        verdict = Verdict.ABORTABLE
    elif isinstance(error, RequestTimedOut) or classify(error) is not Reaction.FAIL:
        verdict = Verdict.RETRY
    else:
        verdict = Verdict.FATAL
    if verdict is Verdict.RETRY and api not in (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
        return Verdict.ABORTABLE  # the caller's time is over
    return verdict
