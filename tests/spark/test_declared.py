"""Flows of the kinds `ingest` and `sql`: a declared pipeline whose work Spark does."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from parley import EARLIEST, LATEST, Client, FetchOptions, TopicPartition
from parley.cli import main
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import DataLossError
from parley.pipelines.declared import AsyncPipeline
from parley.registry import SchemaRegistryClient
from parley.serdes import ColumnEncoder

from ..support import GENEROUS_S, eventually_async

FILE = """
[pipeline]
name = "orders"

[cluster.here]
"bootstrap.servers" = "{servers}"

[registry.main]
url = "{registry}"

[flow.lake]
kind = "ingest"
from = {{ cluster = "here", topics = ["orders"], value = {{ format = "avro", registry = "main" }} }}
select = ["value.*", "partition", "offset"]
where = "value.amount > 0"
to = {{ delta = "lake/orders", partition-by = ["city"] }}
errors = {{ topic = "orders.dlq" }}
trigger = "available-now"

[flow.totals]
kind = "sql"
from = {{ cluster = "here", topics = ["orders"], value = {{ format = "avro", registry = "main" }} }}
sql = "select value.city, sum(value.amount) as total from input group by value.city"
output-mode = "complete"
to = {{ topic = "totals", key = "city", value = {{ format = "json" }}, delivery = "exactly-once" }}
trigger = "available-now"

[flow.totals.test]
given = [
    {{ topic = "orders", value = {{ city = "Oslo", amount = 2.0 }} }},
    {{ topic = "orders", value = {{ city = "Oslo", amount = 1.5 }} }},
    {{ topic = "orders", value = {{ city = "Rome", amount = 4.0 }} }},
]
expect = [
    {{ topic = "totals", key = "Oslo", value = {{ total = 3.5 }} }},
    {{ topic = "totals", key = "Rome", value = {{ total = 4.0 }} }},
]

[flow.lake.test]
given = [
    {{ topic = "orders", value = {{ city = "Oslo", amount = 2.0 }}, partition = 1 }},
    {{ topic = "orders", value = {{ city = "Oslo", amount = -2.0 }} }},
]
expect = [{{ row = {{ city = "Oslo", amount = 2.0, partition = 1, offset = 0 }} }}]
"""
COMMITTED = FetchOptions(isolation_level="read_committed")
Place = tuple[LocalCluster, Path]


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> Iterator[Place]:
    """A cluster with a registry, orders in it, and a pipeline's file."""
    with LocalCluster(1, schema_registry=True) as cluster:
        yield cluster, placed(cluster, tmp_path)


def placed(cluster: LocalCluster, folder: Path) -> Path:
    """Write orders; return the file of a pipeline that reads them."""
    cluster.create_topic("orders", partitions=2)
    write(cluster, [("Oslo", 1.0), ("Rome", 2.0), ("Oslo", 3.0), ("Oslo", -9.0)])
    path = folder / "orders.toml"
    path.write_text(
        FILE.format(servers=cluster.bootstrap_servers, registry=cluster.schema_registry.url)
    )
    return path


def write(cluster: LocalCluster, orders: list[tuple[str, float]]) -> None:
    """Write orders as Avro, and nothing else."""
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce("orders", encoded(cluster, orders))


def encoded(cluster: LocalCluster, orders: list[tuple[str, float]]) -> pa.Table:
    """Return orders as Avro."""
    registry = SchemaRegistryClient(cluster.schema_registry.url)
    encoder = ColumnEncoder(registry, "orders-value", None, auto_register_schemas=True)
    values = [{"city": city, "amount": amount} for city, amount in orders]
    return encoder.encode(pa.table({"value": values}))


