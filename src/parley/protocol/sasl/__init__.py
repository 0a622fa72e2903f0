"""SASL mechanisms as state machines for both ends: PLAIN, SCRAM-SHA-256/512, OAUTHBEARER.

Map: `base` is what a mechanism is; `plain`, `scram`, `oauthbearer`.
"""

from parley.protocol.sasl.base import ClientMechanism, ServerMechanism
from parley.protocol.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer
from parley.protocol.sasl.plain import PlainClient, PlainServer
from parley.protocol.sasl.scram import ScramClient, ScramCredential, ScramServer

__all__ = [
    "ClientMechanism",
    "OAuthBearerClient",
    "OAuthBearerServer",
    "PlainClient",
    "PlainServer",
    "ScramClient",
    "ScramCredential",
    "ScramServer",
    "ServerMechanism",
]
