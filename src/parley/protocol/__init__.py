"""The state of one connection, without input or output: bytes in, events out.

`ClientProtocol` and `BrokerProtocol` are the two ends; joined in memory they speak to each other.

Map: `connection` is what both ends share, over `events`, `inflight` and `work`. The client's:
`client` and its `client_settings`, `negotiation`, `login`, `held_back`, `answers`. The broker's:
`broker`, `broker_login`, `policy`, `throttle`. `sasl` has the mechanisms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from parley.protocol.client import ClientProtocol
from parley.protocol.client_settings import ClientSettings
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
from parley.protocol.throttle import CLIENT_THROTTLES_FROM, client_throttle_ms
from parley.protocol.work import Work

if TYPE_CHECKING:
    from parley.protocol.broker import BrokerProtocol
    from parley.protocol.broker_login import BrokerSasl
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

_HOME = {
    "BrokerProtocol": "parley.protocol.broker",
    "BrokerSasl": "parley.protocol.broker_login",
    "BrokerPolicy": "parley.protocol.policy",
    "Close": "parley.protocol.policy",
    "Decision": "parley.protocol.policy",
    "Dialect": "parley.protocol.policy",
    "Respond": "parley.protocol.policy",
    "RespondBytes": "parley.protocol.policy",
    "Serve": "parley.protocol.policy",
    "ServeAll": "parley.protocol.policy",
    "Swallow": "parley.protocol.policy",
    "Translate": "parley.protocol.policy",
    "Translator": "parley.protocol.policy",
}
"""Where to find the broker's half: loaded when asked for. Clients never need it, and each task of
Spark pays for what it imports.
"""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
