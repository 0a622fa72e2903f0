"""What tests of every folder share: patience that a busy machine does not exhaust, and fixtures that last."""

from __future__ import annotations

from .patience import GENEROUS_MS, GENEROUS_S, PATIENCE, eventually, eventually_async

__all__ = ["GENEROUS_MS", "GENEROUS_S", "PATIENCE", "eventually", "eventually_async"]
