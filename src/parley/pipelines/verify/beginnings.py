"""The later beginning of two sides: retention has deleted more of one than of the other.

The first record of the side that has lost more is looked up in the other one, by its hash, from the
first record on that is as late; what comes before is left out. The records are the same if the rest
is. A first record that is in the other side twice is taken where it comes first: that may show a
difference that is none, and never hides one.
"""

from __future__ import annotations

from contextlib import aclosing

from parley.pipelines.verify.bisection import Extent
from parley.pipelines.verify.planning import Pair
from parley.pipelines.verify.reading import Place, Side, numbers
from parley.types import TopicPartition


async def later_beginning(left: Side, right: Side, pair: Pair, timestamps: bool) -> Pair | None:
    """Return the pair from the later of both beginnings on; None where neither side has the other's
    first record. A side without records has no beginning.
    """
    ours = await left.places(pair.left, pair.left_extent, 1, timestamps=timestamps)
    theirs = await right.places(pair.right, pair.right_extent, 1, timestamps=timestamps)
    if not ours or not theirs or ours[0].record_hash == theirs[0].record_hash:
        return pair
    if timestamps and min(ours[0].timestamp_ms, theirs[0].timestamp_ms) < 0:  # format 0
        return await later_beginning(left, right, pair, False)
    on_left = Lookup(left, pair.left, pair.left_extent, theirs[0])
    on_right = Lookup(right, pair.right, pair.right_extent, ours[0])
    later_first = [on_left, on_right]
    if ours[0].timestamp_ms > theirs[0].timestamp_ms:
        later_first.reverse()
    for lookup in later_first:
        found = await lookup.extent(timestamps)
        if found is not None:
            if lookup is on_left:
                return pair._replace(left_extent=found)
            return pair._replace(right_extent=found)
    return None


class Lookup:
    """A record that is looked for on one side."""

    def __init__(self, side: Side, tp: TopicPartition, extent: Extent, wanted: Place) -> None:
        self._side, self._tp, self._extent, self._wanted = side, tp, extent, wanted

    async def extent(self, timestamps: bool) -> Extent | None:
        """Return the extent from that record on, None where it is not there."""
        start_ms = self._wanted.timestamp_ms if timestamps else -1
        extent = await self._side.from_time(self._tp, self._extent, start_ms)
        async with aclosing(
            self._side.hashed({self._tp: extent}, timestamps=timestamps)
        ) as batches:
            async for found in batches:
                hashes = numbers(found.batch, "hash").tolist()
                if self._wanted.record_hash in hashes:
                    at = hashes.index(self._wanted.record_hash)
                    return Extent(numbers(found.batch, "offset")[at], self._extent.end)
        return None
