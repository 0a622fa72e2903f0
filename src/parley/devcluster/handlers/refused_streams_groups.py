"""Groups of Kafka Streams' own protocol (KIP-1071): it is switched off."""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.mirror import Chain
from parley.devcluster.handlers.refusing import Refusal, entries
from parley.errors.codes import GROUP_ID_NOT_FOUND, INVALID_REQUEST, UNSUPPORTED_VERSION
from parley.schema import ApiKey

WHY = "the group protocols of this kind are switched off"


def streams_heartbeat(call: Call, chain: Chain) -> int:
    """Say what is wrong with a heartbeat, else that the protocol is off."""
    (request,) = chain
    wrong = (
        not request.group_id
        or not request.member_id
        or request.task_offsets
        or request.task_end_offsets
    )
    return INVALID_REQUEST if wrong else UNSUPPORTED_VERSION


REFUSALS = (
    Refusal(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        (UNSUPPORTED_VERSION, INVALID_REQUEST),
        WHY,
        streams_heartbeat,
    ),
    entries(ApiKey.STREAMS_GROUP_DESCRIBE, GROUP_ID_NOT_FOUND, WHY),
)
