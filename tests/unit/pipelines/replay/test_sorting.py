"""Rows sorted within bounded memory come out as a plain sort has them."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.errors import KafkaError
from parley.pipelines.replay.sorting import MOST_RUNS, PIECE_BYTES, Sorter

BY = ("time", "name", "amount")
AMOUNT = pa.decimal128(9, 2)
SCHEMA = pa.schema(
    [("time", pa.int64()), ("name", pa.binary()), ("amount", AMOUNT), ("number", pa.int64())]
)
rows = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.binary(max_size=2),
        st.none() | st.decimals(-2, 2, places=2),
    ),
    max_size=60,
)


def batches(
    found: list[tuple[int | None, bytes | None, Decimal | None]], size: int
) -> list[pa.RecordBatch]:
    numbered = [
        dict(zip(SCHEMA.names, (*one, number), strict=True)) for number, one in enumerate(found)
    ]
    return [
        pa.RecordBatch.from_pylist(numbered[at : at + size], SCHEMA)
        for at in range(0, len(numbered), size)
    ]


@given(rows, st.integers(1, 20), st.integers(1, 2_000))
def test_all_rows_come_once_and_in_order_whatever_fits(
    found: list[tuple[int | None, bytes | None, Decimal | None]], size: int, limit_bytes: int
) -> None:
    sorter = Sorter(BY, limit_bytes)
    for batch in batches(found, size):
        sorter.add(batch)
    out = [row for batch in sorter.rows() for row in batch.to_pylist()]
    sorter.close()
    keys = [tuple((row[name] is None, row[name]) for name in BY) for row in out]
    assert keys == sorted(tuple((value is None, value) for value in one) for one in found)
    assert sorted(row["number"] for row in out) == list(range(len(found)))


def test_what_waits_in_files_is_gone_afterwards_and_little_of_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limit, piece = 1_000_000, pa.array([b"x" * 100] * 10_000)
    sorter = Sorter(("time",), limit)
    before = pa.total_allocated_bytes()
    for at in range(20):
        times = pa.array(range(at, 200_000, 20), pa.int64())
        sorter.add(pa.RecordBatch.from_arrays([times, piece], names=["time", "value"]))
    assert pa.total_allocated_bytes() - before < 3 * limit
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.iterdir())) > MOST_RUNS
    seen = 0
    for batch in sorter.rows():
        assert len(list(folder.iterdir())) <= MOST_RUNS  # some were merged into one
        assert batch.column("time").to_pylist() == list(range(seen, seen + batch.num_rows))
        assert batch.nbytes < (MOST_RUNS + 1) * 1.1 * PIECE_BYTES
        seen += batch.num_rows
    assert seen == 200_000
    sorter.close()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    sorter = Sorter(("time",), 10)
    with pytest.raises(KafkaError, match="name another folder in TMPDIR"):
        sorter.add(pa.RecordBatch.from_pydict({"time": [3, 1, 2]}))
