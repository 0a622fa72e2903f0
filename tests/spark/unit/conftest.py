"""A planner that asks a cluster in a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .planning import FakeClient


@pytest.fixture(autouse=True)
def no_client_stays() -> Iterator[None]:
    """The client of a cluster that is gone would warn in the log of another test."""
    yield
    from parley.spark import clients

    while clients._clients:
        clients._clients.popitem()[1].close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """The cluster that planner and driver ask: topic "a" with two partitions."""
    from parley.spark.read import asking
    from parley.spark.stream import driver as stream_driver

    from .planning import A0, A1, OLD, FakeClient

    found = FakeClient({A0: (0, 10), A1: (0, 30)}, {"a": OLD})
    for module in (asking, stream_driver):
        monkeypatch.setattr(module, "client_for", lambda options: found)
    return found