def read(cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        partitions = client.metadata((topic,)).topics[topic].partitions
        ranges = {TopicPartition(topic, one): (EARLIEST, LATEST) for one in partitions}
        return [
            row for found in client.fetch_many(ranges, COMMITTED) for row in found.batch.to_pylist()
        ]


async def test_avro_becomes_a_table_and_totals_in_a_topic(place: Place) -> None:
    cluster, path = place
    async with AsyncPipeline.from_file(path) as pipeline:
        planned = {(one.flow, one.change, one.topic, one.what) for one in await pipeline.plan()}
        assert planned == {
            ("lake", "read", "orders", "2 partitions, 4 offsets"),
            ("lake", "create", "orders.dlq", "2 partitions, 1 replicas"),
            ("lake", "rights", "orders", "the source's user may Read and Describe it"),
            ("lake", "write", None, "city string, amount double, partition int, offset bigint"),
            ("totals", "read", "orders", "2 partitions, 4 offsets"),
            ("totals", "create", "totals", "2 partitions, 1 replicas"),
            ("totals", "rights", "orders", "the source's user may Read and Describe it"),
            ("totals", "write", None, "key string, value struct<city:string,total:double>"),
        }
        assert not (path.parent / "lake").exists()
        await pipeline.run()
        found = {one.flow: (one.state, one.lag, one.records) for one in await pipeline.status()}
        assert found == {"lake": ("done", 0, 4), "totals": ("done", 0, 4)}
    table = DeltaTable(path.parent / "lake" / "orders")
    assert table.metadata().partition_columns == ["city"]
    rows = {(row["city"], row["amount"]) for row in table.to_pyarrow_table().to_pylist()}
    assert rows == {("Oslo", 1.0), ("Rome", 2.0), ("Oslo", 3.0)}
    totals = {row["key"]: json.loads(row["value"]) for row in read(cluster, "totals")}
    assert totals == {
        b"Oslo": {"city": "Oslo", "total": -5.0},
        b"Rome": {"city": "Rome", "total": 2.0},
    }


@pytest.mark.parametrize(
    "select",
    [
        pytest.param('["value.*", "partition"]', marks=pytest.mark.matrix),
        pytest.param('["value"]', marks=pytest.mark.matrix),
        '"*"',
    ],
)
async def test_a_table_is_the_same_whoever_makes_its_rows(place: Place, select: str) -> None:
    """Where nothing is computed, Arrow batches go into it; a condition needs Spark's rows."""
    _, path = place
    text = path.read_text().replace('["value.*", "partition", "offset"]', select)
    text = text.replace(', partition-by = ["city"]', "")
    found = []
    for where in ("", "where = \"topic = 'orders'\""):
        path.write_text(text.replace('where = "value.amount > 0"', where))
        async with AsyncPipeline.from_file(path) as pipeline:
            columns = [one.what for one in await pipeline.plan(["lake"]) if one.change == "write"]
            await pipeline.run(["lake"])
            assert pipeline.records()["lake"] == 4
        table = path.parent / "lake" / "orders"
        read = DeltaTable(table)
        rows = sorted(read.to_pyarrow_table().to_pylist(), key=str)
        found.append((columns, read.schema().to_json(), rows))
        shutil.rmtree(table)
        shutil.rmtree(path.parent / ".parley", ignore_errors=True)
    assert len(found[0][2]) == 4
    assert found[0] == found[1]


CHAIN = """
[pipeline]
name = "chain"

[cluster.old]
"bootstrap.servers" = "{old}"

[cluster.new]
"bootstrap.servers" = "{new}"

[flow.again]
kind = "ingest"
from = {{ cluster = "new", topics = "loud.*" }}
select = ["value"]
to = {{ topic = "again" }}

[flow.louder]
kind = "ingest"
from = {{ cluster = "new", topics = ["orders"] }}
select = ["upper(cast(value as string)) as value"]
to = {{ topic = "loud" }}

[flow.copy]
kind = "copy"
from = {{ cluster = "old", topics = ["orders"] }}
to = {{ cluster = "new" }}
"""


async def test_flows_read_what_others_of_the_file_bring(spark: Any, tmp_path: Path) -> None:
    """Whatever the order in the file: a copy comes first; what a query makes is read behind it."""
    settings = ClusterSettings(auto_create_topics=False)
    with LocalCluster(1, "2.4") as old, LocalCluster(1, "4.3", settings=settings) as new:
        old.create_topic("orders", partitions=2)
        with Client(bootstrap_servers=old.bootstrap_servers) as client:
            client.produce("orders", pa.table({"value": ["one", "two"]}))
        path = tmp_path / "chain.toml"
        servers = {"old": old.bootstrap_servers, "new": new.bootstrap_servers}
        path.write_text(CHAIN.format(**servers))
        async with AsyncPipeline.from_file(path) as pipeline:
            stops = {(one.flow, one.change, one.topic, one.stops) for one in await pipeline.plan()}
            assert ("louder", "later", "orders", False) in stops
            assert ("again", "no-topic", None, True) in stops  # it stands before what makes `loud`
            path.write_text(in_order(path.read_text()))
        async with AsyncPipeline.from_file(path) as pipeline:
            changes = await pipeline.plan()
            assert not any(one.stops for one in changes)
            planned = {(one.flow, one.change, one.topic, one.what) for one in changes}
            assert ("again", "later", "loud", "it is read when it is there") in planned
            assert ("again", "create", "again", "2 partitions, 1 replicas") in planned
            running = asyncio.ensure_future(pipeline.run())
            await eventually_async(
                lambda: pipeline.records() == {"louder": 2, "again": 2, "copy": 2}
            )
            pipeline.stop()
            await asyncio.wait_for(running, GENEROUS_S)
        assert sorted(row["value"] for row in read(new, "again")) == [b"ONE", b"TWO"]


def in_order(text: str) -> str:
    """Return a file with its first flow at the end."""
    head, first, *others = text.split("[flow.")
    return "[flow.".join([head, *others, first])


async def test_it_goes_on_where_it_was(place: Place) -> None:
    cluster, path = place
    async with AsyncPipeline.from_file(path) as pipeline:
        await pipeline.run(["lake"])
    write(cluster, [("Bonn", 7.0)])
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce("orders", pa.table({"value": [b"no Avro"]}))
    async with AsyncPipeline.from_file(path) as pipeline:
        (lake, totals) = await pipeline.status()
        assert (lake.state, lake.lag, totals.state, totals.lag) == ("done", 2, "never ran", None)
        await pipeline.run(["lake"])
        assert (await pipeline.status())[0].lag == 0
    table = DeltaTable(path.parent / "lake" / "orders").to_pyarrow_table()
    assert sorted(table.column("city").to_pylist()) == ["Bonn", "Oslo", "Oslo", "Rome"]
    (letter,) = read(cluster, "orders.dlq")
    assert letter["value"] == b"no Avro"


@pytest.mark.parametrize(("level", "read_too"), [(None, []), ("read_uncommitted", ["Bonn"])])
async def test_what_was_aborted_is_not_read(
    place: Place, level: str | None, read_too: list[str]
) -> None:
    cluster, path = place
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        client.transactions.producer("writer") as producer,
    ):
        producer.begin_transaction()
        producer.produce("orders", encoded(cluster, [("Bonn", 7.0)]))
        producer.abort_transaction()
    if level is not None:
        given = f'topics = ["orders"], isolation-level = "{level}"'
        path.write_text(path.read_text().replace('topics = ["orders"]', given))
    async with AsyncPipeline.from_file(path) as pipeline:
        await pipeline.run(["lake"])
        assert (await pipeline.status())[0].lag == 0
    table = DeltaTable(path.parent / "lake" / "orders").to_pyarrow_table()
    assert sorted(table.column("city").to_pylist()) == [*read_too, "Oslo", "Oslo", "Rome"]


