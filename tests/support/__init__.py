"""What tests of every folder share: patience that a busy machine does not exhaust,
fixtures that last, members.
"""

from __future__ import annotations

from .members import Polling, evenly_shared, health_of
from .patience import GENEROUS_MS, GENEROUS_S, PATIENCE, eventually, eventually_async

__all__ = [
    "GENEROUS_MS",
    "GENEROUS_S",
    "PATIENCE",
    "Polling",
    "evenly_shared",
    "eventually",
    "eventually_async",
    "health_of",
]
