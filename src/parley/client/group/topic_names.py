"""The names of topics that a coordinator gives by their ids (G51), as metadata has them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from parley.client.cluster.core import Cluster
from parley.client.cluster.view import ClusterMetadata
from parley.types import ZERO_UUID

Names = Callable[[bytes], str | None]
"""The name of a topic by its id, None while metadata does not have it."""


class Assigned(Protocol):
    """A membership that was given partitions by the ids of their topics."""

    unresolved: bool
    """Whether some of them have no name yet."""

    @property
    def topics(self) -> Collection[str] | None:
        """The topics subscribed to."""

    def resolve(self, names: Names) -> None:
        """Take the names that are known."""


class TopicNames:
    """What one member knows of them. Belongs to the event loop."""

    def __init__(self, cluster: Cluster, membership: Assigned) -> None:
        self._cluster, self._membership = cluster, membership
        self._looked_at: ClusterMetadata | None = None
        self._names: dict[bytes, str] = {}

    async def resolve(self) -> None:
        """Have the membership take names; metadata that lacks some is asked for."""
        cluster, membership = self._cluster, self._membership
        membership.resolve(self._name)
        if membership.unresolved:
            cluster.schedule.want(membership.topics or ())
            cluster.schedule.request_full()
            deadline = cluster.deadline(cluster.options.request_timeout_ms)
            await cluster.refresh_quietly(deadline)
            membership.resolve(self._name)

    def look_again(self) -> None:
        """Have it take the rest, where metadata has changed since."""
        if self._membership.unresolved and self._cluster.view is not self._looked_at:
            self._membership.resolve(self._name)

    def _name(self, topic_id: bytes) -> str | None:
        view = self._cluster.view
        if view is not self._looked_at:
            self._looked_at = view
            topics = view.topics.values()
            self._names = {one.topic_id: one.name for one in topics if one.topic_id != ZERO_UUID}
        return self._names.get(topic_id)
