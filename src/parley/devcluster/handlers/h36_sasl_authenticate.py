"""SaslAuthenticate (36), v0-2.

Behaviours:
- On listeners without SASL: ILLEGAL_SASL_STATE. The connection goes on.
- On SASL listeners the connection itself answers (protocol.broker_login); no request comes here.

Version notes:
- v1+ session lifetime (KIP-368).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.errors.codes import ILLEGAL_SASL_STATE
from parley.messages import SaslAuthenticateRequest
from parley.schema import ApiKey, VersionRange

MESSAGE = "SaslAuthenticate request received after successful authentication"


def handle(call: Call, request: SaslAuthenticateRequest) -> Answer:
    """Say that there is no login on this listener."""
    return top(request, call.version, ILLEGAL_SASL_STATE, MESSAGE)


API = Handler(ApiKey.SASL_AUTHENTICATE, VersionRange(0, 2), handle, top)
