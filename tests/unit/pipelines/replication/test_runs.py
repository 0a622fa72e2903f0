"""The map of offsets against a model that knows each record by itself."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from parley.client import TopicPartition
from parley.errors import KafkaError
from parley.pipelines.replication.chunks import (
    CHUNK_RUNS,
    Chunk,
    Position,
    grown,
    read_chunk,
)
from parley.pipelines.replication.runs import PartitionMap, Run, paired
from parley.pipelines.replication.store import copied_of

TP = TopicPartition("flights", 3)
ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))

lengths = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=30)
"""Holes and the runs behind them."""


def spread(pieces: list[tuple[int, int]], begin: int = 0) -> list[tuple[int, int]]:
    """Return (first, count) of each run, with holes in between."""
    found, at = [], begin
    for hole, count in pieces:
        found.append((at + hole, count))
        at += hole + count
    return found


def offsets(runs: list[tuple[int, int]]) -> list[int]:
    return [at for first, count in runs for at in range(first, first + count)]


@st.composite
def copies(draw: st.DrawFn) -> dict[int, int]:
    """Offsets of the source and of the target, record by record."""
    source = offsets(spread(draw(lengths), draw(st.integers(0, 5))))
    steps = draw(st.lists(st.integers(1, 3), min_size=len(source), max_size=len(source)))
    return dict(zip(source, itertools.accumulate(steps), strict=True))


def runs_of(copied: dict[int, int]) -> list[Run]:
    return [Run(source, target, 1) for source, target in copied.items()]


@given(lengths, st.data())
def test_what_was_read_and_what_was_written_is_paired_record_by_record(
    pieces: list[tuple[int, int]], data: st.DataObject
) -> None:
    read = spread(pieces)
    total = len(offsets(read))
    written: list[tuple[int, int]] = []
    while (done := len(offsets(written))) < total:
        count = data.draw(st.integers(1, total - done))
        end = written[-1][0] + written[-1][1] if written else 0
        written.append((end + data.draw(st.integers(0, 2)), count))
    found = paired(read, written)
    assert [
        (run.source + at, run.target + at) for run in found for at in range(run.records)
    ] == list(zip(offsets(read), offsets(written), strict=True))
    for one, other in itertools.pairwise(found):  # as few as there can be
        assert (one.source + one.records, one.target + one.records) != other[:2]


@given(copies(), st.integers(0, 4))
def test_each_place_is_that_of_the_next_record_that_was_copied(
    copied: dict[int, int], beyond: int
) -> None:
    last = max(copied, default=-1)
    known = PartitionMap(runs_of(copied), last + 1 + beyond)
    for offset in range(last + beyond + 4):
        place = known.place(offset)
        if not copied:
            assert place is None
            continue
        assert place is not None
        later = [target for source, target in copied.items() if source >= offset]
        behind = max(copied.values()) + 1
        assert place.offset == (min(later) if later else behind)
        assert place.exact == (offset <= last + 1 + beyond)
    assert known.end() == max(copied.values(), default=-2) + 1


@given(copies(), st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_the_map_is_read_again_as_it_was_written(copied: dict[int, int], cuts: list[int]) -> None:
    # as transactions write it: some runs each time, the open chunk again
    left, chunk, topic, positions = runs_of(copied), None, [], []
    sizes = itertools.cycle(cuts)
    while left:
        size = next(sizes)
        now, left = left[:size], left[size:]
        positions.append(Position(now[-1].source + 1, 4, ID, OTHER_ID))
        chunks = grown(chunk, TP, now, positions[-1])
        topic += [(one.key, one.value) for one in chunks]
        chunk = chunks[-1]
    compacted = dict(topic)
    read = [read_chunk(key, value) for key, value in compacted.items()]
    known = copied_of(one for one in read if one is not None)
    if not copied:
        assert known == {}
        return
    found, newest, closed = known[TP]
    assert [key for key, _ in closed] == [key for key in compacted if key != newest.key]
    assert {
        run.source + at: run.target + at for run in found for at in range(run.records)
    } == copied
    assert newest.position == positions[-1]
    assert found.next_offset == max(copied) + 1


def test_a_transaction_writes_no_more_than_the_open_chunk_again() -> None:
    full = grown(None, TP, [Run(2 * at, at, 1) for at in range(CHUNK_RUNS)], Position(500))
    assert len(full) == 1
    (after,) = grown(full[0], TP, [Run(600, 600, 1)], Position(601))
    assert after.runs == (Run(600, 600, 1),)
    many = grown(None, TP, [Run(2 * at, at, 1) for at in range(3 * CHUNK_RUNS)], Position(999))
    assert [len(one.runs) for one in many] == [CHUNK_RUNS] * 3
    assert len(many[0].value) < 12 * CHUNK_RUNS


def test_what_stands_in_the_topic_is_this_text() -> None:
    chunk = Chunk(TP, Position(9, 2, ID), (Run(3, 10, 4), Run(8, 15, 1)))
    assert chunk.key == b"flights/3/3"
    assert chunk.value == (
        b'{"version":1,"next":9,"epoch":2,"topic":"AAECAwQFBgcICQoLDA0ODw","target":null,'
        b'"runs":[3,10,4,1,1,1]}'
    )


@pytest.mark.parametrize("key", [b"begun", None, b"a/b"])
def test_other_records_are_no_chunks(key: bytes | None) -> None:
    assert read_chunk(key, b"{}") is None
    assert read_chunk(b"flights/3/3", None) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{}", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b'{"version":2}', "version 2"),
        (b'{"version":1,"next":1,"epoch":0,"topic":"x","target":null,"runs":[]}', "cannot be"),
    ],
)
def test_a_record_of_others_is_an_error_that_names_it(value: bytes, says: str) -> None:
    with pytest.raises(KafkaError, match=says):
        read_chunk(b"flights/3/3", value)


def test_runs_that_go_back_are_no_history_of_this_replication() -> None:
    known = PartitionMap([Run(0, 0, 5)], 5)
    with pytest.raises(KafkaError, match="another replication"):
        known.append([Run(4, 9, 1)], 6)
