"""The state of one connection, without input or output: bytes in, events out.

`ClientProtocol` and `BrokerProtocol` are the two ends; joined in memory they speak to each other.
"""

from parley.protocol.broker import BrokerProtocol
from parley.protocol.broker_login import BrokerSasl
from parley.protocol.client import ClientProtocol, ClientSettings
from parley.protocol.connection import Connection, State
from parley.protocol.events import (
    NEED_DATA,
    PAUSED,
    Authenticated,
    Closed,
    Event,
    Negotiated,
    NoEvent,
    RequestReceived,
    ResponseReceived,
)
from parley.protocol.negotiation import clean_software_name
from parley.protocol.policy import (
    BrokerPolicy,
    Close,
    Decision,
    Dialect,
    Respond,
    RespondBytes,
    Serve,
    ServeAll,
    Swallow,
    Translate,
    Translator,
)
from parley.protocol.throttle import CLIENT_THROTTLES_FROM, client_throttle_ms
from parley.protocol.work import Work

__all__ = [
    "CLIENT_THROTTLES_FROM",
    "NEED_DATA",
    "PAUSED",
    "Authenticated",
    "BrokerPolicy",
    "BrokerProtocol",
    "BrokerSasl",
    "ClientProtocol",
    "ClientSettings",
    "Close",
    "Closed",
    "Connection",
    "Decision",
    "Dialect",
    "Event",
    "Negotiated",
    "NoEvent",
    "RequestReceived",
    "Respond",
    "RespondBytes",
    "ResponseReceived",
    "Serve",
    "ServeAll",
    "State",
    "Swallow",
    "Translate",
    "Translator",
    "Work",
    "clean_software_name",
    "client_throttle_ms",
]
