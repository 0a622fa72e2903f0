"""Hashes of records against the xxHash library, and what digests of runs must keep apart."""

from __future__ import annotations

import struct
from itertools import pairwise

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, strategies as st

from parley.arrow import HEADERS_TYPE, columns_from_arrow
from parley.kernel import DIGEST_BASE, DIGEST_MODULUS, reference
from parley.kernel.contract import Columns, KernelError, KernelErrorKind
from parley.kernel.functions import Kernel
from parley.records import Record, RunDigest, columns_from_records, digest_runs, var_column

BASE = Record(0, 1_700_000_000_000, 0, b"key", b"value", (("a", b"1"), ("b", None)))
OTHERS = [
    BASE._replace(timestamp_ms=BASE.timestamp_ms + 1),
    BASE._replace(key=None),
    BASE._replace(key=b""),
    BASE._replace(value=None),
    BASE._replace(value=b""),
    BASE._replace(value=b"valuf"),  # one bit
    BASE._replace(key=b"keyv", value=b"alue"),  # the same bytes, cut elsewhere
    BASE._replace(key=b"value", value=b"key"),
    BASE._replace(headers=()),
    BASE._replace(headers=(("a", b"1"),)),
    BASE._replace(headers=(("a", b"1"), ("b", b""))),
    BASE._replace(headers=(("b", None), ("a", b"1"))),
    BASE._replace(headers=(("a", b"1"), ("b", None), ("b", None))),
    BASE._replace(headers=(("a1", b""), ("b", None))),
]


def hashes(kernel: Kernel, columns: Columns) -> list[int]:
    return memoryview(kernel.record_hashes(columns)).cast("B").cast("Q").tolist()


def form(record: Record, *, timestamp: bool = True) -> bytes:
    """Return what a record is hashed as, written from the contract's words."""

    def nullable(value: bytes | None) -> bytes:
        return struct.pack("<i", -1) if value is None else struct.pack("<i", len(value)) + value

    parts = [struct.pack("<q", record.timestamp_ms)] if timestamp else []
    parts += [nullable(record.key), nullable(record.value)]
    parts.append(struct.pack("<i", len(record.headers)))
    for name, value in record.headers:
        parts += [nullable(name.encode()), nullable(value)]
    return b"".join(parts)


def test_each_part_of_a_record_counts(kernel: Kernel) -> None:
    rows = [BASE, *OTHERS]
    found = hashes(kernel, columns_from_records(rows))
    assert found == [xxhash.xxh64_intdigest(form(row)) for row in rows]
    assert len(set(found)) == len(rows)


def test_offsets_and_kinds_of_timestamps_do_not_count(kernel: Kernel) -> None:
    rows = [BASE, BASE._replace(offset=9, timestamp_type=1)]
    one, other = hashes(kernel, columns_from_records(rows))
    assert one == other


def test_without_timestamps(kernel: Kernel) -> None:
    columns = columns_from_records([BASE, OTHERS[0]])
    columns = Columns(2, key=columns.key, value=columns.value, headers=columns.headers)
    expected = xxhash.xxh64_intdigest(form(BASE, timestamp=False))
    assert hashes(kernel, columns) == [expected] * 2


@pytest.mark.parametrize("size", [*range(80), 1023, 1024, 70_001])
def test_values_of_each_length(kernel: Kernel, size: int) -> None:
    row = BASE._replace(value=bytes(at * 31 & 0xFF for at in range(size)))
    assert hashes(kernel, columns_from_records([row])) == [xxhash.xxh64_intdigest(form(row))]


def test_rows_cut_out_of_an_arrow_batch(kernel: Kernel) -> None:
    """Their bitmaps begin in the middle of a byte, their offsets not at 0."""
    rows = [BASE, *OTHERS]
    batch = pa.record_batch(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "timestamp": pa.array([row.timestamp_ms for row in rows], pa.timestamp("ms")),
            "headers": pa.array(
                [[{"key": k, "value": v} for k, v in row.headers] for row in rows], HEADERS_TYPE
            ),
        }
    ).slice(3, 9)
    found = hashes(kernel, columns_from_arrow(batch, now_ms=0).columns)
    assert found == [xxhash.xxh64_intdigest(form(row)) for row in rows[3:12]]


