"""AddOffsetsToTxn (25), v0-4.

Behaviours:
- Answered by the transactional id's coordinator (others NOT_COORDINATOR): the group's part of the
  offsets log joins the transaction, in the journal before it is answered.

Version notes:
- v2+ PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588), v4+ TRANSACTION_ABORTABLE
  (KIP-890).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_transaction_coordinator
from parley.devcluster.handlers.transacting import code_for
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from parley.schema import ApiKey, VersionRange

FIRST_FENCED_VERSION = 2


def handle(call: Call, request: AddOffsetsToTxnRequest) -> Answer:
    """Make a group's offsets part of the transaction."""
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    name = request.transactional_id
    try:
        require_transaction_coordinator(call, name)
        call.cluster.transactions.add_group(name, producer, request.group_id, now_ms=call.now_ms)
    except (Refused, OSError) as error:
        return refuse(request, call.version, code_for(error, call.version, FIRST_FENCED_VERSION))
    return AddOffsetsToTxnResponse()


def refuse(request: AddOffsetsToTxnRequest, version: int, code: int) -> AddOffsetsToTxnResponse:
    """Answer `code`."""
    return AddOffsetsToTxnResponse(error_code=code)


API = Handler(ApiKey.ADD_OFFSETS_TO_TXN, VersionRange(0, 4), handle, refuse)
