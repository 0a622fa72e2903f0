"""Which offsets each task reads: pure, like Spark's own range calculator, of which the rules are

1. Empty ranges are left out.
2. With `maxRecordsPerPartition`, a larger range is cut into equal parts that keep to it.
3. With `maxBytesPerPartition`, a range that seems to hold more is cut where its bytes are shared
   evenly.
4. With `minPartitions`, and fewer ranges than that, larger ranges are cut in proportion to their
   size, until there are about that many: ranges whose share is below one and a half tasks stay
   whole.
5. The parts of a range are next to each other, without gap or overlap; cut by number they differ by
   at most one offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parley.client import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, `start` inclusive, `end` exclusive.

    `topic_id` (text form, "" unknown) and `leader_epoch` (-1 unknown) identify the history that
    they belong to.
    """

    tp: TopicPartition
    start: int
    end: int
    topic_id: str = ""
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """Number of offsets; compaction and markers make it more than that of records."""
        return self.end - self.start


def split_ranges(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    densities: Mapping[TopicPartition, Sequence[float]] | None = None,
) -> list[OffsetRange]:
    """Return the ranges of the tasks, by topic, partition and offset.

    `densities` has the bytes per offset of equal parts of each range.
    """
    whole = sorted(
        (found for found in ranges if found.size > 0), key=lambda found: (found.tp, found.start)
    )
    if max_bytes is not None:
        whole = [
            part
            for found in whole
            for part in divide_bytes(found, (densities or {}).get(found.tp, ()), max_bytes)
        ]
    if max_records is not None:
        whole = [part for found in whole for part in divide(found, -(-found.size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(found.size for found in whole)
    small = {found for found in whole if _share(found.size, total, min_partitions) == 1}
    large_total = sum(found.size for found in whole if found not in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        part
        for found in whole
        for part in divide(
            found, 1 if found in small else _share(found.size, large_total, large_parts)
        )
    ]


def divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Return a range in `parts` parts (or one per offset), the first ones longer by one.

    >>> [(part.start, part.end) for part in divide(OffsetRange(TopicPartition("t", 0), 0, 8), 3)]
    [(0, 3), (3, 6), (6, 8)]
    """
    parts = max(1, min(parts, whole.size))
    base, longer = divmod(whole.size, parts)
    found, start = [], whole.start
    for number in range(parts):
        end = start + base + (number < longer)
        found.append(replace(whole, start=start, end=end))
        start = end
    return found


def divide_bytes(
    whole: OffsetRange, densities: Sequence[float], max_bytes: int
) -> list[OffsetRange]:
    """Return a range in parts of about equal bytes, of at most some `max_bytes` and a record.

    `densities` are the bytes per offset of as many equal stretches of the range.

    >>> found = divide_bytes(OffsetRange(TopicPartition("t", 0), 0, 100), (1.0, 3.0), 100)
    >>> [(part.start, part.end) for part in found]
    [(0, 66), (66, 100)]
    """
    stretch = whole.size / max(1, len(densities))
    total = sum(densities) * stretch
    parts = min(whole.size, max(1, math.ceil(total / max_bytes)))
    found, start, before, place = [], whole.start, 0.0, 0
    for number in range(1, parts):
        wanted = total * number / parts
        while place < len(densities) - 1 and before + densities[place] * stretch < wanted:
            before += densities[place] * stretch
            place += 1
        inside = (wanted - before) / densities[place] if densities[place] else 0.0
        end = min(whole.end, max(start, whole.start + int(place * stretch + inside)))
        if end > start:
            found.append(replace(whole, start=start, end=end))
            start = end
    return [*found, replace(whole, start=start)] if start < whole.end else found


def _share(size: int, total: int, parts: int) -> int:
    # Rounded half up in whole numbers: floats lose offsets above 2^53.
    return max(1, (2 * size * parts + total) // (2 * total)) if total else 1
