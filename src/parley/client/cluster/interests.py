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
        self._of: dict[object, frozenset[TopicPartition] | None] = {}

    @contextlib.contextmanager
    def add(self, partitions: Iterable[TopicPartition] | None) -> Iterator[None]:
        """Count these partitions (None: all) while the block runs."""
        token = object()
        try:
            self._of[token] = None if partitions is None else frozenset(partitions)
            self._join()
            yield
        finally:
            self._of.pop(token, None)
            self._join()

    def _join(self) -> None:
        if any(found is None for found in self._of.values()):
            self._cache.set_interest(None)
        else:
            self._cache.set_interest(
                frozenset().union(*(found or () for found in self._of.values()))
            )
