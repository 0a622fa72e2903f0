"""A declared replay of a table: what its keys mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.errors import ConfigError
from parley.pipelines.declared.reading import read_text
from parley.pipelines.replay import ReplayedTable, ReplayOptions
from parley.registry import RegistryOptions

FILE = """
[pipeline]
name = "orders"

[cluster.new]
"bootstrap.servers" = "new:9092"

[registry.main]
url = "http://registry:8081"

[flow.replay]
kind = "replay"
from = { delta = "lake/orders", where = "day = '1'", version = 7, storage = { region = "x" } }
order = ["event_time"]
rate = "20MB/s"

[flow.replay.to]
cluster = "new"
topic = "again"
key = "id"
timestamp = "event_time"
partitions = 6
value = { format = "avro", registry = "main", subject = "orders-value", columns = ["id", "city"] }

[flow.berg]
kind = "replay"
from = { iceberg = "lake.orders", catalog = { type = "sql" } }
to = { cluster = "new", topic = "berg", partition-by = "source" }
"""


KEY = 'key = { columns = ["id"], format = "avro", registry = "main", subject = "orders-key" }'


def test_a_key_may_be_encoded() -> None:
    found = read_text(FILE.replace('key = "id"', KEY), Path("/etc/orders.toml"))
    options = found.flows["replay"].options
    assert isinstance(options, ReplayOptions)
    assert options.table is not None
    assert options.table.encoding("key") == (
        "avro",
        "latest",
        "orders-key",
        "confluent-prefix",
        None,
    )
    assert (options.table.key, options.table.key_columns) == (None, ("id",))
    one = 'key = { column = "id", format = "json" }'
    file = FILE.replace('key = "id"', one).replace(
        'format = "avro", registry = "main", ', 'format = "json", '
    )
    options = read_text(file, Path("/etc/orders.toml")).flows["replay"].options
    assert isinstance(options, ReplayOptions)
    assert options.table is not None
    assert (options.table.key, options.table.key_format, options.table.key_framing) == (
        "id",
        "json",
        "none",
    )


def test_a_table_is_read_as_the_file_says() -> None:
    found = read_text(FILE, Path("/etc/orders.toml"))
    flow = found.flows["replay"]
    assert (flow.source, flow.target, flow.auto) == ("", "new", False)
    assert flow.options == ReplayOptions(
        name="orders-replay",
        to="again",
        partitions=6,
        bytes_per_second=2e7,
        table=ReplayedTable(
            delta="/etc/lake/orders",
            settings={"region": "x"},
            version=7,
            where="day = '1'",
            order=("event_time",),
            key="id",
            timestamp="event_time",
            columns=("id", "city"),
            value_format="avro",
            value_subject="orders-value",
            registry=RegistryOptions(url="http://registry:8081"),
        ),
    )
    assert found.flows["berg"].options == ReplayOptions(
        name="orders-berg",
        to="berg",
        partition_by="source",
        table=ReplayedTable(iceberg="lake.orders", settings={"type": "sql"}),
    )


@pytest.mark.parametrize(
    ("address", "folder"),
    [
        ("lake/100%", "/etc/lake/100%"),
        ("file:/lake/my%20orders", "/lake/my orders"),
        ("FILE:///lake/orders", "/lake/orders"),
        ("s3://lake/orders", "s3://lake/orders"),
    ],
)
def test_a_table_may_be_named_by_its_address(address: str, folder: str) -> None:
    found = read_text(FILE.replace("lake/orders", address, 1), Path("/etc/orders.toml"))
    options = found.flows["replay"].options
    assert isinstance(options, ReplayOptions)
    assert options.table is not None
    assert options.table.delta == folder


def test_all_conditions_of_a_list_hold() -> None:
    file = FILE.replace("\"day = '1'\"", """["day = '1'", "a > 1 or b > 2"]""")
    options = read_text(file, Path("orders.toml")).flows["replay"].options
    assert isinstance(options, ReplayOptions)
    assert options.table is not None
    assert options.table.where == "(day = '1') and (a > 1 or b > 2)"


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ('delta = "lake/orders", ', "", 13, "from names no cluster"),
        ('delta = "lake/orders"', 'dleta = "lake/orders"', 13, 'Did you mean "delta"'),
        ('delta = "lake/orders"', 'delta = "file://a/b"', 11, "names no folder of this machine"),
        ('delta = "lake/orders"', 'delta = "a", iceberg = "b.c"', 11, "has delta and iceberg"),
        ('delta = "lake/orders"', 'cluster = "new", topic = "t"', 11, "order is for tables"),
        ('cluster = "new"\ntopic', "topic", 17, "to names no cluster"),
        ('registry = "main"', 'registry = "mian"', 11, 'Did you mean "main"'),
        ('format = "avro", ', "", 11, "value has no format"),
        ('order = ["event_time"]', 'order = "event_time"', 11, "order"),
        ('order = ["event_time"]', "dead-letters = true", 11, "dead_letters"),
        ("version = 7", "since = 2026-01-01", 11, "from_timestamp_ms is for topics"),
        ('key = "id"', 'key = { column = "id" }', 11, "key has no format"),
        ('key = "id"', 'key = { clumn = "id" }', 20, 'Did you mean "column"'),
        ('key = "id"', 'key = { column = "id", format = "json" }', 11, "differ in registry"),
        ('catalog = { type = "sql" }', 'storage = { a = "b" }', 25, "is not for iceberg"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    before: str, after: str, line: int, says: str
) -> None:
    assert before in FILE
    with pytest.raises(ConfigError) as caught:
        read_text(FILE.replace(before, after, 1), Path("orders.toml"))
    assert str(caught.value).startswith(f"orders.toml, line {line}: "), str(caught.value)
    assert says in str(caught.value)
