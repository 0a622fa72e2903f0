"""Test helpers: the pytest plugin, an account of deliveries, real brokers; the rest is for parley's own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.testing.realbroker import RealCluster as RealCluster

__all__ = ["RealCluster"]


def __getattr__(name: str) -> Any:
    if name == "RealCluster":  # lazily: the pytest plugin imports this package in every test run
        from parley.testing.realbroker import RealCluster

        return RealCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
