"""The exactly-once sink's driver and tasks against real brokers: the scenes of the
embedded cluster, as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.client import Client, NewTopic
from parley.testing.realbroker import RealCluster

from ..spark.write import scenes
from ..spark.write.sinks import Sink


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("release", ["0.11.0.3", "2.4.1", "3.9.1", "4.3.0"])
def test_c15(
    scene: Callable[[Sink], None],
    release: str,
    real_cluster: Callable[[str], RealCluster],
    topic_name: str,
) -> None:
    with Client(bootstrap_servers=real_cluster(release).bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name, num_partitions=3)])
        scene(Sink(client, topic_name, prefix=f"q{topic_name[-8:]}"))


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.4.1", "3.9.1", "4.3.0"])
def test_c15_the_coordinators_log_has_three_replicas(release: str) -> None:
    """What one broker does at once takes three of them a moment, and a
    coordinator does not wait forever.
    """
    properties = {
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
    with (
        RealCluster(
            release, brokers=3, properties=properties, separate_controller=release >= "3.3"
        ) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        client.create_topics([NewTopic("t", num_partitions=3, replication_factor=3)])
        for number in range(3):
            sink = Sink(client, "t", prefix=f"q{number}")
            sink.run(sink.driver(), 0, [[f"a{number}"], [f"b{number}"]])
        assert sink.committed() == sorted(
            f"{letter}{number}" for letter in "ab" for number in range(3)
        )
