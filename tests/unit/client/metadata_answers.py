"""Metadata answers about one topic, and caches that have seen one: for the
tests of the metadata rules.
"""

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.view import (
    MetadataUpdate,
    PartitionMetadata,
    TopicUpdate,
)
from parley.types import ZERO_UUID, Node, TopicPartition

ID_A, ID_B = b"a" * 16, b"b" * 16
NODES = {n: Node(n, "127.0.0.1", 9090 + n) for n in (1, 2, 3)}
TP0, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)


def answer(
    epochs,
    *,
    leaders=None,
    topic_id=ZERO_UUID,
    version=12,
    nodes=NODES,
    error=0,
    name="t",
    errors=None,
    **part,
):
    """An answer about one topic; `epochs` maps partitions to leader epochs."""
    partitions = tuple(
        PartitionMetadata(
            index,
            (leaders or {}).get(index, 1),
            epoch,
            (1, 2, 3),
            (1, 2, 3),
            error_code=(errors or {}).get(index, 0),
            **part,
        )
        for index, epoch in epochs.items()
    )
    return MetadataUpdate(
        version, nodes, (TopicUpdate(name, error, topic_id, False, partitions),), 1, "cluster"
    )


def cache_with(epochs, **kwargs):
    cache = MetadataCache()
    cache.apply(answer(epochs, **kwargs), full=True)
    return cache
