"""Leaders move, brokers stop, die and come back as other releases, answers
are lost: nothing else is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster import LocalCluster

TOPIC, PARTITIONS, ROUNDS, EACH = "events", 6, 40, 300
RELEASES = ("2.4", "2.8", "3.7", "3.9", "4.0", "4.3")

pytestmark = pytest.mark.foreign


class Account:
    """What was acknowledged, and what is there."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[str] = []

    def delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        place = (message.partition(), message.offset())
        assert place not in self.acknowledged, f"two records acknowledged at {place}"
        self.acknowledged[place] = message.value()


@pytest.fixture(params=["memory", "disk"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    place = tmp_path / "data" if request.param == "disk" else None
    with LocalCluster(releases={1: "2.4", 2: "3.9", 3: "4.3"}, data_dir=place) as running:
        running.create_topic(TOPIC, PARTITIONS)
        yield running


def disturb(cluster: LocalCluster, rng: random.Random) -> None:
    """Do one thing that a client must survive."""
    match rng.randrange(4):
        case 0 | 1:
            cluster.move_leader(TOPIC, rng.randrange(PARTITIONS), rng.randint(1, 3))
        case 2:
            broker = cluster.broker(rng.randint(1, 3))
            if rng.random() < 0.5:
                broker.stop()
            else:
                broker.kill()
            broker.start(rng.choice(RELEASES))
        case _:
            cluster.faults.cut("Produce", executed=rng.random() < 0.5)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_idempotent_producer_loses_repeats_and_reorders_nothing(
    cluster: LocalCluster, seed: int
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    rng, account = random.Random(seed), Account()
    patience = {
        "retry.backoff.ms": 10,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 1,
            **patience,
        }
    )
    for number in range(ROUNDS * EACH):
        producer.produce(
            TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=account.delivered
        )
        producer.poll(0)
        if number % EACH == EACH // 2:
            disturb(cluster, rng)
    assert producer.flush(60) == 0
    assert account.failures == []
    assert len(account.acknowledged) == ROUNDS * EACH

    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "check", **patience}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    while len(found) < len(account.acknowledged):
        messages = consumer.consume(1_000, 20)
        assert messages, f"{len(found)} of {len(account.acknowledged)} records came"
        for message in messages:
            assert message.error() is None
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    assert found == account.acknowledged, "each acknowledged record is where the answer said"
    for index in range(PARTITIONS):
        values = [
            int(value) for (partition, _), value in sorted(found.items()) if partition == index
        ]
        assert values == sorted(values), f"partition {index} is out of order"
    check_replicas_agree(cluster)


def check_replicas_agree(cluster: LocalCluster) -> None:
    logs: dict[tuple[str, int], set[bytes]] = {}
    for broker in cluster._cluster.state.replication.brokers.values():
        for key, replica in broker.replicas.items():
            content = b"".join(bytes(data) for _, data in replica.log.batches_from(0))
            logs.setdefault((replica.topic, key.partition), set()).add(content)
    assert {(TOPIC, index) for index in range(PARTITIONS)} <= logs.keys()
    assert [place for place, contents in logs.items() if len(contents) > 1] == []
