"""The partitions that a consumer reads, and the state of each of them.

Partitions that a listener hears of now have no state yet. It is made when the listener asks for one
of them, or has returned: what it costs is then not between a rebalance and the listeners of the
other members of this event loop, which wait for theirs (`Participation._take`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container

from parley.client.consumer.former import FormerPartitions
from parley.client.consumer.options import ConsumerOptions
from parley.client.fetch.positions import PartitionPosition, Stage
from parley.client.fetch.state import PartitionFetch
from parley.client.options import arguments
from parley.errors import LocalProtocolError
from parley.types import OffsetAndMetadata, TopicPartition


class Assignment:
    """What a consumer reads. Belongs to the event loop."""

    def __init__(
        self, options: ConsumerOptions, on_change: Callable[[Collection[TopicPartition]], None]
    ) -> None:
        """`on_change` gets the partitions that are new."""
        self._options, self._on_change = options, on_change
        self.states: dict[TopicPartition, PartitionFetch] = {}
        """The partitions that have a state: all of them, while no listener runs."""
        self._named: frozenset[TopicPartition] = frozenset()
        """The others."""
        self.former = FormerPartitions()
        self._unplaced: list[PartitionFetch] = []
        """States without a position when that was looked at last."""

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All of them."""
        return self._named.union(self.states)

    def read(
        self, partitions: Collection[TopicPartition], held: Collection[TopicPartition]
    ) -> None:
        """Read these partitions and no others; those of `held` are not fetched before `release`."""
        self._named = frozenset(held) - self.states.keys()
        self._have([tp for tp in partitions if tp not in self._named])

    def release(self) -> list[PartitionFetch]:
        """Return the partitions that were held until now."""
        self._make_named(held=False)
        return [part for part in self.states.values() if part.held]

    def state(self, tp: TopicPartition) -> PartitionFetch:
        """Return the state of a partition. Raises LocalProtocolError for one that is not read."""
        if arguments.partition(tp) in self._named:
            self._make_named(held=True)
        if tp not in self.states:
            raise LocalProtocolError(f"{tp} is not assigned to this consumer; assign it first")
        return self.states[tp]

    def reads(self, part: PartitionFetch) -> bool:
        """Return whether this is the state of one of them, and not one of a former assignment."""
        return self.states.get(part.tp) is part

    def _make_named(self, *, held: bool) -> None:
        named, self._named = self._named, frozenset()
        self._have([*self.states, *named], held=named if held else ())

    def _have(
        self, partitions: Collection[TopicPartition], held: Container[TopicPartition] = ()
    ) -> None:
        """Have the states of these and of no others; those that are kept keep their positions."""
        kept = self.states
        if len(kept) == len(partitions) and all(tp in kept for tp in partitions):
            return
        for tp in kept.keys() - set(partitions):
            self.former.leave(kept[tp])
        policy = self._options.reset_policy
        most_bytes = self._options.max_partition_fetch_bytes
        self.states = {
            tp: kept.get(tp)
            or PartitionFetch(tp, PartitionPosition(tp, policy), None, most_bytes, held=tp in held)
            for tp in partitions
        }
        self._unplaced = list(self.states.values())
        self._on_change(self.states.keys() - kept.keys())

    # -- looking at it -----------------------------------------------------------------------------

    def unplaced(self) -> list[PartitionFetch]:
        """Return those that have no position."""
        if self._unplaced:
            self._unplaced = [
                part for part in self._unplaced if part.positions.stage is Stage.UNSET
            ]
        return self._unplaced

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions behind what was handed out, with their leader epochs, but for those
        that are lost.
        """
        return {
            tp: OffsetAndMetadata(at.offset, "", at.offset_epoch)
            for tp, part in self.states.items()
            if (at := part.positions.consumed).offset >= 0 and not part.positions.lost
        }

    def of_other_topics(self, topic_id: Callable[[str], bytes]) -> frozenset[TopicPartition]:
        """Return those that were read of another topic than metadata names, confirmed or not."""
        return frozenset(
            tp for tp, part in self.states.items() if part.topic.is_other(topic_id(tp.topic))
        )

    def not_fetching(self) -> frozenset[TopicPartition]:
        """Return those that have no position, or an error at it."""
        return self._named.union(
            tp for tp, part in self.states.items() if part.positions.stage is not Stage.FETCHING
        )
