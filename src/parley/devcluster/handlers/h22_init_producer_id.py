"""InitProducerId (22), v0-5.

Behaviours:
- Without a transactional id: a new producer id with epoch 0, from any broker. Ids are journaled and
  never given twice.
- With one: the coordinator's (others NOT_COORDINATOR) identity, its epoch raised by one each time;
  after epoch 32766 a new producer id.
- An open transaction is aborted, its producer fenced: CONCURRENT_TRANSACTIONS, and the next try is
  answered.
- A transaction may last transaction.max.timeout.ms at most: INVALID_TRANSACTION_TIMEOUT.

Version notes:
- v3+ the producer names the identity it holds and gets the next epoch (KIP-360), v4+
  PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588), v5+ transactions v2 (KIP-890).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_transaction_coordinator
from parley.devcluster.handlers.transacting import code_for
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors.codes import INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT
from parley.messages import InitProducerIdRequest, InitProducerIdResponse
from parley.schema import ApiKey, VersionRange

FIRST_CLAIM_VERSION = 3
FIRST_FENCED_VERSION = 4


def handle(call: Call, request: InitProducerIdRequest) -> Answer:
    """Give the producer an identity."""
    try:
        identity = _initialise(call, request)
    except (Refused, OSError) as error:
        return refuse(request, call.version, code_for(error, call.version, FIRST_FENCED_VERSION))
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _initialise(call: Call, request: InitProducerIdRequest) -> ProducerIdentity:
    claimed = None
    if call.version >= FIRST_CLAIM_VERSION:
        claimed = _claimed(request)
    name = request.transactional_id
    if name is None:
        return call.cluster.new_producer()
    longest = call.cluster.settings.transaction_max_timeout_ms
    if name and not 0 < request.transaction_timeout_ms <= longest:
        raise Refused(INVALID_TRANSACTION_TIMEOUT, f"the longest allowed is {longest} ms")
    require_transaction_coordinator(call, name)
    return call.cluster.transactions.initialise(
        name, claimed, timeout_ms=request.transaction_timeout_ms, now_ms=call.now_ms
    )


def _claimed(request: InitProducerIdRequest) -> ProducerIdentity | None:
    claimed = ProducerIdentity(request.producer_id, request.producer_epoch)
    if (claimed.producer_id < 0) != (claimed.epoch < 0):
        raise Refused(INVALID_REQUEST, "a producer names its id and its epoch, or neither")
    return claimed if claimed.producer_id >= 0 else None


def refuse(request: InitProducerIdRequest, version: int, code: int) -> InitProducerIdResponse:
    """Answer `code`."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


API = Handler(ApiKey.INIT_PRODUCER_ID, VersionRange(0, 5), handle, refuse)
