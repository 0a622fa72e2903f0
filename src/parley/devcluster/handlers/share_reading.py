"""What a share group could read of one partition now, and giving a member some of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from parley.devcluster.handlers.base import Call, Watched
from parley.devcluster.handlers.sharing import leader_of
from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.partition import Acquired, SharePartition, Wish
from parley.devcluster.state.groups.share.settings import (
    EARLIEST,
    ShareSettings,
    reset_duration_ms,
)
from parley.devcluster.state.log.batches import BatchFacts, walk
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.log.times import first_at_time
from parley.devcluster.state.refused import Refused
from parley.errors.codes import KAFKA_STORAGE_ERROR, NONE, UNKNOWN_SERVER_ERROR

Offsets = tuple[int, int]


@dataclass(slots=True)
class Reading:
    """One partition's batches from the group's fetch offset on, or an error."""

    group: str
    part: Part
    code: int = NONE
    replica: Replica | None = None
    partition: SharePartition | None = None
    parts: Sequence[memoryview] = ()
    size: int = 0
    hides_aborted: bool = False
    _placed: list[tuple[BatchFacts, memoryview]] = field(default_factory=list)

    @property
    def watched(self) -> list[Watched]:
        """What may bring more."""
        return [one for one in (self.replica, self.partition) if one is not None]

    def acquire(self, call: Call, wish: Wish) -> list[Acquired]:
        """Give a member some of it. Raises Refused (KAFKA_STORAGE_ERROR)."""
        assert self.partition is not None
        self._placed = [
            (facts, part[at : at + facts.size]) for part in self.parts for at, facts in walk(part)
        ]
        batches = [(facts.base_offset, facts.last_offset) for facts, _ in self._placed]
        hidden = self._aborted() if self.hides_aborted else []
        acquired = self.partition.acquire(wish, batches, hidden, call.present_ms)
        try:
            call.cluster.share_groups.keep(self.group, self.part)
        except OSError as error:
            raise Refused(KAFKA_STORAGE_ERROR, None) from error
        return acquired

    def _aborted(self) -> list[Offsets]:
        """Return the batches of transactions that were aborted."""
        if self.replica is None or not self._placed:
            return []
        first, last = self._placed[0][0].base_offset, self._placed[-1][0].last_offset
        entries = self.replica.producers.transactions.aborted_within(first, last + 1)
        return [
            (facts.base_offset, facts.last_offset)
            for facts, _ in self._placed
            if facts.is_transactional and not facts.is_control
            for entry in entries
            if entry.producer_id == facts.producer_id
            and entry.first_offset <= facts.base_offset
            and facts.last_offset <= entry.last_offset
        ]

    def parts_of(self, acquired: Sequence[Acquired]) -> list[memoryview]:
        """Return the batches from the first to the last record that was acquired."""
        if not acquired:
            return []
        first, last = acquired[0].first, acquired[-1].last
        return [
            part
            for facts, part in self._placed
            if facts.last_offset >= first and facts.base_offset <= last
        ]


def read(
    call: Call,
    group: str,
    part: Part,
    settings: ShareSettings,
    *,
    max_bytes: int,
    at_least_one: bool,
) -> Reading:
    """Return what could be given now; nothing is acquired yet."""
    reading = Reading(group, part, hides_aborted=settings.read_committed)
    try:
        replica = reading.replica = leader_of(call, part)
        partition = reading.partition = _opened(call, group, part, replica, settings)
        end = replica.last_stable_offset if settings.read_committed else replica.high_watermark
        offset = partition.fetch_offset()
        if offset is not None and offset < end:
            found = replica.log.read(offset, max_bytes, end_offset=end, at_least_one=at_least_one)
            reading.parts, reading.size = found.parts, found.size
    except Refused as error:
        reading.code = error.code
    except OSError:
        reading.code = KAFKA_STORAGE_ERROR
    return reading


def _opened(
    call: Call, group: str, part: Part, replica: Replica, settings: ShareSettings
) -> SharePartition:
    """Return the share partition as of now. Raises Refused or OSError."""
    groups = call.cluster.share_groups
    partition = groups.opened(group, part)
    if partition is None:
        raise Refused(UNKNOWN_SERVER_ERROR, None)
    partition.limits = settings.limits
    partition.lead(replica.leader_epoch)
    if not partition.is_begun:
        partition.begin(_first_offset(call, replica, settings))
        groups.keep(group, part)
    elif partition.log_begins_at(replica.log.start_offset):
        groups.keep(group, part)
    return partition


def _first_offset(call: Call, replica: Replica, settings: ShareSettings) -> int:
    """Return where a group begins that was never here."""
    reset = settings.auto_offset_reset
    if reset == EARLIEST:
        return replica.log.start_offset
    back_ms = reset_duration_ms(reset)
    if back_ms is None:
        return replica.high_watermark
    found = first_at_time(replica, call.present_ms - back_ms)
    end = replica.high_watermark
    return end if found is None or found.offset >= end else found.offset