def test_columns_that_are_too_short_are_refused(kernel: Kernel) -> None:
    for columns in (
        Columns(2, key=var_column([b"k"])),
        Columns(2, timestamps=struct.pack("<q", 1)),
        Columns(2, value=var_column([])),
    ):
        with pytest.raises(KernelError) as caught:
            kernel.record_hashes(columns)
        assert caught.value.kind is KernelErrorKind.ARGUMENT


@pytest.mark.parametrize(("first", "run"), [(0, 5), (5, 0), (-1, 5), (5, -1)])
def test_runs_of_nothing_are_refused(kernel: Kernel, first: int, run: int) -> None:
    with pytest.raises(KernelError) as caught:
        kernel.digest_runs(bytes(8), first, run)
    assert caught.value.kind is KernelErrorKind.ARGUMENT


def test_a_digest_is_what_the_contract_says(kernel: Kernel) -> None:
    numbers = [0, 1, DIGEST_MODULUS - 1, DIGEST_MODULUS, DIGEST_MODULUS + 1, 2**64 - 1, 2**63]
    data = struct.pack("<7Q", *numbers)
    expected = []
    for part in (numbers[:2], numbers[2:5], numbers[5:]):
        powers = range(len(part) - 1, -1, -1)
        polynomial = sum(
            number * DIGEST_BASE**power for number, power in zip(part, powers, strict=True)
        )
        expected += [len(part), sum(part) % 2**64, polynomial % DIGEST_MODULUS]
    found = memoryview(kernel.digest_runs(data, 2, 3)).cast("B").cast("Q").tolist()
    assert found == expected


def test_the_base_is_a_primitive_root() -> None:
    """Its powers do not repeat before the modulus does."""
    order = DIGEST_MODULUS - 1
    factors = [2, 3, 5, 7, 11, 13, 31, 41, 61, 151, 331, 1321]
    left = order
    for factor in factors:
        while left % factor == 0:
            left //= factor
    assert left == 1
    assert all(pow(DIGEST_BASE, order // factor, DIGEST_MODULUS) != 1 for factor in factors)


HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=40)


def whole(numbers: list[int]) -> RunDigest:
    data = struct.pack(f"<{len(numbers)}Q", *numbers)
    return next(digest_runs(data, len(numbers) or 1, 1), RunDigest())


@given(HASHES, st.lists(st.integers(0, 40), max_size=5))
def test_digests_of_adjacent_runs_join_into_that_of_all(
    numbers: list[int], cuts: list[int]
) -> None:
    joined = RunDigest()
    for start, end in pairwise(sorted({0, len(numbers), *(min(at, len(numbers)) for at in cuts)})):
        joined = joined.joined(whole(numbers[start:end]))
    assert joined == whole(numbers)


@given(HASHES, HASHES, HASHES)
def test_it_does_not_matter_which_are_joined_first(
    one: list[int], two: list[int], three: list[int]
) -> None:
    a, b, c = whole(one), whole(two), whole(three)
    assert a.joined(b).joined(c) == a.joined(b.joined(c)) == whole([*one, *two, *three])


@given(HASHES, st.integers(1, 50), st.integers(1, 50))
def test_both_kernels_digest_alike(numbers: list[int], first: int, run: int) -> None:
    native = pytest.importorskip(
        "parley.kernel.native", reason="the compiled kernel is not built", exc_type=ImportError
    )
    data = struct.pack(f"<{len(numbers)}Q", *numbers)
    assert bytes(native.digest_runs(data, first, run)) == bytes(
        reference.digest_runs(data, first, run)
    )


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=40, unique=True), st.data())
def test_two_swapped_records_keep_the_sum_and_change_the_polynomial(
    numbers: list[int], data: st.DataObject
) -> None:
    one, other = sorted(
        data.draw(st.sets(st.integers(0, len(numbers) - 1), min_size=2, max_size=2))
    )
    if (numbers[one] - numbers[other]) % DIGEST_MODULUS == 0:
        return  # equal for the polynomial, as 8 in 2^64 pairs of hashes are
    swapped = list(numbers)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    before, after = whole(numbers), whole(swapped)
    assert before.hash_sum == after.hash_sum
    assert before.polynomial != after.polynomial
