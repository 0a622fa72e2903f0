"""EndTxn (26), v0-5.

Behaviours:
- Answered by the transactional id's coordinator (others NOT_COORDINATOR) once the end is in the
  journal; the markers are in the logs then, but for partitions without a leader, which get theirs
  with the leader.
- Asked again, the same end is a success and the other one INVALID_TXN_STATE.

Version notes:
- v2+ PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588), v5+ the second generation
  (KIP-890): each end raises the epoch, which is returned with the producer id, and an abort may end
  a transaction without records.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_transaction_coordinator
from parley.devcluster.handlers.transacting import code_for
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.messages import EndTxnRequest, EndTxnResponse
from parley.schema import ApiKey, VersionRange

FIRST_FENCED_VERSION = 2
FIRST_SECOND_GENERATION = 5


def handle(call: Call, request: EndTxnRequest) -> Answer:
    """End the transaction."""
    second = call.version >= FIRST_SECOND_GENERATION
    name = request.transactional_id
    try:
        require_transaction_coordinator(call, name)
        identity = call.cluster.transactions.end(
            name,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            commit=request.committed,
            now_ms=call.now_ms,
            second_generation=second,
            strict=call.profile.behaviour.fences_higher_epochs,
        )
    except (Refused, OSError) as error:
        return refuse(request, call.version, code_for(error, call.version, FIRST_FENCED_VERSION))
    if not second:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def refuse(request: EndTxnRequest, version: int, code: int) -> EndTxnResponse:
    """Answer `code`."""
    return EndTxnResponse(error_code=code)


API = Handler(ApiKey.END_TXN, VersionRange(0, 5), handle, refuse)
