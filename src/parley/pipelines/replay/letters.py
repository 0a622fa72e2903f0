"""Dead letters that go back to where they came from."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from parley.arrow import HEADERS_TYPE
from parley.client import TopicPartition
from parley.errors import KafkaError
from parley.types.dead_letters import Origin, origin_of

log = logging.getLogger("parley.pipelines")
REPLAYS = "parley-replays"
"""The header that says how often a dead letter went back: whoever fails on it again keeps it."""
STRANGERS = "no-origin"
"""What is accepted so that records without such headers are left."""


class Returned(NamedTuple):
    """Which rows go back, and where to; headers with one more replay."""

    rows: pa.Array
    topics: pa.Array
    partitions: pa.Array
    headers: pa.Array


@dataclass(frozen=True, slots=True)
class Letters:
    """How dead letters go back: those that were tried `most_attempts` times are left, and with
    `leaves_strangers` those without headers that say where they came from.
    """

    most_attempts: int
    leaves_strangers: bool = False

    def returned(
        self, tp: TopicPartition, offsets: list[int], headers: list[list[dict[str, object]]]
    ) -> Returned:
        """Return what becomes of dead letters.

        Raises KafkaError for a record that is no dead letter: nothing says where it came from.
        """
        rows: list[int] = []
        places: list[Origin] = []
        marked: list[list[dict[str, object]]] = []
        tired: list[int] = []
        strange: list[int] = []
        for row, (offset, own) in enumerate(zip(offsets, headers, strict=True)):
            pairs = [(str(one["key"]), _bytes(one["value"])) for one in own]
            origin, replays = origin_of(pairs), _replays(pairs)
            if origin is None:
                strange.append(offset)
            elif max(origin.attempts, replays + 1) >= self.most_attempts:
                tired.append(offset)
            else:
                rows.append(row)
                places.append(origin)
                kept = [one for one in own if one["key"] != REPLAYS]
                marked.append([*kept, {"key": REPLAYS, "value": str(replays + 1).encode()}])
        self._report(tp, tired, strange)
        return Returned(
            pa.array(rows, pa.int64()),
            pa.array([origin.topic for origin in places], pa.string()),
            pa.array([origin.partition for origin in places], pa.int32()),
            pa.array(marked, HEADERS_TYPE),
        )

    def _report(self, tp: TopicPartition, tired: list[int], strange: list[int]) -> None:
        if strange and not self.leaves_strangers:
            raise KafkaError(
                f"{tp}, offset {strange[0]}: no headers of Kafka Connect or Spring say where this "
                f"record came from; it is no dead letter, and accept={STRANGERS} leaves it"
            )
        for left, why in (
            (tired, f"were tried {self.most_attempts} times"),
            (strange, "do not say where they came from"),
        ):
            if left:
                log.warning(
                    "%s: %d dead letters %s and are left, the first at offset %d",
                    tp, len(left), why, left[0],
                )  # fmt: skip


def _replays(headers: list[tuple[str, bytes | None]]) -> int:
    said = dict(headers).get(REPLAYS) or b""
    return int(said) if said.isdigit() and len(said) < 10 else 0


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) else None