async def test_a_query_without_an_end_is_drained(place: Place) -> None:
    cluster, path = place
    path.write_text(path.read_text().replace('trigger = "available-now"', 'trigger = "1 second"'))
    async with AsyncPipeline.from_file(path) as pipeline:
        running = asyncio.ensure_future(pipeline.run(["lake"]))
        table = path.parent / "lake" / "orders"
        await eventually_async(lambda: running.done() or DeltaTable.is_deltatable(str(table)))
        write(cluster, [("Bonn", 7.0)])
        await eventually_async(lambda: running.done() or rows_of(table) == 4)
        assert not running.done()
        async with AsyncPipeline.from_file(path) as other:
            assert (await other.status())[0].state == "running"
            assert other.drain()
        await asyncio.wait_for(running, GENEROUS_S)
        assert (await pipeline.status())[0].state == "drained"


def rows_of(table: Path) -> int:
    return len(DeltaTable(str(table)).to_pyarrow_table())


async def test_a_topic_that_was_created_again_is_data_loss(place: Place) -> None:
    cluster, path = place
    async with AsyncPipeline.from_file(path) as pipeline:
        await pipeline.run(["lake"])
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.delete_topics(["orders"])
    cluster.create_topic("orders", partitions=2)
    write(cluster, [("Bonn", 7.0)] * 9)
    async with AsyncPipeline.from_file(path) as pipeline:
        with pytest.raises(DataLossError, match="orders-lake: "):
            await pipeline.run(["lake"])
        assert (await pipeline.status())[0].state == "failed"


