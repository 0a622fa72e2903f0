"""Which partitions the operations under way care about: outdated ones are asked for again."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator

from parley.client.cluster.metadata_cache import MetadataCache
from parley.types import TopicPartition


class Interests:
    """The partitions of all operations under way, joined into the metadata cache's interest."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._count: Counter[TopicPartition] = Counter()
        self._by_topic: dict[str, set[int]] = {}
        """The same, as the cache looks them up. It is the cache's too, unless all count."""
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
        for tp in partitions or ():
            self._count[tp] += by
            if not self._count[tp]:
                del self._count[tp]
                self._by_topic[tp.topic].discard(tp.partition)
                if not self._by_topic[tp.topic]:
                    del self._by_topic[tp.topic]
            elif self._count[tp] == by:
                self._by_topic.setdefault(tp.topic, set()).add(tp.partition)
        self._cache.share_interest(None if self._in_all else self._by_topic)
