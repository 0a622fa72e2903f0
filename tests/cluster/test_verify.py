"""Comparing topics of embedded clusters: copies are equal, and each defect of a copy is found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from parley.client import AsyncClient, ProduceOptions, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, DataLossError
from parley.kernel import reference
from parley.pipelines.verify import (
    DifferenceKind,
    Verification,
    VerifyOptions,
    async_verify_topics,
    comparing,
    verify_topics,
)

from .copies import NOW_MS, ROWS, Row, Sides, made, table


@pytest.fixture(scope="module")
def sides() -> Iterator[Sides]:
    with ExitStack() as stack:
        left = stack.enter_context(LocalCluster(brokers=1, release="4.3"))
        right = stack.enter_context(LocalCluster(brokers=1, release="0.11.0"))
        yield Sides(left, right, stack)


@pytest.fixture(params=["active", "reference"])
def either_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr("parley.records.digest.active", reference)
        monkeypatch.setattr("parley.records.decode.active", reference)


# ── copies ──


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.9.0.1", "4.3"), ("0.10.2.2", "4.3"), ("4.3", "0.11.0.3"), ("2.8", "3.9")],
    ids="-".join,
)
def test_copies_on_other_releases_are_equal_while_leaders_move(old: str, new: str) -> None:
    has_headers = not old.startswith("0.")
    with ExitStack() as stack:
        clusters = [stack.enter_context(LocalCluster(brokers=3, release=one)) for one in (old, new)]
        sides = Sides(clusters[0], clusters[1], stack)
        name = sides.topic((3, 3))
        rows = made(9_000)
        for client, batch_size in ((sides.left, 3_000), (sides.right, 50_000)):
            options = ProduceOptions(batch_size=batch_size)
            for index in range(3):
                part = table(rows[index * 3_000 : index * 3_000 + 3_000], headers=has_headers)
                client.produce(name, part, index, options)
        for cluster in clusters:
            cluster.faults.delay("Fetch", 20)
        timed = not old.startswith("0.9")
        with Moving(clusters, name) as moving:
            while moving.moves < 6:
                found = verify_topics(sides.left, sides.right, [name])
                assert found.equal, found
                assert [one.left_records for one in found.partitions] == [3_000] * 3
                assert [one.timestamps_compared for one in found.partitions] == [timed] * 3


class Moving:
    """Moves the leaders of a topic on several clusters, one after the other, until it is left."""

    def __init__(self, clusters: list[LocalCluster], topic: str) -> None:
        self._clusters, self._topic = clusters, topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._move)
        self.moves = 0

    def __enter__(self) -> Moving:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _move(self) -> None:
        while not self._over.wait(0.03):
            for cluster in self._clusters:
                index = self.moves // 2 % 3
                leader, _ = cluster.leaders(self._topic)[index]
                others = [one for one in cluster.isr(self._topic)[index] if one != leader]
                if others:
                    cluster.move_leader(self._topic, index, others[0])
                    self.moves += 1


def test_holes_and_other_offsets_are_no_difference(sides: Sides, either_kernel: None) -> None:
    rows = made(900)
    name = sides.topic()
    sides.left.produce(name, table(rows), 0)
    with sides.right.transactions.producer(name) as producer:
        for at in range(0, 900, 100):
            producer.begin_transaction()
            producer.produce(name, table(rows[at : at + 100]), 0)
            producer.commit_transaction()
            producer.begin_transaction()
            producer.produce(name, table(rows[:7]), 0)
            producer.abort_transaction()
    found = sides.compare(name)
    assert found.equal, found
    assert (found.left_records, found.right_records) == (900, 900)
    assert (found.left_range, found.right_range) == ((0, 900), (0, 900 + 9 * 9))
    uncommitted = sides.compare(name, isolation_level="read_uncommitted")
    assert uncommitted.difference is not None
    assert uncommitted.right_records == 900 + 9 * 7


def test_what_is_written_after_the_call_began_does_not_count(sides: Sides) -> None:
    rows = made(500)
    name = sides.filled(rows, rows)
    written = []

    def align(tp: TopicPartition, start: int, end: int) -> tuple[int, int]:
        """Called between planning and reading, in the loop's thread."""
        writer = threading.Thread(target=lambda: sides.left.produce(name, table(rows), 0))
        written.append(writer)
        writer.start()
        return start, end

    assert sides.compare(name, alignment=align).equal
    written[0].join()
    assert sides.compare(name).difference is not None


# ── defects ──

Edit = Callable[[list[Row]], object]


def _set(at: int, **changes: object) -> Edit:
    def edit(rows: list[Row]) -> None:
        rows[at] = rows[at]._replace(**changes)  # type: ignore[arg-type]

    return edit


def _swap(at: int, to: int) -> Edit:
    def edit(rows: list[Row]) -> None:
        rows[at], rows[to] = rows[to], rows[at]

    return edit


