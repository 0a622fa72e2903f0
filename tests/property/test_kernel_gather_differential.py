"""Records that gather, in the compiled kernel and in the reference: equal rows, columns, batches.

Beside each other both are held against what was put in: a list of plain values.
"""

from __future__ import annotations

import gc
import sys
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st
from tests.property.test_kernel_differential import plain

from parley.kernel import reference
from parley.kernel.contract import EncodeOptions, KernelError
from parley.kernel.gathering import GatheredBatches
from parley.records import decode_columns, partition_keys, records, var_column
from parley.types import TopicPartition

native = pytest.importorskip(
    "parley.kernel.native", reason="the compiled kernel is not built", exc_type=ImportError
)
KERNELS = (native, reference)
NOW_S, NOW_MS = 1_700_000_000.125, 1_700_000_000_125
PARTITIONS = 5


class Bytes(bytes):
    """What only somebody who looks at it may take for bytes."""


class Text(str):
    """The same for text."""

    __slots__ = ()


class Given(NamedTuple):
    """The arguments of one `gather`."""

    topic: Any = "t"
    value: Any = None
    key: Any = None
    headers: Any = None
    partition: Any = None
    timestamp_ms: Any = None
    callback: Any = None


def callback(*_: object) -> None:
    """Do nothing."""


fields = st.none() | st.binary(max_size=20)
pairs = st.tuples(st.text(max_size=4), fields)


def given_of(**parts: Any) -> st.SearchStrategy[Given]:
    """Return arguments of which some are drawn and the others left out."""
    return st.fixed_dictionaries(parts).map(lambda found: Given(**found))


usual = given_of(
    value=fields,
    key=fields,
    headers=st.none() | st.lists(pairs, max_size=3) | st.tuples(pairs),
    partition=st.none() | st.integers(0, PARTITIONS - 1),
    timestamp_ms=st.none() | st.integers(0, 2**63 - 1),
    callback=st.none() | st.just(callback),
)
plain_records = given_of(value=fields, key=fields)
strange = given_of(
    topic=st.sampled_from(["t", "nobody", Text("t"), b"t", None, [], 7]),
    value=fields | st.sampled_from(["text", 7, bytearray(b"v"), memoryview(b"v"), Bytes(b"v")]),
    key=fields | st.sampled_from(["text", 7, bytearray(b"v"), Bytes(b"k")]),
    headers=st.sampled_from(
        [
            None,
            [],
            (),
            {},
            "text",
            b"ab",
            7,
            [("a",)],
            [("a", b"", 1)],
            [["a", b""]],
            [(b"a", b"")],
            [("a", "b")],
            [("\ud800", b"")],
            [(Text("a"), b"")],
            [("a", Bytes(b""))],
            iter([]),
        ]
    ),
    partition=st.sampled_from([None, -1, PARTITIONS, 2**31, 2**80, True, 1.0, "1"]),
    timestamp_ms=st.sampled_from([None, -1, 2**63, 2**80, True, 1.0, "1"]),
    callback=st.sampled_from([None, callback, 7, "text"]),
)
steps = st.lists(usual | plain_records | strange | st.integers(0, 200), max_size=40)


class Both:
    """A gatherer of each kernel, to which the same is done."""

    def __init__(self, *, headers: bool = True) -> None:
        self.made: list[Any] = []
        self.kinds: list[Any] = []
        for kernel in KERNELS:
            gatherer = kernel.RecordGatherer("any", arguments=1)
            gatherer.admit(PARTITIONS, headers, nullcontext())
            self.made.append(gatherer)
            self.kinds.append(type("Row", (kernel.RowHandle,), {"__slots__": ()}))
        self.taken: list[Given] = []
        self.room = 0

    def grant(self, size: int) -> None:
        for gatherer in self.made:
            gatherer.grant(size)
        self.room += size

    def gather(self, step: Given) -> object:
        found = []
        for kernel, gatherer, kind in zip(KERNELS, self.made, self.kinds, strict=True):
            made = kernel.gather({"t": gatherer}, kind, NOW_S, *step)
            if type(made) is kind:
                assert made._owner is gatherer
                made = ("row", made._row)
            found.append(made)
        assert found[0] == found[1]
        if isinstance(found[0], tuple):
            assert found[0] == ("row", len(self.taken))
            self.taken.append(step)
            self.room -= size_of(step)
        elif isinstance(found[0], int):
            assert found[0] == size_of(step)
            assert step.topic != "t" or found[0] > self.room
        return found[0]

    def equal(self, name: str, *arguments: Any) -> Any:
        ours, theirs = (plain(getattr(kernel, name)(one, *arguments)) for kernel, one in self.zip())
        assert ours == theirs
        return ours

    def zip(self) -> Any:
        return zip(KERNELS, self.made, strict=True)

    def facts(self) -> Any:
        found = [
            (one.room, one.count, one.callbacks, one.unplaced(True), one.unplaced(False))
            for one in self.made
        ]
        assert found[0] == found[1]
        return found[0]


