"""InitProducerId (22), v0-5.

Behaviours:
- Without a transactional id: a new producer id with epoch 0, from any broker. Ids are journaled and
  never given twice.
- With one: the coordinator's (others NOT_COORDINATOR) identity, its epoch raised by one each time.

Version notes:
- v3+ the producer names the identity it holds and gets the next epoch (KIP-360), v4+ PRODUCER_FENCED
  instead of INVALID_PRODUCER_EPOCH (KIP-588), v5+ transactions v2 (KIP-890).

Not implemented: open transactions (none can be begun yet), so nothing is aborted here.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler, Message
from parley.devcluster.handlers.coordination import require_coordinator
from parley.devcluster.state.codes import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    Refused,
)
from parley.devcluster.state.producer_ids import ProducerIdentity
from parley.messages import InitProducerIdResponse
from parley.schema import ApiKey, VersionRange

LONGEST_TIMEOUT_MS = 15 * 60 * 1000  # transaction.max.timeout.ms
FIRST_CLAIM_VERSION = 3
FIRST_FENCED_VERSION = 4
NOBODY = ProducerIdentity(-1, -1)


def handle(call: Call, request: Message) -> Answer:
    """Give the producer an identity."""
    try:
        identity = _initialise(call, request)
    except Refused as error:
        return refuse(request, call.version, error.code)
    except OSError:
        return refuse(request, call.version, COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _initialise(call: Call, request: Message) -> ProducerIdentity:
    claimed = NOBODY
    if call.version >= FIRST_CLAIM_VERSION:
        claimed = ProducerIdentity(request.producer_id, request.producer_epoch)
        if (claimed.producer_id < 0) != (claimed.epoch < 0):
            raise Refused(INVALID_REQUEST, "a producer names its id and its epoch, or neither")
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not transactional_id:
            raise Refused(INVALID_REQUEST, "a transactional id is not empty")
        require_coordinator(call, transactional_id)
        if not 0 < request.transaction_timeout_ms <= LONGEST_TIMEOUT_MS:
            raise Refused(INVALID_TRANSACTION_TIMEOUT, f"the longest allowed is {LONGEST_TIMEOUT_MS} ms")
    return call.cluster.init_producer(transactional_id, claimed, fenced_code=call.version >= FIRST_FENCED_VERSION)


def refuse(request: Message, version: int, code: int) -> Message:
    """Answer `code`."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


API = Handler(ApiKey.INIT_PRODUCER_ID, VersionRange(0, 5), handle, refuse)