DIFFERS, MISSING, ADDED, ORDER = (
    DifferenceKind.DIFFERS,
    DifferenceKind.MISSING,
    DifferenceKind.ADDED,
    DifferenceKind.ORDER,
)
DEFECTS: dict[str, tuple[Edit, int, DifferenceKind, str]] = {
    "one bit": (_set(1_499, value=b"value 1498"), 1_499, DIFFERS, "in value"),
    "key": (_set(7, key=b"k8"), 7, DIFFERS, "in key"),
    "null key made empty": (_set(1_500, key=b""), 1_500, DIFFERS, "in key"),
    "tombstone made empty": (_set(3, value=b""), 3, DIFFERS, "in value"),
    "header's null made empty": (
        _set(1, headers=(("trace", b"1"), ("empty", b""), ("null", b""))),
        1,
        DIFFERS,
        "in headers",
    ),
    "header order": (
        _set(2_999, headers=(("trace", b"2999"), ("null", None), ("empty", b""))),
        2_999,
        DIFFERS,
        "in headers",
    ),
    "timestamp": (_set(1_023, timestamp_ms=NOW_MS), 1_023, DIFFERS, "their timestamps alone"),
    "first missing": (lambda rows: rows.pop(0), 0, MISSING, "offset 0"),
    "last of a run missing": (lambda rows: rows.pop(1_023), 1_023, MISSING, "offset 1023"),
    "last missing": (lambda rows: rows.pop(), 2_999, MISSING, "offset 2999"),
    "one more": (lambda rows: rows.insert(1_024, Row(b"new", b"")), 1_024, ADDED, "offset 1024"),
    "one more at the end": (lambda rows: rows.append(rows[0]), 3_000, ADDED, "offset 3000"),
    "doubled": (lambda rows: rows.insert(5, rows[5]), 6, ADDED, "offset 6"),
    "neighbours swapped": (_swap(1_023, 1_024), 1_023, ORDER, "another order"),
    "swapped far away": (_swap(10, 2_900), 10, ORDER, "another order"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_found_where_it_is(sides: Sides, either_kernel: None, defect: str) -> None:
    edit, rank, kind, words = DEFECTS[defect]
    copy = list(ROWS)
    edit(copy)
    found = sides.compare(sides.filled(ROWS, copy))
    difference = found.difference
    assert difference is not None
    assert (difference.rank, difference.kind) == (rank, kind)
    assert words in difference.detail
    for record, rows in ((difference.left, ROWS), (difference.right, copy)):
        if rank >= len(rows):
            assert record is None
        else:
            assert record is not None
            row = Row(record.key, record.value, record.headers, record.timestamp_ms)
            assert (record.offset, row) == (rank, rows[rank])
    assert (found.left_records, found.right_records) == (len(ROWS), len(copy))


def test_a_difference_in_long_runs_is_narrowed_down(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a partition of many million records, of which four runs are kept here."""
    monkeypatch.setattr(comparing, "MOST_RUNS", 4)
    rows = [Row(None, b"%d" % at) for at in range(20_000)]
    copy = [*rows]
    del copy[15_003]
    found = sides.compare(sides.filled(rows, copy))
    assert found.difference is not None
    assert (found.difference.rank, found.difference.kind) == (15_003, MISSING)


def test_timestamps_can_be_left_out(sides: Sides) -> None:
    copy = [row._replace(timestamp_ms=NOW_MS) for row in ROWS]
    name = sides.filled(ROWS, copy)
    assert not sides.compare(name).equal
    found = sides.compare(name, ignore_timestamps=True)
    assert (found.equal, found.timestamps_compared) == (True, False)


def test_records_of_format_0_on_a_newer_broker_have_no_timestamps(sides: Sides) -> None:
    rows = [row._replace(headers=()) for row in made(50)]
    with LocalCluster(brokers=1, release="0.9") as old, ExitStack() as stack:
        both = Sides(old, sides.clusters[1], stack)
        name = both.topic()
        both.left.produce(name, table(rows, headers=False), 0)
        both.right.produce(name, table(rows), 0)
        old.stop_broker(1)
        old.start_broker(1, "0.10.2")
        assert both.left.supports("record-timestamps")
        (found,) = verify_topics(both.left, both.right, [name]).partitions
        assert (found.equal, found.timestamps_compared) == (True, False), found


def test_partitions_and_topics_that_are_missing(sides: Sides) -> None:
    more, fewer, gone = sides.topic((2, 1)), sides.topic((1, 2)), sides.topic((1, 0))
    found = verify_topics(sides.left, sides.right, [more, fewer, gone])
    assert [(str(one.left), str(one.right), one.equal) for one in found.partitions] == [
        (f"{more}-0", f"{more}-0", True),
        (f"{more}-1", "None", False),
        (f"{fewer}-0", f"{fewer}-0", True),
        ("None", f"{fewer}-1", False),
        (f"{gone}--1", "None", False),
    ]
    assert found.first_difference is not None
    assert found.first_difference.kind is DifferenceKind.NO_PARTITION
    with pytest.raises(ConfigError, match="neither side"):
        verify_topics(sides.left, sides.right, ["nobody-has-it"])


def test_an_empty_copy_differs(sides: Sides) -> None:
    for options in ({}, {"from_later_beginning": True}):
        found = sides.compare(sides.filled(ROWS[:5], []), **options)
        assert found.difference is not None
        assert (found.difference.kind, found.difference.rank) == (MISSING, 0)
    assert sides.compare(sides.filled([], [])).equal


# ── retention and compaction ──


@pytest.mark.parametrize("shorter", [0, 1], ids=["left", "right"])
@pytest.mark.parametrize("ignore_timestamps", [False, True])
def test_from_the_later_beginning(sides: Sides, shorter: int, ignore_timestamps: bool) -> None:
    options = {"ignore_timestamps": ignore_timestamps}
    name = sides.filled(ROWS, ROWS)
    sides.clusters[shorter].delete_records(name, 0, 1_234)
    assert not sides.compare(name, **options).equal
    found = sides.compare(name, from_later_beginning=True, **options)
    assert found.equal, found
    assert (found.left_records, found.right_records) == (3_000 - 1_234,) * 2
    assert (found.left_range[0], found.right_range[0]) == (1_234, 1_234)


def test_a_difference_after_the_later_beginning_is_found(sides: Sides) -> None:
    copy = [*ROWS]
    del copy[2_000]
    name = sides.filled(ROWS, copy)
    sides.clusters[0].delete_records(name, 0, 1_234)
    difference = sides.compare(name, from_later_beginning=True).difference
    assert difference is not None
    assert (difference.rank, difference.kind) == (2_000 - 1_234, MISSING)


def test_nothing_in_common_is_a_difference(sides: Sides) -> None:
    name = sides.filled(ROWS[:100], ROWS[100:200])
    difference = sides.compare(name, from_later_beginning=True).difference
    assert difference is not None
    assert difference.kind is DifferenceKind.NO_COMMON_BEGINNING


def test_the_latest_record_of_each_key(sides: Sides, either_kernel: None) -> None:
    def key(at: int) -> bytes:
        return b"k%d" % (at % 40)

    full = [Row(key(at), None if at % 40 == 9 else b"%d" % at) for at in range(400)]
    compacted = full[360:]
    name = sides.filled(full, compacted)
    assert not sides.compare(name).equal
    found = sides.compare(name, latest_per_key=True)
    assert found.equal, found
    assert (found.left_records, found.right_records) == (40, 40)
    for edit, kind, words in (
        (lambda rows: rows.__setitem__(3, Row(key(3), b"other")), DIFFERS, "1 key differs"),
        (lambda rows: rows.pop(3), MISSING, "lacks the record at"),
        (lambda rows: rows.append(Row(b"new", b"")), ADDED, "one more record"),
        (lambda rows: rows.__setitem__(3, Row(key(3), None)), DIFFERS, "in value"),
        (lambda rows: rows.__setitem__(9, Row(key(9), b"")), DIFFERS, "in value"),
        (lambda rows: rows.pop(9), MISSING, "lacks the record at"),
    ):
        copy = [*compacted]
        edit(copy)
        difference = sides.compare(sides.filled(full, copy), latest_per_key=True).difference
        assert difference is not None
        assert difference.kind is kind
        assert words in difference.detail
    # the tombstone's own removal does not count where tombstones do not
    copy = [row for row in compacted if row.value is not None]
    found = sides.compare(sides.filled(full, copy), latest_per_key=True, ignore_tombstones=True)
    assert (found.equal, found.left_records) == (True, 39)


def test_options_that_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="needs latest_per_key"):
        VerifyOptions(ignore_tombstones=True)
    with pytest.raises(ConfigError, match="exclude each other"):
        VerifyOptions(latest_per_key=True, from_later_beginning=True)


def test_an_alignment_names_the_right_sides_offsets(sides: Sides) -> None:
    name = sides.filled(ROWS[:1_000], ROWS[500:2_000])
    asked = []

    def align(tp: TopicPartition, start: int, end: int) -> tuple[int, int]:
        asked.append((tp, start, end))
        return 0, 500

    sides.clusters[0].delete_records(name, 0, 500)
    found = sides.compare(name, alignment=align)
    assert found.equal, found
    assert asked == [(TopicPartition(name, 0), 500, 1_000)]
    assert (found.left_range, found.right_range) == ((500, 1_000), (0, 500))


def test_records_that_are_deleted_meanwhile_are_an_error(sides: Sides) -> None:
    name = sides.filled(ROWS, ROWS)

    def align(tp: TopicPartition, start: int, end: int) -> tuple[int, int]:
        sides.clusters[0].delete_records(name, 0, 2_000)
        return start, end

    with pytest.raises(DataLossError) as caught:
        sides.compare(name, alignment=align)
    assert "retention" in "".join(caught.value.__notes__)


async def test_asynchronous_clients_and_other_names(sides: Sides) -> None:
    name = sides.filled(ROWS[:100], [])
    sides.right.produce(other := sides.topic(), table(ROWS[:100]), 0)
    servers = [cluster.bootstrap_servers for cluster in sides.clusters]
    async with (
        AsyncClient(bootstrap_servers=servers[0]) as left,
        AsyncClient(bootstrap_servers=servers[1]) as right,
    ):
        found: Verification = await async_verify_topics(left, right, {name: other})
    assert found.equal
    assert found.partitions[0].right == TopicPartition(other, 0)
