"""What a group's member wants of the consumer that it is part of."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from parley.client.consumer.commits import Offsets
from parley.types import TopicPartition


class Reader(Protocol):
    """What a group's member does with its partitions: the consumer's other half."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions being read."""

    def read(
        self, partitions: Collection[TopicPartition], held: Collection[TopicPartition] = ()
    ) -> None:
        """Read these partitions and no others; those read before keep their positions and what was
        fetched. Those of `held` are not fetched before `release`.
        """

    def release(self) -> None:
        """Fetch the partitions that `read` held back."""

    def consumed(self) -> Offsets:
        """Return the positions behind what was handed out."""

    def of_other_topics(self) -> frozenset[TopicPartition]:
        """Return the partitions of which another topic seems to have the name now."""

    def stalled(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that cannot be read now."""

    def wake(self) -> None:
        """Let the poll that waits look again."""