async def test_a_topic_that_is_to_be_created_needs_no_rights_yet(
    spark: Any, tmp_path: Path
) -> None:
    with LocalCluster(1, "2.2", schema_registry=True) as cluster:
        path = placed(cluster, tmp_path)
        async with AsyncPipeline.from_file(path) as pipeline:
            rows = [(one.change, one.topic) for one in await pipeline.plan(["lake"])]
    assert [topic for change, topic in rows if change == "create"] == ["orders.dlq"]
    assert [topic for change, topic in rows if change == "rights"] == ["orders"]


async def test_what_begins_at_the_end_has_nothing_left(place: Place) -> None:
    _, path = place
    path.write_text(path.read_text().replace('"here", topics', '"here", start = "latest", topics'))
    async with AsyncPipeline.from_file(path) as pipeline:
        (read, *_) = await pipeline.plan(["totals"])
        assert read.what == "2 partitions, 0 offsets"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("sum(value.amount)", "sum(value.amuont)", "amuont"),
        ("from input group", "form input group", "sql"),
        ('key = "city"', 'key = "town"', "town"),
        ('topics = ["orders"]', 'topics = ["oders"]', "it does not exist"),
        ('output-mode = "complete"', 'output-mode = "append"', 'mode="append" cannot be used'),
        ('delivery = "exactly-once"', 'delivery = "exactly-once"', ""),
    ],
    ids=["field", "syntax", "key", "topic", "mode", "nothing"],
)
async def test_what_cannot_be_stops_the_plan(
    place: Place, before: str, after: str, says: str
) -> None:
    cluster, path = place
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    async with AsyncPipeline.from_file(path) as pipeline:
        stopping = [one.what for one in await pipeline.plan(["totals"]) if one.stops]
        assert len(stopping) == bool(says)
        assert all(says in one for one in stopping)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        assert "totals" not in client.metadata().topics


async def test_columns_that_a_table_does_not_have(place: Place) -> None:
    _, path = place
    async with AsyncPipeline.from_file(path) as pipeline:
        await pipeline.run(["lake"])
    path.write_text(path.read_text().replace('"offset"]', '"offset", "1 as more"]'))
    async with AsyncPipeline.from_file(path) as pipeline:
        (stopping,) = [one.what for one in await pipeline.plan(["lake"]) if one.stops]
        assert "more" in stopping
    path.write_text(path.read_text().replace("lake/orders", 'lake/orders", evolve = "add-columns'))
    async with AsyncPipeline.from_file(path) as pipeline:
        assert not [one for one in await pipeline.plan(["lake"]) if one.stops]


TRANSFORM = """
from pyspark.sql import functions as f

TAX = 2


@f.udf("double")
def taxed(amount):
    return amount * TAX


def with_tax(rows):
    return rows.withColumn("taxed", taxed("value.amount"))
"""


async def test_functions_beside_the_file_change_rows(place: Place) -> None:
    _, path = place
    (path.parent / "taxes_of_orders.py").write_text(TRANSFORM)
    more = 'kind = "ingest"\ntransform = "taxes_of_orders:with_tax"'
    text = path.read_text().replace('kind = "ingest"', more)
    path.write_text(text.replace('"partition", "offset"]', '"taxed"]'))
    async with AsyncPipeline.from_file(path) as pipeline:
        await pipeline.run(["lake"])
    table = DeltaTable(path.parent / "lake" / "orders").to_pyarrow_table()
    assert sorted(table.column("taxed").to_pylist()) == [2.0, 4.0, 6.0]


def test_tests_in_the_file(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, path = place
    before = cluster.schema_registry.requests()
    assert main(["test", str(path)]) == 0
    out = capsys.readouterr().out
    assert "lake\tpassed\t1\t0\t0" in out
    assert "totals\tpassed\t2\t0\t0" in out
    assert not (path.parent / "lake").exists()
    assert cluster.schema_registry.requests() == before  # nothing of the file's was asked
    path.write_text(path.read_text().replace("total = 3.5", "total = 3.0"))
    assert main(["test", str(path), "totals"]) == 1
    out, err = capsys.readouterr()
    assert "totals\tfailed\t2\t1\t1" in out
    assert "totals: expected, and not there: " in err
    assert "totals: not expected: " in err
