"""Which partitions the operations under way care about: outdated ones are asked for again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from parley.client.cluster.metadata_cache import MetadataCache
from parley.types import TopicPartition


class Interests:
    """The partitions of all operations under way, joined into the metadata cache's interest."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._count: dict[str, dict[int, int]] = {}
        """Topic → partition → how many operations care. The cache looks partitions up in it, unless
        all count.
        """
        self._in_all = 0
        """Operations that care about every partition."""

    @contextlib.contextmanager
    def add(self, partitions: Iterable[TopicPartition] | None) -> Iterator[None]:
        """Count these partitions (None: all) while the block runs."""
        found = None if partitions is None else frozenset(partitions)
        self._change(found, 1)
        try:
            yield
        finally:
            self._change(found, -1)

    def _change(self, partitions: frozenset[TopicPartition] | None, by: int) -> None:
        """Count up or down; work for these partitions only, however many others there are."""
        if partitions is None:
            self._in_all += by
        for topic, index in partitions or ():
            of_topic = self._count.get(topic)
            if of_topic is None:
                of_topic = self._count[topic] = {}
            count = of_topic.get(index, 0) + by
            if count:
                of_topic[index] = count
            else:
                del of_topic[index]
                if not of_topic:
                    del self._count[topic]
        self._cache.share_interest(None if self._in_all else self._count)
