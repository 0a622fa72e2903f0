"""Quotas: there are none, and none can be set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.refusing import Refusal, entries
from parley.errors.codes import INVALID_REQUEST, NONE
from parley.messages import DescribeClientQuotasResponse
from parley.schema import ApiKey

if TYPE_CHECKING:
    from parley.messages import DescribeClientQuotasRequest, Message

WHY = "there are no quotas here"


def describe_quotas(call: Call, request: DescribeClientQuotasRequest) -> Message:
    """Find no quota; refuse what asks for nothing."""
    if any(not component.entity_type for component in request.components):
        answer = top(request, call.version, INVALID_REQUEST, "Invalid empty entity type.")
        answer.entries = None
        return answer
    return DescribeClientQuotasResponse(entries=[])


REFUSALS = (
    Refusal(ApiKey.DESCRIBE_CLIENT_QUOTAS, (NONE, INVALID_REQUEST), WHY, build=describe_quotas),
    entries(ApiKey.ALTER_CLIENT_QUOTAS, INVALID_REQUEST, WHY),
)
