"""Records of the compiled kernel against those of the reference: the same to whoever uses them."""

from __future__ import annotations

import copy
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
