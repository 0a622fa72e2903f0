"""How large records are, and how old the next is, without reading all: a few small fetches.

An estimate, never a reason to fail: a partition that cannot be sampled counts like the average of
the others. At most `MOST` partitions are looked at per question, those with most to read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from parley.client import Client, FetchOptions, PartitionRange, TopicPartition, record_shape
from parley.errors import KafkaError
from parley.spark.read.ranges import OffsetRange

MOST = 64
RECORDS = 256
"""Records of one sample at most."""
_FETCH = FetchOptions(
    max_partition_fetch_bytes=64 * 2**10,
    fetch_max_wait_ms=100,
    prefetch_max_bytes=0,
    max_batch_rows=RECORDS,
)
BYTES_PER_ROW = 24
"""What a record takes beside key and value: offset, timestamp, lengths."""


class Sample(NamedTuple):
    """What was seen at one place."""

    bytes_per_offset: float
    timestamp_ms: int
    """Timestamp of the first record found, -1 where it has none."""


def take_samples(
    client: Client, places: Mapping[TopicPartition, tuple[int, int]], isolation_level: str
) -> dict[TopicPartition, Sample]:
    """Return what lies at the beginning of each (start, end), if it has records."""
    chosen = sorted(places, key=lambda tp: (places[tp][0] - places[tp][1], tp))[:MOST]
    ranges = {
        tp: PartitionRange(places[tp][0], min(places[tp][1], places[tp][0] + RECORDS))
        for tp in chosen
    }
    shape = record_shape(["key", "value", "timestamp"])
    options = _FETCH.replace(isolation_level=isolation_level, shape=shape)
    found: dict[TopicPartition, Sample] = {}
    try:
        for got in client.fetch_many(ranges, options):
            if got.partition in found or not got.batch.num_rows:
                continue
            covered = max(1, got.next_offset - ranges[got.partition].start)
            size = got.batch.nbytes + BYTES_PER_ROW * got.batch.num_rows
            when = got.batch.column("timestamp")[0].cast(pa.int64()).as_py()
            found[got.partition] = Sample(size / covered, -1 if when is None else when)
            if len(found) == len(ranges):
                break
    except KafkaError:
        pass  # whoever reads there will meet it, and say it better
    return found


@dataclass(slots=True)
class Sampler:
    """Remembers samples by place: the same place is looked at once."""

    _seen: dict[TopicPartition, tuple[int, Sample]] = field(default_factory=dict)

    def samples(
        self, client: Client, places: Mapping[TopicPartition, tuple[int, int]], isolation_level: str
    ) -> dict[TopicPartition, Sample]:
        """Return what lies at each (start, end), as known; empty places have no sample."""
        wanted = {tp: place for tp, place in places.items() if place[0] < place[1]}
        known = {
            tp: seen for tp, seen in self._seen.items() if tp in wanted and seen[0] == wanted[tp][0]
        }
        fresh = take_samples(
            client, {tp: wanted[tp] for tp in wanted.keys() - known.keys()}, isolation_level
        )
        self._seen = known | {tp: (wanted[tp][0], sample) for tp, sample in fresh.items()}
        return {tp: sample for tp, (_, sample) in self._seen.items()}


def densities(
    samples: Mapping[TopicPartition, Sample], sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Return bytes per offset for `sizes`' partitions: own, or the known ones' average."""
    total = sum(sizes.get(tp, 0) for tp in samples)
    seen = sum(sample.bytes_per_offset * sizes.get(tp, 0) for tp, sample in samples.items())
    average = seen / total if total else 0.0
    return {tp: samples[tp].bytes_per_offset if tp in samples else average for tp in sizes}


PLACES = 4
"""Places of one range that are looked at: large records may come in bursts."""


def sample_ranges(
    client: Client, ranges: Collection[OffsetRange], isolation_level: str
) -> dict[TopicPartition, tuple[float, ...]]:
    """Return bytes per offset in each quarter of each range, as far as they could be looked at.

    What could not counts like the rest of its range, or like the average of the others.
    """
    quarters: list[dict[TopicPartition, Sample]] = []
    for number in range(PLACES):
        places = {}
        for found in ranges:
            first = found.start + found.size * number // PLACES
            if found.size > 0 and (number == 0 or found.size >= PLACES * RECORDS):
                places[found.tp] = (first, found.end)
        quarters.append(take_samples(client, places, isolation_level))
    sizes = {found.tp: found.size for found in ranges if found.size > 0}
    average = densities(quarters[0], sizes)
    result = {}
    for tp in sizes:
        seen = [quarter[tp].bytes_per_offset if tp in quarter else None for quarter in quarters]
        known = [value for value in seen if value is not None]
        rest = sum(known) / len(known) if known else average[tp]
        result[tp] = tuple(rest if value is None else value for value in seen)
    return result
