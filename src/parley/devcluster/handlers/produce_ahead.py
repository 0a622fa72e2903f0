"""Large record sets of a Produce are checked in a thread, before the handler runs in the loop of
all brokers.

To check a record set is to decompress and to parse it: seconds, where it is made to take long. What
is small on the wire, small when decompressed and has few records is checked where it is, for a
thread costs as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from parley.devcluster.handlers.base import Call, leader_replica
from parley.devcluster.state.log.appending import AppendRules, prepare
from parley.devcluster.state.log.batches import Bytes, walk
from parley.devcluster.state.log.replica import Prepared
from parley.devcluster.state.refused import Refused
from parley.messages import ProduceRequest

LARGE_BYTES = 32 * 1024
"""Of all record sets of one request together."""

COPIED_AHEAD_BYTES = 4 * 1024 * 1024
"""Record sets of a request that is larger are copied for the log in the thread as well, by as much
at a time: no other thread runs while bytes are copied.
"""

LARGE_DECOMPRESSED_BYTES = 8 * 1024 * 1024
MANY_RECORDS = 2_000
MOST_RATIO = (1, 1032, 22, 255, 32_768)
"""By codec, how many bytes one may become: of gzip, snappy, lz4; and of zstd, whose 4
bytes may repeat one 128 KiB.
"""


class Ahead:
    """What became of one record set before the handler ran."""

    __slots__ = ("_outcome", "_rules")

    def __init__(self, rules: AppendRules, outcome: list[Prepared] | Refused) -> None:
        self._rules, self._outcome = rules, outcome

    def by(self, rules: AppendRules) -> bool:
        """Return whether these rules were applied: a topic's settings may
        have changed meanwhile.
        """
        return self._rules == rules

    def result(self) -> list[Prepared]:
        """Return the sets to append. Raises Refused."""
        if isinstance(self._outcome, Refused):
            raise self._outcome
        return self._outcome


def prepared(
    call: Call, records: memoryview | None, rules: AppendRules, where: tuple[str, int]
) -> list[Prepared]:
    """Return the record sets of one partition, ready to be appended. Raises Refused."""
    found = call.ahead.get(id(records))
    if isinstance(found, Ahead) and found.by(rules):
        return found.result()
    return prepare(records, rules, now_ms=call.now_ms, where=where)


Place = tuple[int, int]
"""Offset and leader epoch that a record set is given."""


def work_ahead(
    call: Call,
    request: ProduceRequest,
    rules_of: Callable[[Call, ProduceRequest.TopicProduceData], tuple[str, AppendRules]],
) -> Callable[[], None] | None:
    """Return what a thread has to do before the handler runs: None where the request is small."""
    if not is_large(
        partition.records for topic in request.topic_data for partition in topic.partition_data
    ):
        return None
    todo = [
        (partition.records, rules, (name, partition.index), _place(call, name, partition.index))
        for topic in request.topic_data
        for name, rules in (rules_of(call, topic),)
        for partition in topic.partition_data
        if partition.records is not None
    ]
    copies = sum(len(records) for records, *_ in todo) > COPIED_AHEAD_BYTES

    def work() -> None:
        for records, rules, where, place in todo:
            try:
                sets = prepare(records, rules, now_ms=call.now_ms, where=where)
                outcome: list[Prepared] | Refused = (
                    [_finished(one, place, copies=copies) for one in sets]
                    if len(sets) == 1
                    else sets
                )
            except Refused as error:
                outcome = error
            call.ahead[id(records)] = Ahead(rules, outcome)

    return work


def _place(call: Call, topic: str, index: int) -> Place | None:
    """Return where a record set goes if no other comes before it."""
    try:
        leader = leader_replica(call, topic, index)
    except Refused:
        return None
    return leader.log.end_offset, leader.leader_epoch


def _finished(one: Prepared, place: Place | None, *, copies: bool) -> Prepared:
    """Return a set whose bytes are ready for its place: to write offsets into compressed messages
    is to compress them. `copies` says that the log is to be spared its copy.

    Another place is found in the loop where another producer was faster.
    """
    finish = one.finish
    if finish is None and one.facts is not None and copies:
        return one._replace(data=_copied(memoryview(one.data)), is_own=True)
    if finish is None or place is None:
        return one
    ready = finish(*place)
    return one._replace(finish=lambda *found: ready if found == place else finish(*found))


def _copied(data: memoryview) -> bytearray:
    copied = bytearray()
    for start in range(0, len(data), COPIED_AHEAD_BYTES):
        copied += data[start : start + COPIED_AHEAD_BYTES]
    return copied


def is_large(sets: Iterable[Bytes | None]) -> bool:
    """Return whether so much is to be done for these record sets that a thread has to do it."""
    given = [records for records in sets if records is not None]
    if sum(map(len, given)) > LARGE_BYTES:
        return True
    size = count = 0
    for codec, packed, records in _batches(given):
        if codec >= len(MOST_RATIO) or records < 0:
            return True
        size += packed * MOST_RATIO[codec]
        count += records
    return size > LARGE_DECOMPRESSED_BYTES or count > MANY_RECORDS


def _batches(sets: list[Bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield codec, size and record count of each batch; the count is -1
    where only the inside says.
    """
    for records in sets:
        for _, facts in walk(records):
            known = facts.magic == 2 or not facts.codec
            yield facts.codec, facts.size, facts.record_count if known else -1
