"""Delegation tokens: nobody logs in by a listener that could give one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.mirror import top
from parley.devcluster.handlers.refusing import Refusal, head
from parley.errors.codes import DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
from parley.messages import CreateDelegationTokenResponse
from parley.schema import ApiKey

if TYPE_CHECKING:
    from parley.messages import (
        CreateDelegationTokenRequest,
        ExpireDelegationTokenRequest,
        Message,
        RenewDelegationTokenRequest,
    )

ANONYMOUS = ("User", "ANONYMOUS")
FIRST_REQUESTER_VERSION = 3
CODE = DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
WHY = "delegation tokens need a login that this listener does not have"


def token(
    call: Call,
    request: CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest,
) -> Message:
    """Refuse a token, naming who asked: nobody logs in on this listener."""
    response: Message = top(request, call.version, CODE)
    for name in ("expiry_timestamp_ms", "issue_timestamp_ms", "max_timestamp_ms"):
        if hasattr(type(response), name):
            setattr(response, name, -1)
    if isinstance(response, CreateDelegationTokenResponse):
        response.principal_type, response.principal_name = ANONYMOUS
        if call.version >= FIRST_REQUESTER_VERSION:
            response.token_requester_principal_type, response.token_requester_principal_name = (
                ANONYMOUS
            )
    return response


REFUSALS = (
    Refusal(ApiKey.CREATE_DELEGATION_TOKEN, (CODE,), WHY, build=token),
    Refusal(ApiKey.RENEW_DELEGATION_TOKEN, (CODE,), WHY, build=token),
    Refusal(ApiKey.EXPIRE_DELEGATION_TOKEN, (CODE,), WHY, build=token),
    head(ApiKey.DESCRIBE_DELEGATION_TOKEN, CODE, WHY),
)
