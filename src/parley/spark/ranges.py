"""Which offsets each task reads: pure, like Spark's own range calculator, of which the rules are

1. Empty ranges are left out.
2. With `maxRecordsPerPartition`, a larger range is cut into equal parts that keep to it.
3. With `minPartitions`, and fewer ranges than that, larger ranges are cut in proportion to their size,
   until there are about that many: ranges whose share is below one and a half tasks stay whole.
4. The parts of a range are next to each other, without gap or overlap, and differ by at most one offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from parley.client import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, `start` inclusive, `end` exclusive.

    `topic_id` (text form, "" unknown) and `leader_epoch` (-1 unknown) tell the history that they belong to.
    """

    tp: TopicPartition
    start: int
    end: int
    topic_id: str = ""
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """Number of offsets; compaction and transaction markers make it more than the number of records."""
        return self.end - self.start


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Return the ranges of the tasks, by topic, partition and offset."""
    whole = sorted((found for found in ranges if found.size > 0), key=lambda found: (found.tp, found.start))
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
        for part in divide(found, 1 if found in small else _share(found.size, large_total, large_parts))
    ]


def divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Return a range in `parts` parts (fewer if it has fewer offsets), the first ones longer by one.

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


def _share(size: int, total: int, parts: int) -> int:
    # Rounded half up in whole numbers: floats lose offsets above 2^53.
    return max(1, (2 * size * parts + total) // (2 * total)) if total else 1
