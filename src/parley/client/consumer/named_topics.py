"""The topics that a consumer subscribed to by name: whether they are there, and may be read.

1. A topic that no broker knows is logged once: it is read when it is there, but its name may be
   misspelt.
2. A topic that the user may not read is raised by the next poll, once for each answer of a broker
   that says so, as Java's consumers do. The membership goes on.
3. Topics that a pattern found are no affair of this: a pattern matches what the user may see.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from parley.client.cluster.core import Cluster
from parley.client.cluster.wanted_topics import UNKNOWN_TOPIC_GRACE_MS
from parley.errors import KafkaError, broker_error
from parley.errors.codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from parley.net import TimerHandle

log = logging.getLogger("parley.client")


class NamedTopics:
    """Looks at metadata for one member; `on_news` lets a poll that waits look again."""

    def __init__(self, cluster: Cluster, group_id: str, on_news: Callable[[], None]) -> None:
        self._cluster, self._group_id, self._on_news = cluster, group_id, on_news
        self._topics: list[str] = []
        self._warning: TimerHandle | None = None
        self.error: KafkaError | None = None
        """What the next poll raises."""

    def watch(self, topics: Collection[str]) -> None:
        """Look at these topics from now on."""
        self.stop()
        self._topics = sorted(topics)
        self._cluster.metadata_listeners.add(self._look)
        if self._with(TOPIC_AUTHORIZATION_FAILED):  # an old answer, of another subscription
            self._cluster.schedule.request_full()
        self._warning = self._cluster.clock.call_at_ms(
            self._cluster.now_ms() + UNKNOWN_TOPIC_GRACE_MS, self._warn_of_missing
        )

    def stop(self) -> None:
        """Look at nothing any more."""
        self._cluster.metadata_listeners.discard(self._look)
        if self._warning is not None:
            self._warning.cancel()
        self._warning = self.error = None

    def take_error(self) -> KafkaError | None:
        """Return what a poll is to raise, which is over by that."""
        error, self.error = self.error, None
        return error

    def _look(self) -> None:
        if refused := self._with(TOPIC_AUTHORIZATION_FAILED):
            self.error = self._refusal(refused)
            self._on_news()

    def _with(self, code: int) -> list[str]:
        return [one for one in self._topics if self._cluster.cache.topic_error(one) == code]

    def _refusal(self, topics: list[str]) -> KafkaError:
        text = f"group {self._group_id} subscribes to {', '.join(topics)}"
        return broker_error(TOPIC_AUTHORIZATION_FAILED, text, topic=topics[0], api="METADATA")

    def _warn_of_missing(self) -> None:
        if missing := self._with(UNKNOWN_TOPIC_OR_PARTITION):
            log.warning(
                "group %s: no broker knows %s: it is read once it is there; check the name",
                self._group_id,
                ", ".join(missing),
            )