def size_of(step: Given) -> int:
    size = 16 + len(step.value or b"") + len(step.key or b"")
    return size + sum(4 + len(name.encode()) + len(v or b"") for name, v in step.headers or ())


def filled(taken: list[Any]) -> Both:
    both = Both()
    for step in taken:
        if isinstance(step, int):
            both.grant(step)
        else:
            both.gather(step)
    return both


@given(steps, st.booleans())
def test_what_is_gathered_is_what_was_given(taken: list[Any], headers: bool) -> None:
    both = Both(headers=headers)
    for step in taken:
        if isinstance(step, int):
            both.grant(step)
        else:
            both.gather(step)
    room, count, callbacks, keyless, unnamed = both.facts()
    assert (room, count) == (both.room, len(both.taken))
    assert unnamed == sum(step.partition is None for step in both.taken)
    assert keyless == sum(step.partition is None and step.key is None for step in both.taken)
    called = [step.callback for step in both.taken]
    while called and called[-1] is None:
        called.pop()
    assert (callbacks or []) == called
    found = [kernel.gathered_columns(one) for kernel, one in both.zip()]
    assert plain(found[0].columns) == plain(found[1].columns)
    assert plain(found[0].partitions) == plain(found[1].partitions)
    rows = records(found[0].columns)
    assert [(row.value, row.key, row.timestamp_ms) for row in rows] == [
        (step.value, step.key, NOW_MS if step.timestamp_ms is None else step.timestamp_ms)
        for step in both.taken
    ]
    assert [row.headers for row in rows] == [tuple(step.headers or ()) for step in both.taken]
    assert both.facts()[1] == 0


@given(
    st.lists(st.lists(usual | plain_records, max_size=30), max_size=5),
    st.booleans(),
    st.sampled_from([1, 2, PARTITIONS]),
    st.sampled_from([70, 150, 10_000]),
    st.sampled_from([0, 1, 4]),
)
def test_batches_hold_each_record_once_where_it_belongs(
    taken: list[list[Given]], hashed: bool, partitions: int, largest: int, codec: int
) -> None:
    gathered = [filled([10_000, *steps]) for steps in taken]
    options = EncodeOptions(max_bytes=largest, codec=codec)
    made: list[list[GatheredBatches | None]] = []
    for at, kernel in enumerate(KERNELS):
        work = []
        for both in gathered:
            both.made[at].close()
            runs = [(n % partitions, 1) for n in range(both.made[at].unplaced(hashed))]
            work.append((both.made[at], partitions, runs))
        made.append(kernel.encode_gathered(work, hashed, options))
    for both, ours, theirs in zip(gathered, *made, strict=True):
        outside = any((step.partition or 0) >= partitions for step in both.taken)
        if outside:
            assert ours is theirs is None
            assert both.facts()[1] == len(both.taken)  # kept, for somebody who looks at them
            continue
        assert ours is not None
        assert theirs is not None
        assert (plain(ours.order), plain(ours.times_ms)) == (
            plain(theirs.order), plain(theirs.times_ms),
        )  # fmt: skip
        assert [(one[0], *one[2:]) for one in ours.batches] == [
            (one[0], *one[2:]) for one in theirs.batches
        ]
        check(both.taken, ours, theirs, hashed, partitions)


