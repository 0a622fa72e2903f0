"""What decides in a comparison, without a cluster: runs, bisection, latest keys and plans."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from parley.errors import ConfigError
from parley.pipelines.verify.bisection import (
    Extent,
    Suspect,
    first_suspect,
    first_unequal,
    kind_at,
    narrowed,
)
from parley.pipelines.verify.latest import Latest, first_key_difference
from parley.pipelines.verify.planning import matched, named_topics, planned, within
from parley.pipelines.verify.results import ComparedRecord, DifferenceKind, shortened
from parley.pipelines.verify.runs import RunTable
from parley.types import TopicPartition

TP = TopicPartition("flights", 0)


class Log:
    """Hashes at offsets with holes."""

    def __init__(self, hashes: Sequence[int], rng: random.Random) -> None:
        self.hashes = list(hashes)
        self.offsets, offset = [], rng.randrange(100)
        for _ in self.hashes:
            self.offsets.append(offset)
            offset += rng.choice([1, 1, 1, 2, 50])
        self.end = offset
        self.rng = rng

    def read(self, start: int, end: int) -> tuple[list[int], list[int]]:
        rows = [at for at, offset in enumerate(self.offsets) if start <= offset < end]
        return [self.hashes[at] for at in rows], [self.offsets[at] for at in rows]

    def table(self, start: int, end: int, most_runs: int, run_records: int) -> RunTable:
        """Return the table, made of pieces of any size, as batches come."""
        hashes, offsets = self.read(start, end)
        made, at = RunTable(most_runs, run_records), 0
        while at < len(hashes):
            size = self.rng.randrange(1, 40)
            made.add(
                memoryview(array("Q", hashes[at : at + size])),
                memoryview(array("q", offsets[at : at + size])),
            )
            at += size
        return made


def edited(hashes: list[int], rng: random.Random) -> list[int]:
    """Return a list with one of the defects that a copy can have, or with none."""
    other, at = list(hashes), rng.randrange(len(hashes) or 1)
    match rng.randrange(6 if hashes else 1):
        case 1:
            other[at] ^= 1
        case 2:
            del other[at]
        case 3:
            other.insert(at, rng.getrandbits(64))
        case 4:
            del other[at:]
        case 5:
            to = rng.randrange(len(other))
            other[at], other[to] = other[to], other[at]
    return other


def compared(left: Log, right: Log, most_runs: int) -> int | None:
    """Return the rank of the first difference, as a comparison finds it: run by run."""
    tables = (
        left.table(0, left.end, most_runs, 2),
        right.table(0, right.end, most_runs, 2),
    )
    suspect = first_suspect(*tables, (left.end, right.end))
    while suspect is not None and suspect.records > 2:
        inner = first_suspect(
            left.table(*suspect.left, most_runs, 2),
            right.table(*suspect.right, most_runs, 2),
            (suspect.left.end, suspect.right.end),
        )
        assert inner is not None
        assert inner.records < suspect.records
        suspect = inner._replace(rank=suspect.rank + inner.rank)
    if suspect is None:
        return None
    ours, theirs = left.read(suspect.left.start, left.end), right.read(*suspect.right)
    at = first_unequal(ours[0][: suspect.records], theirs[0])
    return None if at is None else suspect.rank + at


@given(st.integers(0, 300), st.sampled_from([4, 8, 64]), st.integers(0, 2**32))
def test_bisection_finds_what_looking_at_each_record_finds(
    size: int, most_runs: int, seed: int
) -> None:
    rng = random.Random(seed)
    hashes = [rng.getrandbits(64) for _ in range(size)]
    copy = edited(hashes, rng)
    left, right = Log(hashes, rng), Log(copy, rng)
    assert compared(left, right, most_runs) == first_unequal(hashes, copy)


def test_a_long_run_is_read_again_until_it_is_short() -> None:
    rng = random.Random(7)
    hashes = [rng.getrandbits(64) for _ in range(100_000)]
    copy = [*hashes]
    copy[77_777] ^= 1 << 63
    left, right = Log(hashes, rng), Log(copy, rng)
    suspect = Suspect(0, 2**17, Extent(0, left.end), Extent(0, right.end))
    search, reads = narrowed(suspect), 0
    try:
        asked = next(search)
        while True:
            reads += 1
            asked = search.send(
                (left.table(*asked.left, 4, 1024), right.table(*asked.right, 4, 1024))
            )
    except StopIteration as end:
        found = end.value
    assert found is not None
    assert found.rank <= 77_777 < found.rank + found.records <= found.rank + 1024
    assert reads <= 4  # by at least four each time
    assert left.offsets[found.rank] == found.left.start
    assert right.offsets[found.rank] == found.right.start


def test_sides_that_no_longer_differ_give_nothing() -> None:
    rng = random.Random(1)
    log = Log([rng.getrandbits(64) for _ in range(5_000)], rng)
    search = narrowed(Suspect(0, 8192, Extent(0, log.end), Extent(0, log.end)))
    next(search)
    with pytest.raises(StopIteration) as end:
        search.send((log.table(0, log.end, 8, 1024), log.table(0, log.end, 8, 1024)))
    assert end.value.value is None


@given(st.integers(0, 3_000), st.sampled_from([4, 5, 16]), st.integers(0, 2**32))
def test_a_table_stays_small_and_loses_nothing(size: int, most_runs: int, seed: int) -> None:
    rng = random.Random(seed)
    log = Log([rng.getrandbits(64) for _ in range(size)], rng)
    made = log.table(0, log.end, most_runs, 4)
    assert len(made.runs) <= most_runs
    assert made.digest == log.table(0, log.end, 10_000, 4).digest
    assert [run.start for run in made.runs] == log.offsets[:: made.run_records]


@pytest.mark.parametrize(
    ("left", "right", "at", "kind"),
    [
        ([1, 2, 3], [1, 3], 1, DifferenceKind.MISSING),
        ([1, 2], [1], 1, DifferenceKind.MISSING),
        ([1, 3], [1, 2, 3], 1, DifferenceKind.ADDED),
        ([1], [1, 2], 1, DifferenceKind.ADDED),
        ([1, 2, 3], [2, 1, 3], 0, DifferenceKind.ORDER),
        ([1, 2, 3], [1, 9, 3], 1, DifferenceKind.DIFFERS),
        ([1], [2], 0, DifferenceKind.DIFFERS),
    ],
)
def test_kinds(left: list[int], right: list[int], at: int, kind: DifferenceKind) -> None:
    assert first_unequal(left, right) == at
    assert kind_at(left, right, at) is kind


# ── the latest record of each key ──

Rows = list[tuple[int, int | None]]
ROWS = st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(1, 3)), max_size=25)


def latest(rows: Rows, ignore_tombstones: bool) -> Latest:
    made = Latest(ignore_tombstones=ignore_tombstones)
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    hashes = [key * 100 + (value or 0) for key, value in rows]
    made.add(keys, hashes, range(len(rows)), [value is not None for value in values])
    return made


@given(ROWS, ROWS, st.booleans())
def test_latest_keys_are_those_of_dicts(ours: Rows, theirs: Rows, ignore: bool) -> None:
    def kept(rows: Rows) -> dict[int, int | None]:
        found = dict(rows)
        return {key: value for key, value in found.items() if value is not None or not ignore}

    found = first_key_difference(latest(ours, ignore), latest(theirs, ignore))
    left, right = kept(ours), kept(theirs)
    differing = {
        key for key in left.keys() | right.keys() if left.get(key, "") != right.get(key, "")
    }
    assert (0 if found is None else found.keys) == len(differing)
    assert len(latest(ours, ignore)) == len(left)
    if found is not None:
        last = {key: at for at, (key, _) in enumerate(ours)}
        on_left = [last[key] for key in differing if key in left]
        assert found.left_offset == (min(on_left) if on_left else -1)


def test_keys_that_come_and_go_take_no_more_memory() -> None:
    made = latest([(1, 1), (1, None)] * 50, ignore_tombstones=True)
    assert len(made) == 0
    assert len(made._hashes) == 1


# ── plans ──


def test_names() -> None:
    assert named_topics(["a", "b"]) == {"a": "a", "b": "b"}
    assert named_topics({"a": "copy"}) == {"a": "copy"}
    for wrong in ("a", [], {}, [1], {"a": 1}):
        with pytest.raises(ConfigError):
            named_topics(wrong)


def test_partitions_and_topics_that_one_side_lacks() -> None:
    pairs, lacking = matched(
        {"a": "a", "b": "copy", "c": "c"},
        {"a": frozenset({0, 1}), "b": frozenset({0, 1}), "c": frozenset({0})},
        {"a": frozenset({0, 1}), "copy": frozenset({0})},
    )
    assert [str(right) for _, right in pairs] == ["a-0", "a-1", "copy-0"]
    assert [one.difference and one.difference.kind for one in lacking] == [
        DifferenceKind.NO_PARTITION
    ] * 2
    assert "2 on the left, 1 on the right" in str(lacking[0].difference)
    assert (lacking[0].left, lacking[0].right) == (TopicPartition("b", 1), None)
    assert 'right side has no topic "c"' in str(lacking[1].difference)


def test_a_topic_that_nobody_has_is_a_wrong_name() -> None:
    with pytest.raises(ConfigError, match='Did you mean "flights"'):
        matched({"flight": "flight"}, {"flights": frozenset({0})}, {})


@given(st.tuples(*[st.integers(0, 9)] * 4))
def test_what_is_compared_of_the_left_side_lies_within_what_is_there(
    numbers: tuple[int, int, int, int],
) -> None:
    asked, there = numbers[:2], Extent(*sorted(numbers[2:]))
    tp, other = TopicPartition("t", 0), TopicPartition("t", 1)
    found = within({tp: there, other: there}, {tp: asked, TopicPartition("u", 0): (0, 9)})
    assert set(found) == {tp}
    assert set(range(*found[tp])) == set(range(*asked)) & set(range(*there))


def test_an_alignment_says_what_belongs_together() -> None:
    left, right = {TP: Extent(10, 30)}, {TP: Extent(100, 200)}
    for says, extent in (
        ((120, 150), Extent(120, 150)),
        ((50, 150), Extent(100, 150)),  # what is gone is gone
        ((190, 900), Extent(190, 200)),
        ((500, 900), Extent(200, 200)),
    ):
        asked = []

        def align(
            tp: TopicPartition,
            start: int,
            end: int,
            says: tuple[int, int] = says,
            asked: list[object] = asked,
        ) -> tuple[int, int]:
            asked.append((tp, start, end))
            return says

        (pair,) = planned([(TP, TP)], left, right, align)
        assert (pair.left_extent, pair.right_extent, asked) == (
            Extent(10, 30),
            extent,
            [(TP, 10, 30)],
        )
    with pytest.raises(ConfigError, match=r"5\.\.4 for flights-0"):
        list(planned([(TP, TP)], left, right, lambda *_: (5, 4)))


def test_what_is_shown_is_short_and_harmless() -> None:
    assert shortened(b"\x1b[31m") == r"b'\x1b[31m'"
    assert len(shortened(b"v" * 10**6)) < 160
    assert shortened(b"v" * 10**6).endswith("(1000000 bytes)")
    record = ComparedRecord(TP, 1, -1, None, b"", (("h", None),))
    assert "headers    [('h', None)]" in record.lines()
