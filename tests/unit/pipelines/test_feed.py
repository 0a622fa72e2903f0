"""Rows as records: numbers, keys, checksums, pace, and what counts as acknowledged."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from parley.pipelines.demo.feed import (
    Feeder,
    Ledger,
    Pace,
    chunks,
    encode_key,
    row_type,
    typed_rows,
)
from parley.pipelines.demo.inputs import Dataset, InputError, open_input
from parley.serdes import ColumnEncoder, Deserializer, derived_schema

from ...support import GENEROUS_S


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    path = tmp_path / "a.csv"
    path.write_text("id,kind\n" + "".join(f"{n},k{n % 3}\n" for n in range(250)))
    return open_input(path)


def encode(rows: pa.StructArray) -> pa.Array:
    """Return rows as Avro without a frame."""
    schema = derived_schema(rows.type)
    return ColumnEncoder(None, schema=schema, framing="none").encode_values(rows).array


def test_every_row_is_a_record_that_can_be_found_again(dataset: Dataset) -> None:
    read = Deserializer(None, derived_schema(row_type(dataset)), framing="none")
    seen = 0
    for chunk in chunks(dataset, encode):
        assert chunk.first_row == seen
        for index, record in enumerate(chunk.batch.to_pylist()):
            number = seen + index
            assert read(record["value"]) == {
                "row_id": number,
                "id": number,
                "kind": f"k{number % 3}",
            }
            assert record["key"] == str(number).encode()
            assert [header["key"] for header in record["headers"]] == ["source", "content-type"]
            assert zlib.crc32(record["value"]) == chunk.checksums[index]
        seen += chunk.batch.num_rows
    assert seen == 250


def test_headers_are_left_out_where_brokers_do_not_take_them(dataset: Dataset) -> None:
    assert next(chunks(dataset, encode, headers=False)).batch.schema.names == ["key", "value"]


def test_any_column_has_a_name_that_avro_allows_and_keeps_its_values(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(
        '{"dep-time": 1, "dep time": 2.5, "2nd": true, "ü": "x", "any": 1}\n'
        '{"dep-time": null, "dep time": 3, "any": {"a": [1, "ü"]}}\n'
    )
    dataset = open_input(path)
    rows = typed_rows(dataset, 7, list(dataset.rows()))
    assert rows.to_pylist() == [
        {"row_id": 7, "dep_time": 1, "dep_time_2": 2.5, "_2nd": True, "_": "x", "any": "1"},
        {"row_id": 8, "dep_time": None, "dep_time_2": 3.0, "_2nd": None, "_": None,
         "any": '{"a":[1,"\\u00fc"]}'},
    ]  # fmt: skip
    assert len(encode(rows)) == 2


def test_a_small_input_goes_in_small_chunks(dataset: Dataset) -> None:
    assert sum(1 for _ in chunks(dataset, encode)) == 125


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"a": "UA", "b": 15}, b"UA-15"),
        ({"a": None, "b": 15}, b"-15"),
        ({"a": None, "b": None}, None),
        ({"b": 15}, b"-15"),
        ({"a": "ü", "b": ""}, "ü-".encode()),
    ],
)
def test_a_key_is_made_of_its_columns(row: dict[str, Any], key: bytes | None) -> None:
    assert encode_key(row, ("a", "b")) == key


def test_the_pace_counts_from_the_first_question() -> None:
    now = [100.0]
    pace = Pace(10, lambda: now[0])
    assert pace.wait_seconds(0) == 0
    assert pace.wait_seconds(20) == 2
    now[0] = 101.5
    assert pace.wait_seconds(20) == pytest.approx(0.5)
    now[0] = 110.0
    assert pace.wait_seconds(20) == 0
    assert Pace(0, lambda: now[0]).wait_seconds(10**9) == 0


def feed(dataset: Dataset, send: Callable[[pa.RecordBatch], Any]) -> Feeder:
    feeder = Feeder(dataset, encode, send, pace=Pace(0))
    feeder.start()
    feeder.join(timeout=GENEROUS_S)
    return feeder


def test_what_was_sent_is_acknowledged_and_finished(dataset: Dataset) -> None:
    feeder = feed(dataset, lambda batch: SimpleNamespace(idempotent=True))
    assert (feeder.finished, feeder.ledger.rows, feeder.error) == (True, 250, None)
    assert feeder.ledger.idempotent


def test_one_answer_without_idempotence_is_remembered(dataset: Dataset) -> None:
    answers = iter([True, False])
    feeder = feed(dataset, lambda batch: SimpleNamespace(idempotent=next(answers, True)))
    assert not feeder.ledger.idempotent


def test_after_the_first_rows_it_waits_until_it_may_go_on(dataset: Dataset) -> None:
    asked, sent = [], []

    def may_go_on() -> bool:
        asked.append(len(sent))
        return len(asked) > 2

    def send(batch: pa.RecordBatch) -> Any:
        sent.append(batch)
        return SimpleNamespace(idempotent=True)

    feeder = Feeder(dataset, encode, send, pace=Pace(0), may_go_on=may_go_on)
    feeder.start()
    feeder.join(timeout=GENEROUS_S)
    assert asked[:3] == [1, 1, 1]
    assert feeder.finished


def test_an_error_ends_the_feeding_and_nothing_after_it_counts(dataset: Dataset) -> None:
    sent = []

    def send(batch: pa.RecordBatch) -> Any:
        sent.append(batch)
        if len(sent) == 3:
            raise OSError("gone")
        return SimpleNamespace(idempotent=True)

    feeder = feed(dataset, send)
    assert (feeder.finished, feeder.ledger.rows) == (False, 4)
    assert isinstance(feeder.error, OSError)


def test_a_file_that_is_cut_short_meanwhile_is_an_error(dataset: Dataset) -> None:
    dataset.path.write_text("id,kind\n1\n")
    feeder = feed(dataset, lambda batch: SimpleNamespace(idempotent=True))
    assert isinstance(feeder.error, InputError)
    assert not feeder.finished


def test_the_ledger_takes_chunks_in_order_only(dataset: Dataset) -> None:
    first, second = (chunk for chunk, _ in zip(chunks(dataset, encode), range(2), strict=False))
    ledger = Ledger()
    ledger.acknowledge(first, idempotent=True)
    with pytest.raises(ValueError, match="row 0 was acknowledged, but 2 is next"):
        ledger.acknowledge(first, idempotent=True)
    ledger.acknowledge(second, idempotent=True)
    assert ledger.rows == 4


def test_stopping_ends_it_between_chunks(dataset: Dataset) -> None:
    def send(batch: pa.RecordBatch) -> Any:
        feeder.stop()
        return SimpleNamespace(idempotent=True)

    feeder = Feeder(dataset, encode, send, pace=Pace(0))
    feeder.start()
    feeder.join(timeout=GENEROUS_S)
    assert (feeder.ledger.rows, feeder.finished, feeder.error) == (2, False, None)
