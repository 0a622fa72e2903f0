"""What stands in the topic of a replay's offsets. Pure.

One record, with the key `replay`, has what is replayed, as it was settled when the replay began:

    {"version": 1, "topic": "flights", "to": "again", "from": null, "until": null,
     "partition_by": "source", "topic_id": null, "target_id": "<id>", "ranges": {"0": [17, 605]}}

That of a table has its name as `topic`, numbers of its sorted rows as the one range, and in `table`
what these numbers hang on: `{"lake": "delta", "id": "<id>", "version": 7, "order": ["time"], ...}`.

And one per partition, with the key `at/<partition>`, where it goes on: `{"next": 120, "epoch": 4}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from parley.client import PartitionRange, TopicPartition, format_uuid, parse_uuid
from parley.errors import ConfigError, KafkaError
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replication.store import BEGUN
from parley.types import ZERO_UUID

VERSION = 1
REPLAY = b"replay"


class Mark(NamedTuple):
    """Where a partition goes on, and the leader epoch of the record before it."""

    next_offset: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Settled:
    """What is replayed: the same for each run of a replay."""

    topic: str
    """Or the table."""
    to: str | None
    """None for dead letters, which go back where they came from."""
    from_timestamp_ms: int | None
    until_timestamp_ms: int | None
    partition_by: str
    topic_id: bytes
    target_id: bytes
    ranges: Mapping[int, tuple[int, int]]
    table: Mapping[str, object] | None = None

    @classmethod
    def of(
        cls,
        options: ReplayOptions,
        ids: tuple[bytes, bytes],
        ranges: Mapping[int, tuple[int, int]],
        table: Mapping[str, object] | None = None,
    ) -> Settled:
        """Return what these options settle, for topics with these ids."""
        return cls(
            options.source_name,
            options.to,
            options.from_timestamp_ms,
            options.until_timestamp_ms,
            str(options.partition_by),
            *ids,
            ranges,
            table,
        )

    def check(self, options: ReplayOptions) -> None:
        """Raise ConfigError where options mean another replay than the one that was begun."""
        names = ("to", "from_timestamp_ms", "until_timestamp_ms", "partition_by")
        pairs = {name: (getattr(self, name), getattr(options, name)) for name in names}
        if self.table is None or options.table is None:  # a table may lie elsewhere by now
            pairs["topic"] = (self.topic, options.source_name)
        self._compare(options, pairs)

    def check_table(self, options: ReplayOptions, found: Mapping[str, object]) -> None:
        """Raise ConfigError where a table's rows are others now, or in another order."""
        begun = self.table or {}
        self._compare(options, {name: (begun.get(name), found[name]) for name in found})

    def _compare(self, options: ReplayOptions, pairs: Mapping[str, tuple[object, object]]) -> None:
        for name, (begun, given) in pairs.items():
            if begun != given:
                raise ConfigError(
                    f'the replay "{options.name}" was begun with {name}={begun!r}, and {given!r} '
                    "is given: go on with the former, or give the replay another name"
                )

    def start(self, partition: int, marks: Mapping[int, Mark]) -> int:
        """Return where a partition goes on."""
        mark = marks.get(partition)
        return self.ranges[partition][0] if mark is None else mark.next_offset

    def range(self, partition: int, mark: Mark | None) -> PartitionRange:
        """Return what is still to be read of a partition."""
        start, end = self.ranges[partition]
        if mark is None:
            return PartitionRange(start, end, topic_id=self.topic_id)
        return PartitionRange(mark.next_offset, end, mark.leader_epoch, self.topic_id)

    def with_ranges(self, found: Mapping[int, tuple[int, int]]) -> Settled:
        """Return the same up to later ends, with partitions that are new."""
        begun = {index: start for index, (start, _) in self.ranges.items()}
        ranges = {index: (begun.get(index, start), end) for index, (start, end) in found.items()}
        return replace(self, ranges=ranges)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the source."""
        return [TopicPartition(self.topic, index) for index in sorted(self.ranges)]


def settled_record(settled: Settled) -> tuple[bytes, bytes]:
    """Return the record of what is replayed."""
    value = {
        "version": VERSION,
        "topic": settled.topic,
        "to": settled.to,
        "from": settled.from_timestamp_ms,
        "until": settled.until_timestamp_ms,
        "partition_by": settled.partition_by,
        "topic_id": _id_text(settled.topic_id),
        "target_id": _id_text(settled.target_id),
        "ranges": {str(index): list(found) for index, found in settled.ranges.items()},
    }
    if settled.table is not None:
        value["table"] = dict(settled.table)
    return REPLAY, _bytes(value)


def mark_records(marks: Mapping[int, Mark]) -> list[tuple[bytes, bytes]]:
    """Return the records of where partitions go on."""
    return [
        (f"at/{index}".encode(), _bytes({"next": mark.next_offset, "epoch": mark.leader_epoch}))
        for index, mark in sorted(marks.items())
    ]


Known = tuple[Settled, dict[int, Mark]]
"""What is replayed, and where each partition that was begun goes on."""


def read(topic: str, newest: Mapping[bytes, bytes | None]) -> Known | None:
    """Return what a replay knows, from the newest value of each key; None where none has begun.

    Raises ConfigError where the topic belongs to something else, KafkaError for what cannot be
    read.
    """
    if not newest.keys() - {BEGUN}:
        return None
    value = newest.get(REPLAY)
    if value is None:
        raise ConfigError(
            f'"{topic}" does not belong to a replay: give this one another name, or delete the '
            "topic if nobody needs it"
        )
    try:
        found = json.loads(value)
        if found["version"] != VERSION:
            raise KafkaError(
                f'"{topic}" was written by a newer parley (version {found["version"]} of its '
                f"format, this one reads {VERSION}): take that one"
            )
        return _settled(found), dict(_marks(newest.items()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaError(f'"{topic}" has a record that cannot be read: {error!r}') from error


def _settled(found: Mapping[str, Any]) -> Settled:
    return Settled(
        found["topic"],
        found["to"],
        found["from"],
        found["until"],
        found["partition_by"],
        _id_bytes(found["topic_id"]),
        _id_bytes(found["target_id"]),
        {int(index): (int(start), int(end)) for index, (start, end) in found["ranges"].items()},
        found.get("table"),
    )


def _marks(records: Iterable[tuple[bytes, bytes | None]]) -> Iterable[tuple[int, Mark]]:
    for key, value in records:
        if key.startswith(b"at/") and value is not None:
            found = json.loads(value)
            yield int(key[3:]), Mark(int(found["next"]), int(found["epoch"]))


def _bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else format_uuid(topic_id)


def _id_bytes(text: str | None) -> bytes:
    return ZERO_UUID if text is None else parse_uuid(text)
