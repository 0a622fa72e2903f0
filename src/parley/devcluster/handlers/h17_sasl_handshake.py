"""SaslHandshake (17), v0-1.

Behaviours:
- On listeners without SASL: ILLEGAL_SASL_STATE, with the mechanisms that the broker has enabled:
  GSSAPI up to 1.0, none later. The connection goes on.
- On SASL listeners the connection itself answers (protocol.broker_login); no request comes here.

Version notes:
- v1 announces that the tokens come in SaslAuthenticate requests (KIP-152).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.errors.codes import ILLEGAL_SASL_STATE
from parley.messages import SaslHandshakeRequest, SaslHandshakeResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: SaslHandshakeRequest) -> Answer:
    """Say that there is no login on this listener."""
    return SaslHandshakeResponse(
        error_code=ILLEGAL_SASL_STATE, mechanisms=list(call.profile.behaviour.idle_sasl_mechanisms)
    )


API = Handler(ApiKey.SASL_HANDSHAKE, VersionRange(0, 1), handle, top)
