"""The example of parley.testing.realbroker starts two real brokers."""

from __future__ import annotations

from ..examples import failures


def test_the_example_of_real_brokers_runs() -> None:
    assert failures("parley.testing.realbroker", "") == []
