"""The exactly-once sink's driver and tasks against real brokers: the scenes of the embedded cluster, as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.client import BlockingClient, NewTopic
from parley.testing.realbroker import RealCluster

from ..spark.write import scenes
from ..spark.write.sinks import Sink


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("release", ["0.11.0.3", "2.4.1", "3.9.1", "4.3.0"])
def test_c15(
    scene: Callable[[Sink], None], release: str, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> None:
    with BlockingClient(bootstrap_servers=real_cluster(release).bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name, num_partitions=3)])
        scene(Sink(client, topic_name, prefix=f"q{topic_name[-8:]}"))
