"""SASL mechanisms as state machines for both ends, one module per mechanism, and `mechanisms`, the
table of them. `base` is what a mechanism is.
"""

from parley.protocol.sasl.base import (
    ClientCredentials,
    ClientMechanism,
    Mechanism,
    ServerCredentials,
    ServerMaker,
    ServerMechanism,
)
from parley.protocol.sasl.mechanisms import MECHANISMS
from parley.protocol.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer
from parley.protocol.sasl.plain import PlainClient, PlainServer
from parley.protocol.sasl.scram import ScramClient, ScramCredential, ScramServer

__all__ = [
    "MECHANISMS",
    "ClientCredentials",
    "ClientMechanism",
    "Mechanism",
    "OAuthBearerClient",
    "OAuthBearerServer",
    "PlainClient",
    "PlainServer",
    "ScramClient",
    "ScramCredential",
    "ScramServer",
    "ServerCredentials",
    "ServerMaker",
    "ServerMechanism",
]
