"""From rows to batches that may wait: how long each may take."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from parley.client.options import ClientOptions, ProduceOptions
from parley.client.produce_rows import TopicPlan
from parley.client.producer import Producer


def test_rows_that_an_iterator_gives_later_have_their_whole_time() -> None:
    now = [1000]
    cluster = SimpleNamespace(now_ms=lambda: now[0], dice=lambda: 0.5, options=ClientOptions())
    producer = Producer(cluster)  # type: ignore[arg-type]  # encoding asks a cluster for no more than this
    options = ProduceOptions(delivery_timeout_ms=5000, enable_idempotence=False)
    writing, plan = producer.begin("t", None, options), TopicPlan("t", 1, (0,), {0: 2})
    rows = pa.record_batch({"value": [b"a"]})
    assert [batch.deadline_ms for batch in producer.encode(writing, plan, rows)] == [6000]
    now[0] += 3_600_000
    assert [batch.deadline_ms for batch in producer.encode(writing, plan, rows)] == [3_606_000]
