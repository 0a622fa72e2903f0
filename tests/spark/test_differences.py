"""What docs/guide/spark.md says, under "What differs", of parley's source beside Spark's own: each shown as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def reader(spark: Any, cluster: LocalCluster) -> Callable[[str], Any]:
    def make(topic: str) -> Any:
        found = spark.read.format("parley").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        return found.option("subscribe", topic)

    return make


@pytest.fixture
def rows_in(spark: Any, cluster: LocalCluster) -> Callable[[str], Any]:
    """Return a streaming DataFrame of a topic."""

    def make(topic: str) -> Any:
        found = spark.readStream.format("parley").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        return found.option("subscribe", topic).option("startingOffsets", "earliest").load()

    return make


def put(client: Client, topic: str, *values: str) -> None:
    client.produce(topic, pa.table({"value": list(values)}), partition=0)


def test_a_dataframe_keeps_the_records_of_its_first_use(
    reader: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=2)
    put(client, name, "a", "b", "c")
    rows = reader(name).load()
    assert rows.count() == 3
    put(client, name, "d")
    assert (rows.selectExpr("*").count(), reader(name).load().count()) == (3, 4)
    cluster.delete_records(name, 0, 2)
    with pytest.raises(Exception, match=rf"offsets 0 to 1 of {name}-0 are lost.*keeps the offsets of its first use"):
        rows.collect()


def test_in_sql_a_table_is_planned_for_every_query_and_a_view_once(
    spark: Any, cluster: LocalCluster, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, "a")
    options = f"(`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe '{name}')"
    spark.sql(f"CREATE TABLE kept USING parley OPTIONS {options}")
    spark.sql(f"CREATE TEMPORARY VIEW seen USING parley OPTIONS {options}")
    try:
        counts = [spark.table(one).count() for one in ("kept", "seen")]
        put(client, name, "b")
        counts += [spark.sql(f"SELECT * FROM {one}").count() for one in ("kept", "seen")]
        assert counts == [1, 1, 2, 1]
    finally:
        spark.sql("DROP VIEW seen")
        spark.sql("DROP TABLE kept")


def test_real_time_mode_is_refused(rows_in: Any, client: Client, topic: Any, tmp_path: Path) -> None:
    name = topic(partitions=1)
    put(client, name, "a")
    writer = rows_in(name).writeStream.format("noop").outputMode("update").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match="REAL_TIME_MODE"):
        writer.trigger(realTime="5 minutes").start().awaitTermination(120)


def test_asynchronous_progress_is_refused_for_the_sink(
    rows_in: Any, cluster: LocalCluster, client: Client, topic: Any, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    writer = rows_in(name).select("value").writeStream.format("parley").option("topic", topic("out", partitions=1))
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer = writer.option("checkpointLocation", str(tmp_path)).option("asyncProgressTrackingEnabled", "true")
    with pytest.raises(Exception, match=r"(?i)async progress tracking"):
        writer.start().awaitTermination(120)
