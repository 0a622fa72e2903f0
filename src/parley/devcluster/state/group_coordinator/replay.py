"""Reads a log of `__consumer_offsets` from its start: what holds at its end, as compaction has it.

Rules of this file:
1. Of each key the last record holds; one of a transaction from where it is written, once its commit
   marker is there.
2. Records of transactions that have not ended are apart.
3. A batch that cannot be read is left out and reported: the groups in it begin again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.devcluster.state.log.batches import BatchFacts, walk
from parley.devcluster.state.log.replica import Replica
from parley.errors import CorruptRecordError
from parley.records import decode_columns, int64s, layout, var_values

logger = logging.getLogger("parley.devcluster")

READ_BYTES = 1 << 20


class Stored(NamedTuple):
    """The newest record of a key, and its offset in the log."""

    offset: int
    value: bytes | None


@dataclass(slots=True)
class Replayed:
    """What a log says: records by key, and those of open transactions by producer id."""

    latest: dict[bytes, Stored] = field(default_factory=dict)
    undecided: dict[int, dict[bytes, Stored]] = field(default_factory=dict)

    def note(self, producer_id: int | None, key: bytes, stored: Stored) -> None:
        """Take in a record, of a transaction if a producer id is given."""
        if producer_id is None:
            self.latest[key] = stored
        else:
            self.undecided.setdefault(producer_id, {})[key] = stored

    def end(self, facts: BatchFacts) -> None:
        """Take in a marker: what its producer wrote holds now, or never did (rule 1)."""
        for key, stored in self.undecided.pop(facts.producer_id, {}).items():
            known = self.latest.get(key)
            older = known is None or known.value is None or known.offset < stored.offset
            if facts.control_type == layout.COMMIT and older:
                self.latest[key] = stored


def replay(replica: Replica) -> Replayed:
    """Read the whole log of a partition."""
    found = Replayed()
    offset = replica.log.start_offset
    while offset < replica.log.end_offset:
        read = replica.log.read(offset, READ_BYTES)
        for piece in read.parts:
            for facts, data in _runs(piece):
                if facts.is_control:
                    found.end(facts)
                else:
                    _take(found, facts, data, replica)
        if not read.parts:
            break
        offset = read.next_offset
    return found


def _runs(piece: memoryview) -> Iterator[tuple[BatchFacts, memoryview]]:
    """Yield the batches of a piece; plain ones that follow each other at once, by the first."""
    first: tuple[int, BatchFacts] | None = None
    end = 0
    for at, facts in walk(piece):
        if facts.is_transactional or facts.is_control:
            if first is not None:
                yield first[1], piece[first[0] : at]
            first = None
            yield facts, piece[at : at + facts.size]
        elif first is None:
            first = at, facts
        end = at + facts.size
    if first is not None:
        yield first[1], piece[first[0] : end]


def _take(found: Replayed, facts: BatchFacts, data: memoryview, replica: Replica) -> None:
    producer_id = facts.producer_id if facts.is_transactional else None
    where = replica.topic, replica.key.partition
    try:
        for chunk in decode_columns(data, first_offset=0, where=where):
            columns = chunk.columns
            if columns.offsets is None or columns.key is None or columns.value is None:
                continue
            rows = zip(
                int64s(columns.offsets),
                var_values(columns.key),
                var_values(columns.value),
                strict=True,
            )
            for offset, key, value in rows:
                if key is not None:
                    found.note(producer_id, key, Stored(offset, value))
    except CorruptRecordError as error:
        logger.error("groups whose records are damaged begin again: %s", error)
