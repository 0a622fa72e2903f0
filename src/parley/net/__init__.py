"""Input and output: streams, connections, servers, time.

`open_connection` gives a negotiated `BrokerConnection`, `Pool` shares them, `serve` is the broker's
side. `Backend` is the seam below (sockets, or `MemoryBackend`), `Clock` the one for waiting.
"""

from parley.net.address import Address, parse_address, parse_bootstrap
from parley.net.asyncio_backend import AsyncioBackend
from parley.net.clock import AdvancingClock, Clock, Deadline, LoopClock, ManualClock, TimerHandle
from parley.net.connection import BrokerConnection
from parley.net.memory_backend import Faults, MemoryBackend, MemoryStream, Way
from parley.net.opening import open_connection
from parley.net.options import SASL_MECHANISMS, SECURITY_PROTOCOLS, ConnectOptions
from parley.net.pool import MAIN_LANE, Pool
from parley.net.pool_plan import PoolPlan
from parley.net.reply import Reply
from parley.net.server import Server, ServerConnection, serve
from parley.net.server_settings import ServerSettings
from parley.net.stream import Backend, Listener, Receiver, Stream
from parley.net.verdicts import Verdict, Verdicts

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
    "Receiver",
    "Reply",
    "Server",
    "ServerConnection",
    "ServerSettings",
    "Stream",
    "TimerHandle",
    "Verdict",
    "Verdicts",
    "Way",
    "open_connection",
    "parse_address",
    "parse_bootstrap",
    "serve",
]
