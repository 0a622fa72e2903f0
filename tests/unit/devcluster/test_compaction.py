"""What compaction leaves of batches: the newest record of each key, at its offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.compaction import (
    CleanerRules,
    Compaction,
    LastOfProducer,
    Round,
    Stored,
    newest_offsets,
)
from parley.devcluster.state.log.transactions import AbortedTransaction
from parley.records import (
    Record,
    WriteOptions,
    assign_offsets,
    columns_from_records,
    decode_columns,
    delete_horizon,
    emptied,
    encode_batches,
    end_marker,
    records,
)

Pairs = Sequence[tuple[bytes, bytes | None]]
UNDATED = CleanerRules(dates_tombstones=False, keeps_last_batch=False)
DAY_MS = 86_400_000


class Written:
    """Batches as a leader stores them, one behind the other."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.end = 0

    def batch(
        self, *pairs: tuple[bytes, bytes | None], codec: int = 0, magic: int = 2, **options: int
    ) -> Stored:
        rows = [Record(n, 1_000 + n, 0, key, value) for n, (key, value) in enumerate(pairs)]
        columns = columns_from_records(rows, with_offsets=False)
        (made,) = encode_batches(columns, None, WriteOptions(codec=codec, magic=magic, **options))  # type: ignore[arg-type]
        return self._add(made.data)

    def marker(self, producer_id: int, *, commit: bool) -> Stored:
        return self._add(end_marker(producer_id, 0, 0, commit=commit, now_ms=1_000))

    def _add(self, data: bytes | bytearray | memoryview) -> Stored:
        final = memoryview(bytes(assign_offsets(bytearray(data), self.end, 0)))
        facts = read_facts(final)
        assert facts is not None
        assert facts.size == len(final), "one batch, or one message"
        stored = Stored(facts, final)
        self.batches.append(stored)
        self.end = stored.next_offset
        return stored


def cleaned(
    batches: Sequence[Stored],
    *,
    first_dirty: int = 0,
    bound: int | None = None,
    now_ms: int = 10_000,
    retention_ms: int = DAY_MS,
    written_ms: int = 1_000,
    **options: object,
) -> list[Stored]:
    """Return what a round leaves of batches, those behind its bound as they are."""
    bound = batches[-1].next_offset if bound is None else bound
    todo = Round(
        first_dirty=first_dirty,
        bound=bound,
        now_ms=now_ms,
        delete_retention_ms=retention_ms,
        **options,  # type: ignore[arg-type]
    )
    below = [one for one in batches if one.next_offset <= bound]
    dirty = [one for one in below if one.next_offset > first_dirty]
    compaction = Compaction(todo, newest_offsets(dirty, todo))
    kept = [compaction.clean(one, written_ms) for one in below]
    found = [Stored(one.facts, memoryview(one.data)) for one in kept if one is not None]
    assert compaction.records_gone == len(rows_of(below)) - len(rows_of(found))
    return [*found, *batches[len(below) :]]


def rows_of(batches: Iterable[Stored]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (row.offset, row.key, row.value)
        for batch in batches
        if not batch.facts.is_control
        for chunk in decode_columns(batch.data, first_offset=0)
        for row in records(chunk.columns)
    ]


