"""Clients of scripted brokers: impatient ones, one read and one write by them, and
brokers that name the leader.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest

from parley.client import AsyncClient, FetchOptions, ProduceOptions, TopicPartition
from parley.messages import FetchResponse, ProduceResponse
from parley.schema import ApiKey

from ..support import GENEROUS_MS
from .scripted import Scripted

TP = TopicPartition("t", 0)
NEVER_MS = 10 * GENEROUS_MS
"""A backoff that no test would survive: what does not wait for it went at once."""
QUICK = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "default_api_timeout_ms": GENEROUS_MS,
    "request_timeout_ms": GENEROUS_MS,
}
SHORT = {"default_api_timeout_ms": 800, "request_timeout_ms": 600}
"""For calls that end because their time is over; produce takes PLAIN_AND_SHORT."""
PATIENT = {"retry_backoff_ms": NEVER_MS, "retry_backoff_max_ms": NEVER_MS}
FAST = FetchOptions(fetch_max_wait_ms=1)
PLAIN = ProduceOptions(enable_idempotence=False, acks="1", delivery_timeout_ms=GENEROUS_MS)
PLAIN_AND_SHORT = PLAIN.replace(delivery_timeout_ms=800)
ROWS = pa.table({"value": ["x"]})

both = pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.FETCH], ids=["produce", "fetch"])


def client_of(cluster: Scripted, **options: Any) -> AsyncClient:
    """Return a client that tries again soon, and gives up only where a test says when."""
    return AsyncClient(bootstrap_servers=cluster.bootstrap_servers, **{**QUICK, **options})


async def read(
    client: AsyncClient, start: int = 0, end: int = 10, options: FetchOptions = FAST
) -> list[int]:
    """Return the values of a range, which a script's batches have equal to their offsets."""
    found: list[int] = []
    async with aclosing(client.fetch(TP, start, end, options)) as batches:
        async for part in batches:
            found += [int(value) for value in part.column("value").to_pylist()]
    return found


async def write(client: AsyncClient, options: ProduceOptions = PLAIN) -> int:
    """Write one record; return how many were acknowledged."""
    return (await client.produce("t", ROWS, 0, options)).records


async def work(client: AsyncClient, api: ApiKey, options: ProduceOptions = PLAIN) -> None:
    """Write one record, or read ten."""
    if api is ApiKey.PRODUCE:
        assert await write(client, options) == 1
    else:
        assert await read(client) == list(range(10))


def good(cluster: Scripted, api: ApiKey) -> Any:
    """Return a leader's answer."""
    return cluster.produced() if api is ApiKey.PRODUCE else cluster.fetched(cluster.log)


def refusal(
    cluster: Scripted,
    api: ApiKey,
    leader: int,
    epoch: int,
    nodes: list[tuple[int, int]],
    code: int = 6,
) -> Any:
    """Return an answer: not the leader, `leader` at `epoch` is. `nodes` are (id,
    broker whose address it gets).
    """
    kind = ProduceResponse if api is ApiKey.PRODUCE else FetchResponse
    known = {i: (host, port) for i, host, port in cluster.nodes()}
    hint = kind.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    endpoints = [
        kind.NodeEndpoint(node_id=i, host=known[at][0], port=known[at][1]) for i, at in nodes
    ]
    if api is ApiKey.FETCH:
        return cluster.fetched(None, error_code=code, current_leader=hint, node_endpoints=endpoints)
    answer = cluster.produced(error_code=code, current_leader=hint)
    answer.node_endpoints = endpoints
    return answer


def only_leader(cluster: Scripted, api: ApiKey, leader: int) -> None:
    """Let this broker serve, and every other one say that it does not lead, naming nobody."""
    for broker in range(1, cluster.brokers + 1):
        serves = (
            (lambda _: good(cluster, api))
            if broker == leader
            else (lambda _: refusal(cluster, api, -1, -1, []))
        )
        cluster.answers[broker, api] = serves
