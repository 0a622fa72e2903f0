"""A cluster's state without sockets and clocks, for tests of what coordinators write and read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.settings import ClusterSettings


class DrivenState:
    """A cluster's state of three brokers and a topic of two partitions, driven by hand."""

    OFFSETS_PARTITIONS: ClassVar[int] = 5
    REPLICAS: ClassVar[Sequence[list[int]]] = ([1, 2, 3], [2, 3, 1])

    def __init__(self, directory: Path | None = None, first_id: int = 1) -> None:
        ids = itertools.count(first_id)
        self.state = ClusterState(
            cluster_id="c",
            new_topic_id=lambda: next(ids).to_bytes(16, "big"),
            check_crc=lambda batch: True,
            directory=directory,
            settings=ClusterSettings(offsets_topic_num_partitions=self.OFFSETS_PARTITIONS),
        )
        self.up(*(self.state.make_broker(broker_id) for broker_id in (1, 2, 3)))
        if "t" not in self.state.image.topics:
            self.state.create_topic("t", list(self.REPLICAS), {}, now_ms=0)

    def up(self, *brokers: BrokerState) -> None:
        images = {one: BrokerImage(one.id, "localhost", 9000 + one.id) for one in brokers}
        self.state.brokers_up(images, now_ms=0)

    def kill(self, directory: Path) -> Self:
        """Drop everything as kill -9 does, and begin again."""
        for broker in self.state.replication.brokers.values():
            broker.close()
        assert self.state.keeper.journal is not None
        self.state.keeper.journal.close()
        return type(self)(directory, first_id=1_000)