def newest(rows: Iterable[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, object]:
    return {key: (offset, value) for offset, key, value in rows}


keys = st.sampled_from([b"a", b"b", b"c", b"d"])
values = st.one_of(st.none(), st.binary(max_size=3))
pairs_of_a_batch = st.lists(st.tuples(keys, values), min_size=1, max_size=5)
some_batches = st.lists(
    st.tuples(pairs_of_a_batch, st.sampled_from([0, 1])), min_size=1, max_size=8
)


@settings(deadline=None, max_examples=50)
@given(some_batches, st.sampled_from([0, 1, 2]), st.data())
def test_of_each_key_the_newest_stays_and_nothing_above_the_bound_changes(
    batches: list[tuple[Pairs, int]], magic: int, data: st.DataObject
) -> None:
    log = Written()
    for pairs, codec in batches:
        if magic == 2 or codec:
            log.batch(*pairs, codec=codec, magic=magic)
        else:
            for pair in pairs:  # messages stand for themselves
                log.batch(pair, magic=magic)
    ends = [0, *(one.next_offset for one in log.batches)]
    bound = data.draw(st.sampled_from(ends))
    first_dirty = data.draw(st.sampled_from([end for end in ends if end <= bound]))
    before, found = rows_of(log.batches), cleaned(log.batches, first_dirty=first_dirty, bound=bound)
    after = rows_of(found)

    assert newest(row for row in after if row[0] < bound) == newest(
        row for row in before if row[0] < bound
    ), "the newest of each key, at its offset, tombstones too"
    assert [row for row in after if row[0] >= bound] == [row for row in before if row[0] >= bound]
    offsets = [row[0] for row in after]
    assert offsets == sorted(set(offsets))
    dirty = [row[1] for row in after if first_dirty <= row[0] < bound]
    assert len(dirty) == len(set(dirty)), "the dirty part has each key once"
    assert not set(dirty).intersection(row[1] for row in after if row[0] < first_dirty)
    if magic == 2:
        spans = {(one.facts.base_offset, one.facts.last_offset) for one in log.batches}
        assert spans.issuperset((one.facts.base_offset, one.facts.last_offset) for one in found)
    again = cleaned(found, first_dirty=first_dirty, bound=bound)
    assert rows_of(again) == after, "a second round finds nothing"


def test_records_without_a_key_go() -> None:
    """There are some where a topic was not compacted before."""
    log = Written()
    rows = [Record(0, 1_000, 0, None, b"v"), Record(1, 1_000, 0, b"k", b"v")]
    (made,) = encode_batches(columns_from_records(rows), None, WriteOptions())
    log._add(made.data)
    assert rows_of(cleaned(log.batches)) == [(1, b"k", b"v")]


# -- tombstones ------------------------------------------------------------------------------------


def test_a_tombstone_is_dated_by_the_first_round_and_goes_when_its_time_has_come() -> None:
    log = Written()
    log.batch((b"a", b"1"), (b"b", b"1"))
    log.batch((b"a", None))
    log.batch((b"c", b"1"))
    once = cleaned(log.batches, now_ms=10_000, retention_ms=500)
    assert rows_of(once) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    assert [delete_horizon(one.data) for one in once] == [None, 10_500, None]
    assert cleaned(once, first_dirty=4, now_ms=10_499) == once
    gone = cleaned(once, first_dirty=4, now_ms=10_500)
    assert rows_of(gone) == [(1, b"b", b"1"), (3, b"c", b"1")]


@pytest.mark.parametrize(("until_ms", "stays"), [(None, True), (999, True), (1_000, False)])
@pytest.mark.parametrize("magic", [1, 2])
def test_without_dates_a_tombstone_goes_with_the_age_of_its_segment(
    until_ms: int | None, stays: bool, magic: int
) -> None:
    log = Written()
    log.batch((b"a", None), magic=magic)
    log.batch((b"b", b"1"), magic=magic)
    found = cleaned(log.batches, undated_until_ms=until_ms, rules=UNDATED, written_ms=1_000)
    assert (rows_of(found)[0] == (0, b"a", None)) is stays
    assert {delete_horizon(one.data) for one in found if one.facts.magic == 2} <= {None}


def test_messages_go_by_the_age_of_their_segment_also_where_batches_are_dated() -> None:
    log = Written()
    log.batch((b"a", None), (b"b", None), (b"c", b"1"), magic=1, codec=1)
    assert cleaned(log.batches) == log.batches
    found = cleaned(log.batches, undated_until_ms=1_000)
    assert rows_of(found) == [(2, b"c", b"1")]


# -- producers and transactions --------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    log = Written()
    mine = {"producer_id": 7, "producer_epoch": 0}
    log.batch((b"a", b"1"), base_sequence=0, **mine)
    log.batch((b"a", b"2"), (b"b", b"2"), base_sequence=1, **mine)
    log.batch((b"a", b"3"), (b"b", b"3"))
    found = cleaned(log.batches, producers={7: LastOfProducer(2, 0)})
    assert rows_of(found) == [(3, b"a", b"3"), (4, b"b", b"3")]
    facts = found[0].facts
    assert (facts.base_offset, facts.last_offset, facts.record_count) == (1, 2, 0)
    assert (facts.base_sequence, facts.last_sequence) == (1, 2)
    assert cleaned(found, producers={7: LastOfProducer(2, 0)}) == found
    assert len(cleaned(found, producers={7: LastOfProducer(9, 0)})) == 1, "it wrote later ones"


def transactional(log: Written, *, commit: bool) -> AbortedTransaction:
    mine = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    first = log.batch((b"a", b"2"), base_sequence=0, **mine)
    marker = log.marker(7, commit=commit)
    log.batch((b"z", b"1"))
    begin, end = first.facts.base_offset, marker.facts.last_offset
    return AbortedTransaction(7, begin, end, end + 1)


def test_records_of_an_aborted_transaction_go_at_once_and_count_for_nothing() -> None:
    log = Written()
    log.batch((b"a", b"1"))
    aborted = transactional(log, commit=False)
    found = cleaned(log.batches, aborted=[aborted])
    assert rows_of(found) == [(0, b"a", b"1"), (3, b"z", b"1")]
    assert [one.facts.is_control for one in found] == [False, True, False]
    assert delete_horizon(found[1].data) is None, "the round met records of it"


@pytest.mark.parametrize("rules", [CleanerRules(), UNDATED])
def test_a_marker_goes_when_nothing_is_left_of_its_transaction(rules: CleanerRules) -> None:
    log = Written()
    aborted = transactional(log, commit=False)
    now_ms, until_ms = 10_000, 500
    states = [log.batches]
    for _ in range(3):
        states.append(
            cleaned(
                states[-1], rules=rules, now_ms=now_ms, retention_ms=100,
                undated_until_ms=until_ms, aborted=[aborted] if len(states) == 1 else [],
            )
        )  # fmt: skip
        now_ms, until_ms = now_ms + 200, 1_000 if len(states) > 1 else 500
    kinds = [[one.facts.control_type for one in state] for state in states]
    data, marker = -1, 0
    if rules.dates_tombstones:  # one round dates it, the next one takes it
        assert kinds == [[data, marker, data], [marker, data], [marker, data], [data]]
        assert delete_horizon(states[2][0].data) == 10_300
    else:
        assert kinds == [[data, marker, data], [marker, data], [data], [data]]


def test_a_round_says_of_which_aborted_transactions_readers_must_know() -> None:
    log = Written()
    aborted = transactional(log, commit=False)
    todo = Round(
        first_dirty=0, bound=log.end, now_ms=0, delete_retention_ms=0, aborted=[aborted],
        producers={7: LastOfProducer(0, 0)},
    )  # fmt: skip
    compaction = Compaction(todo, {})
    kept = [compaction.clean(one, 0) for one in log.batches]
    assert compaction.aborted == [aborted]
    assert kept[0] is not None
    assert kept[0].facts.record_count == 0
    later = Compaction(todo, {})
    for one in log.batches[1:]:
        later.clean(one, 0)
    assert later.aborted == []


def test_the_marker_of_a_committed_transaction_stays_with_its_records() -> None:
    log = Written()
    transactional(log, commit=True)
    log.batch((b"y", b"1"))
    assert cleaned(log.batches) == log.batches
    log.batch((b"a", b"3"))
    found = cleaned(log.batches, bound=log.end)
    assert [one.facts.control_type for one in found] == [1, -1, -1, -1]


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [CleanerRules(), UNDATED])
@pytest.mark.parametrize("whole", [True, False])
def test_the_last_batch_of_a_round_stays_empty_since_4_0(rules: CleanerRules, whole: bool) -> None:
    """Where nothing lies behind it, it does in every release: readers wait for the log's end."""
    log = Written()
    log.batch((b"a", b"1"))
    mine = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    last = log.batch((b"a", b"2"), base_sequence=0, **mine)
    aborted = AbortedTransaction(7, 1, 5, 6)
    found = cleaned(log.batches, rules=rules, is_whole=whole, aborted=[aborted])
    assert rows_of(found) == [(0, b"a", b"1")]
    stays = whole or rules.keeps_last_batch
    assert [bytes(one.data) for one in found[1:]] == ([emptied(last.data)] if stays else [])


def test_a_message_at_the_end_of_a_log_stays_with_one_record() -> None:
    log = Written()
    log.batch((b"a", None), (b"b", None), magic=1, codec=1)
    found = cleaned(log.batches, undated_until_ms=1_000, is_whole=True)
    assert rows_of(found) == [(1, b"b", None)]
    assert rows_of(cleaned(log.batches, undated_until_ms=1_000)) == []
