"""What every connection of a server has in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.frames import DEFAULT_MAX_FRAME_BYTES
from parley.net.clock import Clock, LoopClock
from parley.protocol import BrokerSasl


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What every connection of a server has in common."""

    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    sasl: BrokerSasl | None = None
    clock: Clock = field(default_factory=LoopClock)
    idle_timeout_ms: int = 0
    """connections.max.idle.ms; 0 lets connections last."""
    max_unsent_bytes: int = 64 * 1024 * 1024
    """How much may wait for a client that does not read; one more answer ends its connection."""
