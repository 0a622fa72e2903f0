"""How much of what is there goes into one micro-batch: pure, in whole numbers.

`maxOffsetsPerTrigger` is shared among the partitions in proportion to what they have to offer, so
that they run dry together. A partition with anything to offer gets one offset at least, as in
Spark's own source: only with more such partitions than the limit is the limit exceeded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from parley.client import TopicPartition


def limit_offsets(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Return where a micro-batch of at most `limit` offsets ends, from `starts` to `ends`.

    A partition without a start does not count and keeps its end. No end lies before its start.

    >>> a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> limit_offsets({a: 0, b: 100}, {a: 30, b: 110}, 20)
    {TopicPartition(topic='t', partition=0): 15, TopicPartition(topic='t', partition=1): 105}
    """
    sizes = {
        tp: ends[tp] - start for tp, start in starts.items() if tp in ends and ends[tp] > start
    }
    limited = {tp: max(end, starts.get(tp, end)) for tp, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return limited
    shares = {tp: limit * size // total for tp, size in sizes.items()}
    # The offsets lost by rounding down go to those that
    # lost most (then by name: the same every time).
    left_over = limit - sum(shares.values())
    for tp in sorted(sizes, key=lambda tp: (-(limit * sizes[tp] % total), tp))[:left_over]:
        shares[tp] += 1
    _raise_to_one(shares)
    for tp, share in shares.items():
        limited[tp] = starts[tp] + share
    return limited


def _raise_to_one(shares: dict[TopicPartition, int]) -> None:
    """Give one offset to each partition that came away empty, taken in turn from those
    with most. Mutates `shares`.
    """
    givers = deque(
        sorted((tp for tp, share in shares.items() if share > 1), key=lambda tp: (-shares[tp], tp))
    )
    for tp in sorted(tp for tp, share in shares.items() if share == 0):
        shares[tp] = 1
        if givers:
            giver = givers.popleft()
            shares[giver] -= 1
            if shares[giver] > 1:
                givers.append(giver)
