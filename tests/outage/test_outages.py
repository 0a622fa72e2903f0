"""The scenes of the outage table that need no Spark; those with Spark are `make test-outages`."""

from __future__ import annotations

import argparse

import pytest

from .run import BROKERS, PARLEY, measure


@pytest.mark.parametrize(
    "seconds",
    [
        0.5,
        5.0,
        pytest.param(30.0, marks=pytest.mark.long),
        pytest.param(120.0, marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(600)
def test_client_consumer_and_producer_outlive_all_brokers(seconds: float) -> None:
    chosen = argparse.Namespace(
        seconds=(seconds,), brokers=(BROKERS,), without_spark=True, spark_python=None, write=None
    )
    ((_, row),) = measure(chosen).items()
    assert row[PARLEY, "consumer"].startswith("goes on")
    for work in ("client", "producer"):
        assert row[PARLEY, work].startswith("goes on" if seconds < 60 else "fails after"), row
