"""Brokers' refusals as errors for whoever drives the cluster from this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parley.devcluster.state.refused import Refused
from parley.errors import ConfigError


@contextmanager
def refusals() -> Iterator[None]:
    """Raise ConfigError, with the broker's own text, for what it refuses inside."""
    try:
        yield
    except Refused as error:
        raise ConfigError(error.message) from error
