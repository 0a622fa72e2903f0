"""What an application is called with when its partitions change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from parley.types import TopicPartition

Answer = Awaitable[None] | None
Call = Callable[[], Answer]
"""One call of a listener, its partitions included."""
CallListener = Callable[[Call], Awaitable[None]]
"""How a listener is called: in the event loop, or in the thread whose poll it is."""


class ConsumerRebalanceListener:
    """Called in the application's own polls, before and after its partitions change (aiokafka's and
    Java's name).

    Overwrite what you need, as plain methods or, for AsyncConsumer, as coroutines too. Partitions
    come sorted. No call comes between polls and none after `close`. Heartbeats go on meanwhile.
    What a call raises, the poll raises when the partitions have changed.
    """

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> Answer:
        """These were added, possibly none; `seek` here to begin elsewhere than
        at the committed offset.
        """

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> Answer:
        """These go to others when this returns: commit here what is done. `commit` works."""

    def on_partitions_lost(self, lost: list[TopicPartition]) -> Answer:
        """These may be others' already: drop what is not done. Nothing may be committed; calls
        `on_partitions_revoked` where it is not overwritten.
        """
        return self.on_partitions_revoked(lost)


async def call_here(call: Call) -> None:
    """Call a listener in the event loop; what it returns may be awaited."""
    found = call()
    if isawaitable(found):
        await found
