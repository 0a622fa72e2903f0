"""Members of groups against every release; the outcomes are rows of docs/compatibility.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pyarrow as pa
import pytest

from parley.client import Client, NewTopic, ProduceOptions
from parley.errors import UnsupportedVersionError
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple

from ..support import evenly_shared, eventually_async, health_of
from .compat.document import MEMBERS
from .test_group_members_real import member

pytestmark = pytest.mark.matrix
RECORDS = 10


def written(broker: RealCluster, release: str, topic: str) -> int:
    """Write records into a new topic, some into each partition; return how many those are."""
    partitions = 3 if version_tuple(release) >= (0, 10, 1) else 1  # CreateTopics came with 0.10.1
    with Client(bootstrap_servers=broker.bootstrap_servers) as client:
        if partitions > 1:
            client.create_topics([NewTopic(topic, num_partitions=partitions)])
        for index in range(partitions):
            rows = pa.table({"value": [b"x"] * RECORDS})
            made = ProduceOptions(allow_auto_create_topics=partitions == 1)
            client.produce(topic, rows, index, options=made)
    return partitions


@pytest.mark.parametrize("how", MEMBERS)
async def test_two_members_share_and_one_takes_over(
    real_broker: RealCluster,
    real_release: str,
    how: str,
    topic_name: str,
    compatibility: Callable[[str, str, str], None],
) -> None:
    """Each record is read once. Before 4.0 members by KIP-848 are refused."""
    version, options = version_tuple(real_release), dict(MEMBERS[how])
    partitions = await asyncio.to_thread(written, real_broker, real_release, topic_name)
    if how == "consumer" and version < (4, 0):
        with pytest.raises(UnsupportedVersionError, match="nothing was sent"):
            async with member(real_broker, topic_name, **options) as refused:
                await eventually_async(lambda: refused.owned)
        compatibility(f"members {how}", real_release, "refused")
        return
    async with member(real_broker, topic_name, **options) as first:
        await eventually_async(lambda: first.read.total() == RECORDS * partitions)
        async with member(real_broker, topic_name, **options) as second:
            # one partition is evenly shared before the second has joined, and a member that closes
            # in the middle of a rebalance cannot commit
            await eventually_async(
                lambda: {health_of(one.consumer).state for one in (first, second)} == {"stable"}
            )
            await evenly_shared(partitions, first, second)
            await first.stop()
            await first.consumer.close()
            await evenly_shared(partitions, second)
            more = pa.table({"value": [b"x"]})
            with Client(bootstrap_servers=real_broker.bootstrap_servers) as client:
                for index in range(partitions):
                    await asyncio.to_thread(client.produce, topic_name, more, index)
            total = (RECORDS + 1) * partitions
            await eventually_async(lambda: (first.read + second.read).total() == total)
    assert set((first.read + second.read).values()) == {1}
    compatibility(f"members {how}", real_release, "works")
