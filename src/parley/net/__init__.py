"""Input and output: streams, connections, servers, time.

`open_connection` gives a negotiated `BrokerConnection`, `Pool` shares them, `serve` is the broker's
side. `Backend` is the interface below (sockets, or `MemoryBackend`), `Clock` the one for waiting.

Map: `stream` is what a network is; `asyncio_backend`, `asyncio_listener` and `memory_backend` stand
behind it, `clock` beside it. Clients: `opening` makes a `connection` (`login`, `tls`, `oauth`),
which gives a `reply`; `endings` is what is said when it is over. `pool` keeps them as `pool_plan`
says, `probe_outcomes` remembers addresses. Brokers: `server`, `server_connection`,
`server_settings`, `idle`. Registries: `http_client`, `http_server`. `address`, `options`,
`failures`, `work`, `shared`, `lines`; `blocking` makes blocking methods.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from parley.net.address import Address, parse_address, parse_bootstrap
from parley.net.asyncio_backend import AsyncioBackend
from parley.net.clock import AdvancingClock, Clock, Deadline, LoopClock, ManualClock, TimerHandle
from parley.net.connection import BrokerConnection
from parley.net.opening import open_connection
from parley.net.options import SASL_MECHANISMS, SECURITY_PROTOCOLS, ConnectOptions
from parley.net.pool import MAIN_LANE, Pool
from parley.net.pool_plan import PoolPlan
from parley.net.probe_outcomes import ProbeOutcome, ProbeOutcomes
from parley.net.reply import Reply
from parley.net.stream import Backend, Listener, Receiver, Stream

if TYPE_CHECKING:
    from parley.net.memory_backend import Faults, MemoryBackend, MemoryStream, Way
    from parley.net.server import Server, serve
    from parley.net.server_connection import ServerConnection
    from parley.net.server_settings import ServerSettings

__all__ = [
    "MAIN_LANE",
    "SASL_MECHANISMS",
    "SECURITY_PROTOCOLS",
    "Address",
    "AdvancingClock",
    "AsyncioBackend",
    "Backend",
    "BrokerConnection",
    "Clock",
    "ConnectOptions",
    "Deadline",
    "Faults",
    "Listener",
    "LoopClock",
    "ManualClock",
    "MemoryBackend",
    "MemoryStream",
    "Pool",
    "PoolPlan",
    "ProbeOutcome",
    "ProbeOutcomes",
    "Receiver",
    "Reply",
    "Server",
    "ServerConnection",
    "ServerSettings",
    "Stream",
    "TimerHandle",
    "Way",
    "open_connection",
    "parse_address",
    "parse_bootstrap",
    "serve",
]

_HOME = {
    "Faults": "parley.net.memory_backend",
    "MemoryBackend": "parley.net.memory_backend",
    "MemoryStream": "parley.net.memory_backend",
    "Way": "parley.net.memory_backend",
    "Server": "parley.net.server",
    "ServerConnection": "parley.net.server_connection",
    "serve": "parley.net.server",
    "ServerSettings": "parley.net.server_settings",
}
"""Where to find the broker's side and the network in memory: loaded when asked for. Clients never
need them, and each task of Spark pays for what it imports.
"""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
