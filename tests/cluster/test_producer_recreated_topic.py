"""A topic deleted and created again under a producer: it heals without an
error, and its order stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import EARLIEST, LATEST, Client, ProduceOptions, TopicPartition, TopicRecreated
from parley.devcluster import LocalCluster

from ..support import GENEROUS_MS, GENEROUS_S

RELEASES = ["0.11.0", "1.0", "2.4", "2.8", "3.9", "4.3"]
MIXED = {1: "2.4", 2: "3.9", 3: "4.3"}
OPTIONS = ProduceOptions(delivery_timeout_ms=GENEROUS_MS, batch_size=500)

QUICK = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 100}


@pytest.fixture
def start() -> Iterator[Callable[[str], LocalCluster]]:
    running: list[LocalCluster] = []

    def begin(release: str) -> LocalCluster:
        mixed = MIXED if release == "mixed" else None
        cluster = LocalCluster(brokers=3, release="4.3" if mixed else release, releases=mixed)
        running.append(cluster)
        cluster.__enter__()
        cluster.create_topic("t", partitions=2, replication_factor=3)
        return cluster

    yield begin
    for cluster in running:
        cluster.__exit__(None, None, None)


def rows(start: int, count: int = 50) -> pa.Table:
    return pa.table({"value": [str(i) for i in range(start, start + count)]})


def values(client: Client, partition: int) -> list[int]:
    batches = client.fetch(TopicPartition("t", partition), EARLIEST, LATEST)
    return [int(value) for batch in batches for value in batch["value"].to_pylist()]


@pytest.mark.parametrize("release", [*RELEASES, "mixed"])
def test_the_producer_goes_on_in_the_new_topic_without_an_error(
    start: Callable[[str], LocalCluster], release: str
) -> None:
    cluster = start(release)
    with Client(bootstrap_servers=cluster.bootstrap_servers, **QUICK) as client:
        for turn in range(4):
            for call in range(3):
                for partition in (0, 1):
                    client.produce("t", rows(call * 50), partition, OPTIONS)
            assert values(client, 0) == values(client, 1) == list(range(150))
            cluster.scenes.recreate_topic("t")
            if turn == 2:
                cluster.move_leader("t", 0, 2)
        client.produce("t", rows(7), 0, OPTIONS)
        assert values(client, 0) == list(range(7, 57))


@pytest.mark.parametrize("release", ["3.9", "4.3"])
def test_sequences_start_over_for_the_new_topic_and_the_application_is_reported(
    release: str,
) -> None:
    heard: list[object] = []
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers, on_event=heard.append) as client:
            for _ in range(3):
                client.produce("t", rows(0), 0, OPTIONS)
            cluster.scenes.recreate_topic("t")
            client.metadata(["t"])
            client.produce("t", rows(0), 0, OPTIONS)
            (state,) = _producers(cluster)
            assert (state.epoch, state.batches[0].base_sequence) == (1, 0)
        assert heard == [TopicRecreated("t")]


def _producers(cluster: LocalCluster) -> list[Any]:
    state = cluster._cluster.state
    broker = cluster._cluster.broker(1).state
    image = state.image.topics["t"]
    (replica,) = [found for key, found in broker.replicas.items() if key.topic_id == image.topic_id]
    return replica.producers.states()


@pytest.mark.parametrize("release", ["2.4", "2.8", "4.3", "mixed"])
def test_re_created_again_and_again_under_load(
    start: Callable[[str], LocalCluster], release: str
) -> None:
    """What is acknowledged after the last re-creation is there, once and in
    order; nothing raises.
    """
    cluster = start(release)
    stop, errors, sent = threading.Event(), [], threading.Semaphore(0)
    written = [0, 0]

    def write(partition: int) -> None:
        with Client(bootstrap_servers=cluster.bootstrap_servers, **QUICK) as client:
            try:
                while not stop.is_set():
                    client.produce("t", rows(written[partition], 200), partition, OPTIONS)
                    written[partition] += 200
                    sent.release()
            except BaseException as error:
                errors.append(error)
                sent.release()

    writers = [threading.Thread(target=write, args=(partition,)) for partition in (0, 1)]
    for writer in writers:
        writer.start()
    for turn in range(6):
        for _ in range(4):
            assert sent.acquire(timeout=GENEROUS_S)
        if turn % 3 == 2:
            cluster.move_leader("t", turn % 2, turn % 3 + 1)
        else:
            cluster.scenes.recreate_topic("t")
    for _ in range(8):
        assert sent.acquire(timeout=GENEROUS_S)
    stop.set()
    for writer in writers:
        writer.join(GENEROUS_S)
    assert not errors
    with Client(bootstrap_servers=cluster.bootstrap_servers, **QUICK) as client:
        for partition in (0, 1):
            found = values(client, partition)
            assert found == list(range(written[partition] - len(found), written[partition]))
            assert found
