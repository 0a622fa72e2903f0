"""C1 to C3 on real brokers: writer and reader go on while brokers are killed, restarted and stand
   still.

Three brokers beside a controller of its own, every partition on all of them, min.insync.replicas=2:
the account of an idempotent writer is perfect. One release in `make test`, and with more turns
another one in the longer suites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley import Client, NewTopic
from parley.messages import request_class
from parley.schema import ApiKey
from parley.testing.delivery import Load
from parley.testing.realbroker import RealCluster
from parley_laboratory.wire import Wire

Metadata: Any = request_class(ApiKey.METADATA)
PARTITIONS = 4
QUICK = {
    "zookeeper.session.timeout.ms": "4000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}
PATIENT = {"request_timeout_ms": 3_000, "default_api_timeout_ms": 120_000}
"""A broker that stands still is given up after three seconds."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


class Brokers:
    """Three real brokers; `turns` says how often each kind of trouble comes."""

    def __init__(self, cluster: RealCluster, turns: int) -> None:
        self.cluster, self.turns = cluster, turns
        self.ids = sorted(i for i, node in cluster.nodes.items() if "broker" in node.roles)

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition, as one that runs reports it; one of
        its replicas if none does.
        """
        running = next(
            node for node in self.cluster.nodes.values() if node.running and "broker" in node.roles
        )
        with Wire(running.address) as wire:
            asked = Metadata(
                topics=[Metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            )
            found = wire.ask(asked, 9).topics[0].partitions[partition]
        return int(found.leader_id) if found.leader_id in self.ids else int(found.replica_nodes[0])

    def deliver(self, topic: str, trouble: Callable[[Load], None]) -> None:
        """Write and read through the trouble, and require a perfect account."""
        with Client(bootstrap_servers=self.cluster.bootstrap_servers) as client:
            client.create_topics(
                [NewTopic(topic, PARTITIONS, 3, configs={"min.insync.replicas": "2"})]
            )
        load = Load(self.cluster.bootstrap_servers, topic, PARTITIONS, client_options=PATIENT)
        account = load.run(trouble)
        assert account.perfect, str(account)
        assert account.acknowledged == load.sent > 0
        assert not account.unconfirmed, str(account)


@pytest.fixture(
    scope="module",
    params=[("3.9.1", 1), pytest.param(("4.3.0", 5), marks=pytest.mark.long)],
    ids=str,
)
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    release, turns = request.param
    with RealCluster(release, brokers=3, properties=QUICK, separate_controller=True) as cluster:
        yield Brokers(cluster, turns)


@pytest.mark.kills
def test_c01_leaders_of_real_brokers_are_killed_and_come_back(
    brokers: Brokers, topic_name: str
) -> None:
    def trouble(load: Load) -> None:
        for turn in range(brokers.turns):
            load.go_on()
            leader = brokers.leader(topic_name, turn % PARTITIONS)
            brokers.cluster.kill(leader)
            load.go_on()
            brokers.cluster.start_broker(leader)
        load.go_on()

    brokers.deliver(topic_name, trouble)


@pytest.mark.kills
def test_c02_real_brokers_restart_one_after_the_other(brokers: Brokers, topic_name: str) -> None:
    def trouble(load: Load) -> None:
        for broker_id in brokers.ids * min(brokers.turns, 3):
            load.go_on()
            brokers.cluster.stop_broker(broker_id)
            brokers.cluster.start_broker(broker_id)
        load.go_on()

    brokers.deliver(topic_name, trouble)


@pytest.mark.kills
def test_c03_a_real_broker_that_stands_still_is_found_out(
    brokers: Brokers, topic_name: str
) -> None:
    """SIGSTOP: connections stay, nothing is answered. The others elect new leaders meanwhile."""

    def trouble(load: Load) -> None:
        for turn in range(brokers.turns):
            load.go_on()
            leader = brokers.leader(topic_name, turn % PARTITIONS)
            brokers.cluster.pause(leader)
            try:
                load.go_on()
            finally:
                brokers.cluster.resume(leader)
        load.go_on()

    brokers.deliver(topic_name, trouble)
