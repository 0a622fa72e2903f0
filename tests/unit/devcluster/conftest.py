"""Batches to append, as a producer would send them, and logs to append them to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster.state.log.batches import BatchFacts, read_facts, walk
from parley.devcluster.state.log.bytestore import MemoryStores
from parley.devcluster.state.log.log import Log
from parley.devcluster.state.log.replica import Prepared, Replica, ReplicaKey
from parley.records import (
    Record,
    WriteOptions,
    assign_offsets,
    columns_from_records,
    encode_batches,
)

TOPIC_ID = bytes(range(16))


def _produced(
    count: int = 1, *, size: int = 20, timestamp_ms: int = 1_000, **options: Any
) -> bytes:
    """Return one batch of `count` records, as a producer sends it: offsets from 0 on."""
    rows = [
        Record(i, timestamp_ms + i, 0, b"k%d" % i, bytes([65 + i % 26]) * size)
        for i in range(count)
    ]
    write = WriteOptions(**{"magic": 2, **options})
    return b"".join(
        bytes(b.data)
        for b in encode_batches(columns_from_records(rows, with_offsets=False), None, write)
    )


def _prepared(count: int = 1, **options: Any) -> Prepared:
    """Return a batch ready for `Replica.append`."""
    data = _produced(count, **options)
    facts = read_facts(data)
    assert facts is not None
    if facts.magic < 2:
        return Prepared(
            data, None, lambda base, epoch: bytes(assign_offsets(bytearray(data), base, epoch))
        )
    return Prepared(data, facts)


def _stored(
    base_offset: int, count: int = 1, *, leader_epoch: int = 0, **options: Any
) -> tuple[list[BatchFacts], bytes]:
    """Return the batches as a leader stores them: facts and bytes with their final offsets."""
    data = bytes(assign_offsets(bytearray(_produced(count, **options)), base_offset, leader_epoch))
    return [facts for _, facts in walk(data)], data


@pytest.fixture
def produced() -> Callable[..., bytes]:
    """Return the maker of a producer's batches."""
    return _produced


@pytest.fixture
def prepared() -> Callable[..., Prepared]:
    """Return the maker of batches that a leader may append."""
    return _prepared


@pytest.fixture
def stored() -> Callable[..., tuple[list[BatchFacts], bytes]]:
    """Return the maker of batches as they lie in a log."""
    return _stored


@pytest.fixture
def log() -> Log:
    """Return an empty log in memory."""
    return Log(MemoryStores())


@pytest.fixture
def make_replica() -> Callable[..., Replica]:
    """Return a maker of replicas of one partition."""

    def make(broker_id: int = 1) -> Replica:
        return Replica("t", ReplicaKey(TOPIC_ID, 0), broker_id, Log(MemoryStores()))

    return make