def check(
    taken: list[Given], ours: GatheredBatches, theirs: GatheredBatches, hashed: bool, count: int
) -> None:
    """Hold batches against what was put in: each record once, at its partition, in its order."""
    order = range(len(taken))
    if ours.order is not None:
        order = memoryview(ours.order).cast("B").cast("i").tolist()
    assert sorted(order) == list(range(len(taken)))
    spread = 0
    where = []
    for step in taken:
        if step.partition is not None:
            where.append(step.partition)
        elif hashed and step.key is not None:
            where.append(partition_keys(var_column([step.key]), count, count=1)[0])
        else:
            where.append(spread % count)
            spread += 1
    place = 0
    last = -1
    for (partition, data, start, number), other in zip(ours.batches, theirs.batches, strict=True):
        assert start == place
        assert partition >= last
        rows = order[place : place + number]
        assert [where[row] for row in rows] == [partition] * number
        assert list(rows) == sorted(rows)
        for one in (data, other[1]):
            tp = TopicPartition("t", partition)
            (decoded,) = decode_columns(bytes(one), first_offset=0, where=tp)
            assert [(row.value, row.key, row.headers) for row in records(decoded.columns)] == [
                (taken[n].value, taken[n].key, tuple(taken[n].headers or ())) for n in rows
            ]
        place, last = place + number, partition
    assert place == len(taken)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_closed_takes_nothing(kernel: Any) -> None:
    gatherer = kernel.RecordGatherer()
    gatherer.admit(1, True, nullcontext())
    gatherer.grant(100)
    assert gatherer.append(b"v", None, (), -1, 0, None, 17) == 0
    assert gatherer.append(b"v", b"k", [(b"h", None)], 0, 0, None, 1_000) == -1
    assert gatherer.close() == (1, 83)
    assert gatherer.room == 0
    assert gatherer.append(b"v", None, (), -1, 0, None, 17) == -1
    kind = type("Row", (kernel.RowHandle,), {"__slots__": ()})
    assert kernel.gather({"t": gatherer}, kind, NOW_S, *Given(value=b"v")) == 17


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_format_that_there_is_not_is_refused_and_nothing_is_lost(kernel: Any) -> None:
    gatherer = kernel.RecordGatherer()
    gatherer.admit(1, True, nullcontext())
    gatherer.grant(100)
    gatherer.append(b"v", None, (), -1, 0, None, 17)
    gatherer.close()
    for options in (EncodeOptions(magic=3), EncodeOptions(codec=9)):
        with pytest.raises(KernelError):
            kernel.encode_gathered([(gatherer, 1, [])], True, options)
    assert gatherer.count == 1
    # more records go anywhere than the caller has places for
    assert kernel.encode_gathered([(gatherer, 2, [])], True, EncodeOptions()) == [None]
    assert gatherer.count == 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_keeps_its_owner_and_lets_go_of_it(kernel: Any) -> None:
    class Owner:
        pass

    kind = type("Row", (kernel.RowHandle,), {"__slots__": ()})
    owner = Owner()
    before, kinds = sys.getrefcount(owner), sys.getrefcount(kind)
    rows = [kernel.row_handle(kind, owner, row) for row in range(1_000)]
    assert sys.getrefcount(owner) == before + 1_000
    assert [row._row for row in rows] == list(range(1_000))
    assert all(type(row) is kind for row in rows)
    del rows
    gc.collect()
    assert (sys.getrefcount(owner), sys.getrefcount(kind)) == (before, kinds)
    with pytest.raises((AttributeError, TypeError)):
        kernel.row_handle(kind, owner, 1).other = 1
    with pytest.raises(TypeError):
        kernel.row_handle(Owner, owner, 1)


def test_the_collector_does_not_look_at_rows_of_the_compiled_kernel() -> None:
    kind = type("Row", (native.RowHandle,), {"__slots__": ()})
    row = native.row_handle(kind, [], 1)
    assert not gc.is_tracked(row)
    assert sys.getsizeof(row) <= 48
