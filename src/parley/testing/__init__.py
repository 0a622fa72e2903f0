"""Test helpers: the pytest plugin, an account of deliveries, real brokers; and parley's own.

This file is installed with `kafka-parley`, the rest of the package with its extra `cluster`.

Map: `pytest_plugin`, `delivery`, `realbroker`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.testing.realbroker import RealCluster as RealCluster

if find_spec("parley.testing.pytest_plugin") is None:
    from parley.errors import NotInstalledError

    raise NotInstalledError(__name__, "cluster")

__all__ = ["RealCluster"]


def __getattr__(name: str) -> object:
    if name == "RealCluster":  # lazily: the pytest plugin imports this package in every test run
        from parley.testing.realbroker import RealCluster

        return RealCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
