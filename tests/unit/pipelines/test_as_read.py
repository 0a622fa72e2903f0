"""Which queries compute nothing, so that their rows stay Arrow batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from parley.pipelines.queries import DELTA, ICEBERG, TOPIC, QueryOptions, Sink
from parley.pipelines.queries.as_read import batch_options

ORDER = StructType().add("city", "string").add("amount", "double")
READ = StructType().add("key", "binary").add("value", ORDER).add("offset", "long")
BATCHES = {"arrowBatches": "true"}
PLACES = {
    DELTA: {"path": "/lake/orders"},
    ICEBERG: {"table": "lake.orders", "catalog.uri": "sqlite:///x"},
    TOPIC: {"topic": "copies", "kafka.bootstrap.servers": "a:1"},
}


def query(sql: str, sink: str = DELTA, **more: object) -> QueryOptions:
    source = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}
    given = {"sql": sql, "sink": Sink(format=sink, options=PLACES[sink]), **more}
    return QueryOptions(name="orders", checkpoint=Path("/c"), source=source, **given)  # type: ignore[arg-type]  # it checks each


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from input", {}),
        ("  SELECT *\nFROM input ", {}),
        ("select offset, key from input", {"columns": "offset,key"}),
        ("select value from input", {"columns": "value"}),
        (
            "select value.*, offset from input",
            {"columns": "city,amount,offset", "envelope": "flat"},
        ),
    ],
)
def test_columns_as_they_are_read(sql: str, expected: dict[str, str]) -> None:
    for sink in (DELTA, ICEBERG):
        assert batch_options(query(sql, sink), READ) == {**BATCHES, **expected}


@pytest.mark.parametrize(
    "sql",
    [
        "select * from input where offset > 3",
        "select distinct key from input",
        "select value.city from input",
        "select Offset from input",  # Spark finds it, and calls it so
        "select offset, offset from input",
        "select value.*, city from input",
        "select value.*, value from input",
        "select nothing from input",
        "select `key` from input",
        "select count(*) from input",
        "select * from other",
    ],
)
def test_what_is_left_to_spark(sql: str) -> None:
    assert batch_options(query(sql), READ) is None


def test_whatever_changes_rows_needs_rows() -> None:
    plain = "select * from input"
    assert batch_options(query(plain, TOPIC), READ) is None
    assert batch_options(query(plain, transform="m:f"), READ) is None
    assert batch_options(query(plain, watermark=("timestamp", "1 minute")), READ) is None


@pytest.mark.parametrize(
    "columns",
    [
        StructType().add("value", StructType().add("offset", "long")).add("offset", "long"),
        StructType().add("value", "binary"),
        StructType().add("city", "string"),
        StructType().add("value", StructType().add("a,b", "long")),
    ],
    ids=["called as a record's column", "bytes", "flat already", "a comma in a name"],
)
def test_fields_that_cannot_stand_for_themselves(columns: StructType) -> None:
    assert batch_options(query("select value.* from input"), columns) is None
