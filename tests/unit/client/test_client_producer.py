"""From rows to batches that may wait: how long each may take."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from parley.client.options.client_options import ClientOptions, ProduceOptions
from parley.client.produce.producer import Producer
from parley.client.produce.rows import TopicPlan


async def test_rows_that_an_iterator_gives_later_have_their_whole_time() -> None:
    now = [1000]
    topic = SimpleNamespace(partitions={0: None})
    view = SimpleNamespace(topics={"t": topic})
    cluster = SimpleNamespace(
        now_ms=lambda: now[0], rng=lambda: 0.5, options=ClientOptions(), view=view
    )
    producer = Producer(cluster)  # type: ignore[arg-type]  # a known topic asks a cluster for no more than this
    producer.plans._plans["t"] = TopicPlan("t", 1, (0,), {0: 2})
    writing = producer.begin(
        "t", None, ProduceOptions(delivery_timeout_ms=5000, enable_idempotence=False)
    )
    rows = pa.record_batch({"value": [b"a"]})
    for later in (0, 3_600_000):
        now[0] = 1000 + later
        plan = await producer._prepare(writing, "t", -1)
        assert [batch.deadline_ms for batch in producer.encode(writing, plan, rows)] == [
            6000 + later
        ]
