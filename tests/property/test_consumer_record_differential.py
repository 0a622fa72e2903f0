"""Records of the compiled kernel against those of the reference: the same to whoever uses them."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
from array import array
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from parley.kernel import ConsumerRecord, reference
from parley.kernel.contract import Columns
from parley.kernel.functions import RecordCursor
from parley.records.columns import Record, columns_from_records

native = pytest.importorskip(
    "parley.kernel.native", reason="the compiled kernel is not built", exc_type=ImportError
)

FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "delivery_count",
)
INT64 = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=9)
HEADERS = st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=3).map(tuple)


@st.composite
def columns(draw: st.DrawFn) -> Columns:
    """Draw columns, some of which were not decoded."""
    offset, rows = draw(st.integers(0, 2**62)), []
    for gap in draw(st.lists(st.integers(1, 3), max_size=9)):
        offset += gap
        rows.append(
            Record(
                offset,
                draw(INT64),
                draw(st.integers(-1, 1)),
                draw(BYTES),
                draw(BYTES),
                draw(HEADERS),
            )
        )
    made = columns_from_records(rows)
    left_out = draw(st.sets(st.sampled_from(["timestamps", "timestamp_types", "key", "value"])))
    return Columns(
        **{
            name: None if name in left_out else getattr(made, name)
            for name in (
                "rows", "offsets", "timestamps", "timestamp_types", "key", "value", "headers"
            )
        }
    )  # fmt: skip


def fields(record: ConsumerRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


def cursors(found: Columns, counts: list[int] | None) -> list[RecordCursor]:
    """Return both kernels' cursors over the same columns, in two epochs."""
    offsets = memoryview(found.offsets or b"").cast("B").cast("q")
    middle = offsets[found.rows // 2] if found.rows else 0
    epochs = ((middle, 3), (2**63 - 1, 7))
    said = None if counts is None else array("i", counts).tobytes()
    return [
        kernel.record_cursor(found, "flights", 5, epochs, 2**62 + 99, said)
        for kernel in (native, reference)
    ]


@given(columns(), st.data())
def test_both_kernels_hand_out_the_same(found: Columns, data: st.DataObject) -> None:
    counts = data.draw(
        st.none() | st.lists(st.integers(0, 2), min_size=found.rows, max_size=found.rows)
    )
    ours, theirs = cursors(found, counts)
    steps: list[Callable[[RecordCursor], list[ConsumerRecord]]] = [
        lambda cursor: [one] if (one := cursor.take_one()) is not None else [],
        lambda cursor: cursor.take(0),
        lambda cursor: cursor.take(2),
        lambda cursor: cursor.take(2**31),
    ]
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=8)):
        left, right = step(ours), step(theirs)
        assert [fields(one) for one in left] == [fields(one) for one in right]
        assert [repr(one) for one in left] == [repr(one) for one in right]
        assert [hash(one) for one in left] == [hash(one) for one in right]
        assert (len(ours), ours.position) == (len(theirs), theirs.position)


@given(columns())
def test_a_decoded_record_equals_one_that_was_made(found: Columns) -> None:
    for kernel, cursor in zip((native, reference), cursors(found, None), strict=True):
        for record in cursor.take(2**31):
            named = dict(zip(FIELDS, fields(record), strict=True))
            made = kernel.ConsumerRecord(**named)
            assert record == made == kernel.ConsumerRecord(*named.values()) == copy.copy(record)
            assert hash(record) == hash(made)
            assert repr(record) == repr(made)
            other = record.replace(offset=record.offset - 1)
            assert record != other
            assert other.replace(offset=record.offset) == record
            assert record != tuple(named.values())


@pytest.mark.parametrize("kernel", [native, reference])
def test_what_an_application_may_do_with_a_record(kernel: type) -> None:
    record = kernel.ConsumerRecord(  # type: ignore[attr-defined]
        topic="t", partition=0, offset=7, timestamp=1, timestamp_type=0, key=None, value=b"v"
    )
    assert (record.headers, record.leader_epoch, record.delivery_count) == ((), -1, None)
    match record:
        case kernel.ConsumerRecord("t", 0, offset):  # type: ignore[attr-defined]
            assert offset == 7
    with pytest.raises(AttributeError):
        record.value = b"w"
    with pytest.raises(TypeError):
        record.replace(size=3)
    with pytest.raises(TypeError):
        kernel.ConsumerRecord("t", 0, 7)  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        record < record  # noqa: B015
    assert copy.deepcopy(record) == record
    assert len({record, copy.copy(record)}) == 1


def test_both_are_documented_alike() -> None:
    ours, theirs = native.ConsumerRecord, reference.ConsumerRecord
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)
    assert inspect.getdoc(ours.replace) == inspect.getdoc(theirs.replace)
    assert (ours.__module__, ours.__qualname__) == (theirs.__module__, theirs.__qualname__)
    assert ours.__match_args__ == theirs.__match_args__ == FIELDS


def test_a_record_can_be_sent_from_one_kernel_to_the_other() -> None:
    script = (
        "import pickle, sys\n"
        "from parley.client import ConsumerRecord\n"
        "found = pickle.load(sys.stdin.buffer)\n"
        "assert type(found) is ConsumerRecord\n"
        "sys.stdout.buffer.write(pickle.dumps(found))\n"
    )
    (record,) = cursors(columns_from_records([Record(7, 1, 0, b"k", None)]), None)[0].take(1)
    there = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(record),
        env={**os.environ, "PARLEY_PURE": "1"},
        capture_output=True,
        check=True,
    )
    assert pickle.loads(there.stdout) == record


def test_the_garbage_collector_does_not_count_records() -> None:
    """A million records in a list would have it run a thousand times, over all that there is."""
    offsets = array("q", range(5_000)).tobytes()
    cursor = native.record_cursor(Columns(rows=5_000, offsets=offsets), "t", 0, (), 5_000)
    collections: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        records = cursor.take(5_000)
        copies = [copy.copy(record) for record in records[:10]]
    finally:
        gc.callbacks.remove(note)
    assert not collections
    assert not any(gc.is_tracked(record) for record in records + copies)


def test_records_may_outlive_everything_else() -> None:
    """What a program still has when it ends is freed while Python ends."""
    program = """
import copy, sys
from array import array
from parley.kernel import ConsumerRecord, native
from parley.kernel.contract import Columns
sys.kept = [
    *native.record_cursor(Columns(rows=9, offsets=array("q", range(9))), "t", 0, (), 9).take(9),
    ConsumerRecord("t", 0, 7, 1, 0, None, b"v"),
]
class Late:
    def __del__(self):
        copies = [copy.copy(record) for record in self.records]
        print(copies == self.records, repr(copies[-1]), hash(copies[0]) == hash(self.records[0]))
late = Late()
late.records = sys.kept
late.itself = late
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("True ConsumerRecord(topic='t', partition=0, offset=7"), ended
    assert ended.stdout.endswith("True\n")


def test_records_are_freed() -> None:
    """Each refers to its class and to its chunk; none of them keeps these longer."""
    kind = native.ConsumerRecord
    before = sys.getrefcount(kind)
    cursor = native.record_cursor(Columns(rows=2_000), "t", 0, (), 2_000)
    records = cursor.take(2_000)
    made = [record.replace(value=[record]) for record in records]
    assert sys.getrefcount(kind) >= before + 4_000
    del cursor, records, made
    assert sys.getrefcount(kind) == before
