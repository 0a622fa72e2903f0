"""Arrow batches from a topic into a table, of which Spark makes no rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
from confluent_kafka.schema_registry.avro import AvroSerializer

from parley.client import Client
from parley.devcluster import LocalCluster

from ...support import GENEROUS_S, sparks
from ..test_typed import ORDER, context, order
from .iceberg_queries import NAME, catalog, catalog_options, load
from .readers import added, files_of, rows_of, schema_of
from .test_spark import fill, values_in

pytestmark = pytest.mark.timeout(600)
RECORD = ["partition", "offset", "value"]


def run(rows: Any, folder: Path, sink: str = "parley-delta", **options: str) -> Any:
    """Write a stream into a table, up to what is there."""
    writer = rows.writeStream.format(sink).options(**options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    place = NAME if sink == "parley-iceberg" else str(folder / "table")
    query = sparks.started(lambda: writer.trigger(availableNow=True).start(place))
    assert query.awaitTermination(2 * GENEROUS_S)
    return query


def stream(spark: Any, servers: str, topic: str, **options: str) -> Any:
    given = {"startingOffsets": "earliest", "arrowBatches": "true", **options}
    given |= {"kafka.bootstrap.servers": servers, "subscribe": topic}
    return spark.readStream.format("parley").options(**given).load()


def test_every_record_is_there_once_although_the_last_batch_runs_twice(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    source, table = topic(partitions=2), tmp_path / "table"
    values = fill(client, source, 0, 35)

    def again() -> int:
        rows = stream(
            spark, cluster.bootstrap_servers, source,
            columns=",".join(RECORD), maxOffsetsPerTrigger="10",
        )  # fmt: skip
        ran = run(rows.observe("done", f.sum("records").alias("records")), tmp_path)
        reports = [one["observedMetrics"].get("done") for one in ran.recentProgress]
        return sum(one["records"] or 0 for one in reports if one is not None)

    def there() -> list[str]:
        return sorted(row["value"].decode() for row in rows_of(table))

    assert again() == 35
    assert there() == values
    assert [field["name"] for field in schema_of(table)] == RECORD
    before = files_of(table)
    sparks.forget_commit(tmp_path / "checkpoint")
    again()
    assert there() == values
    assert files_of(table) == before
    values += fill(client, source, 35, 5)
    assert again() == 5
    assert there() == values


@pytest.mark.matrix
@pytest.mark.foreign
def test_avro_is_in_the_table_as_sparks_rows_bring_it(spark: Any, tmp_path: Path) -> None:
    with (
        LocalCluster(brokers=1, schema_registry=True) as running,
        TheirClient({"url": running.schema_registry.url}) as theirs,
        Client(bootstrap_servers=running.bootstrap_servers) as client,
    ):
        running.create_topic("orders", partitions=1)
        serialize = AvroSerializer(theirs, json.dumps(ORDER))
        values = [serialize(order(one), context("orders")) for one in range(20)]
        client.produce("orders", pa.table({"value": pa.array([*values, None], pa.binary())}))
        given = {
            "valueFormat": "avro", "schemaRegistryUrl": running.schema_registry.url,
            "envelope": "flat", "maxOffsetsPerTrigger": "7",
        }  # fmt: skip
        tables = []
        for batches in ("true", "false"):
            servers = running.bootstrap_servers
            rows = stream(spark, servers, "orders", **{**given, "arrowBatches": batches})
            run(rows, tmp_path / batches, partitionBy="state")
            tables.append(tmp_path / batches / "table")
    ours, theirs_ = tables
    assert rows_of(ours) == rows_of(theirs_)
    assert len(rows_of(ours)) == 21
    assert schema_of(ours) == schema_of(theirs_)
    assert bounds(ours) == bounds(theirs_)


def bounds(table: Path) -> list[str]:
    return sorted(one["stats"] for one in added(table).values())


@pytest.mark.matrix
def test_batch_writes_and_iceberg(
    spark: Any,
    cluster: LocalCluster,
    client: Client,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    source = topic(partitions=2)
    values = fill(client, source, 0, 30)
    catalog(tmp_path)
    run(
        stream(spark, cluster.bootstrap_servers, source, columns="value"),
        tmp_path,
        "parley-iceberg",
        **catalog_options(tmp_path),
    )
    found = load(tmp_path).scan().to_arrow().column("value").to_pylist()
    assert sorted(one.decode() for one in found) == values
    frame = (
        spark.read.format("parley")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .options(subscribe=source, columns="value", arrowBatches="true")
        .load()
    )
    assert frame.agg({"records": "sum"}).collect()[0][0] == 30
    frame.write.format("parley-delta").mode("append").save(str(tmp_path / "table"))
    assert [one.decode() for one in values_in(tmp_path / "table")] == values
    more = frame.selectExpr("*", "current_date() as day")
    with pytest.raises(Exception, match='"day" would belong to none of them'):
        more.write.format("parley-delta").mode("append").save(str(tmp_path / "table"))
