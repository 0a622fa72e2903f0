"""Values of another kind than a key takes, other encodings, paths: read, or refused with why."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from parley.errors import ConfigError
from parley.pipelines.declared.reading import document_read, read, read_text
from parley.pipelines.queries import QueryOptions

FILE = """
[pipeline]
name = "orders"

[cluster.old]
"bootstrap.servers" = "old:9092"

[cluster.new]
"bootstrap.servers" = "new:9092"

[flow.copy]
kind = "copy"
from = { cluster = "old", topics = ["orders"] }
to = { cluster = "new" }

[flow.ingest]
kind = "ingest"
from = { cluster = "old", topics = ["orders"] }
to = { delta = "orders" }

[flow.sql]
kind = "sql"
from = { cluster = "old", topics = ["orders"] }
to = { topic = "totals" }
sql = "select * from input"

[flow.verify]
kind = "verify"
to = { flow = "copy" }
"""


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("flow.sql.sql", ["select key", "select value"], "sql is one query"),
        ("flow.sql.transform", 3, "3 cannot be used: one text is expected"),
        ("flow.sql.to.topic", ["totals"], r"\['totals'\] cannot be used"),
        ("flow.sql.errors.topic", 5, "5 cannot be used"),
        ("flow.sql.from.max-bytes-per-trigger", float("inf"), "no number of bytes"),
        ("flow.ingest.to.delta", 5, "5 cannot be used"),
        ("flow.ingest.to.partition-by", [1], "1 cannot be used"),
        ("flow.ingest.from.value.format", ["avro"], r"\['avro'\] cannot be used"),
        ("flow.ingest.from.value.columns", [1], "1 cannot be used"),
        ("flow.verify.to.flow", ["copy"], r"\['copy'\] cannot be used"),
        ("flow.copy.buffer", float("inf"), "no number of bytes"),
        ("cluster.old.release", 5, 'release "5" was not measured'),
        ("cluster.old.bootstrap.servers", "a:1", 'in quotes, "bootstrap.servers"'),
        ("spark.spark.sql.shuffle.partitions", 5, 'in quotes, "spark.sql.shuffle.partitions"'),
    ],
)
def test_a_value_of_another_kind_is_refused(path: str, value: object, says: str) -> None:
    document: Any = tomllib.loads(FILE)
    *tables, key = path.split(".")
    at = document
    for name in tables:
        at = at.setdefault(name, {})
    at[key] = value
    with pytest.raises(ConfigError, match=says):
        document_read("", Path("x.toml"), document)


def test_the_mark_in_front_of_utf_8_is_no_part_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert list(read(file).flows) == ["copy", "ingest", "sql", "verify"]


def test_another_encoding_is_named(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(FILE, encoding="utf-16")
    with pytest.raises(ConfigError, match="save it as UTF-8"):
        read(file)


@pytest.mark.parametrize(("given", "expected"), [("j.json", "at/j.json"), ("/j.json", "/j.json")])
def test_a_schema_lies_beside_the_file(given: str, expected: str) -> None:
    value = f'value = {{ format = "json", framing = "none", schema = "file:{given}" }}'
    text = FILE.replace(
        'topics = ["orders"] }\nto = { topic', f'topics = ["orders"], {value} }}\nto = {{ topic'
    )
    found = read_text(text, Path("at/orders.toml")).flows["sql"].options
    assert isinstance(found, QueryOptions)
    assert found.source["valueSchema"] == f"file:{expected}"
