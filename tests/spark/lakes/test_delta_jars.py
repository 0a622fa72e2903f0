"""Delta's own JARs read what was written without them, and write into the same table.

They are bound to a release of Spark: `make test-delta` makes an environment with it and names its
interpreter in PARLEY_DELTA_PYTHON.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import ArrayType, DecimalType, StringType, StructType

from parley.host import spark_environment
from parley.testing.realbroker.artifacts import jar_folder

from ...support import GENEROUS_S
from .queries import Query

PYTHON = os.environ.get("PARLEY_DELTA_PYTHON", "")
ARTIFACT = "io.delta:delta-spark_4.1_2.13:4.1.0"
pytestmark = [
    pytest.mark.long,
    pytest.mark.jars,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="no Spark for Delta's JARs: make test-delta has one"),
]
PROGRAM = """
    import json, sys
    from pyspark.sql import SparkSession

    jars, table, statements = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
    for name, value in {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for statement in json.loads(statements):
        found = spark.sql(statement.replace("TABLE_HERE", f"delta.`{table}`")).toJSON().collect()
        print("FOUND", json.dumps([json.loads(row) for row in found]), flush=True)
"""


def by_jars(table: Path, *statements: str) -> list[list[dict[str, Any]]]:
    """Return what each statement finds, as Delta on Spark finds it."""
    jars = ",".join(sorted(str(jar) for jar in jar_folder([ARTIFACT]).glob("*.jar")))
    environment = {**os.environ, **spark_environment()}
    environment |= {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [PYTHON, "-c", textwrap.dedent(PROGRAM), jars, str(table), json.dumps(statements)],
        capture_output=True, text=True, check=False, env=environment, timeout=8 * GENEROUS_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    lines = done.stdout.splitlines()
    return [json.loads(line[len("FOUND ") :]) for line in lines if line.startswith("FOUND ")]


SCHEMA = (
    StructType()
    .add("n", "long")
    .add("text", "string")
    .add("at", "timestamp")
    .add("day", "date")
    .add("price", DecimalType(20, 3))
    .add("nested", StructType().add("a", "integer").add("b", ArrayType(StringType())))
    .add("flag", "boolean")
)


def row(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "text": None if n == 3 else f"text {n}",
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n * 1_000_001),
        "day": dt.date(2026, 1, 1) + dt.timedelta(days=n % 3),
        "price": decimal.Decimal(n) / 8,
        "nested": {"a": n, "b": [str(n), None]},
        "flag": None if n % 5 == 0 else n % 2 == 0,
    }


def test_deltas_own_jars_read_and_write_the_table(tmp_path: Path) -> None:
    query = Query(tmp_path / "table", schema=SCHEMA, options={"partitionBy": "day,flag"})
    for batch in (0, 1):
        query.run(
            batch, [[row(n) for n in range(batch * 20 + k, batch * 20 + 20, 2)] for k in (0, 1)]
        )
    whole, late, part, none, _, left = by_jars(
        query.table,
        "select n, text, unix_micros(at) as at, string(day) as day, string(price) as price, "
        "nested, flag from TABLE_HERE order by n",
        "select count(*) as n from TABLE_HERE "
        "where at >= timestamp'2026-01-01 00:00:20' and n < 30",
        "select n from TABLE_HERE where day = date'2026-01-02' and flag order by n",
        "select n from TABLE_HERE where n > 1000 or text > 'u'",
        "delete from TABLE_HERE where n = 7",
        "select count(*) as n from TABLE_HERE",
    )
    expected = []
    for n in range(40):
        given = row(n)
        micros = int(given["at"].timestamp()) * 1_000_000 + given["at"].microsecond
        given |= {"at": micros, "day": str(given["day"]), "price": f"{given['price']:.3f}"}
        expected.append({name: value for name, value in given.items() if value is not None})
        expected[-1]["nested"]["b"] = [str(n), None]
    assert whole == expected
    assert late == [{"n": 10}]
    assert part == [{"n": n} for n in range(40) if n % 3 == 1 and row(n)["flag"]]
    assert (none, left) == ([], [{"n": 39}])
    assert not query.run(1, [[row(0)]])  # the number is still there, and parley goes on
    assert query.run(2, [[row(n) for n in range(40, 45)]])
    read = DeltaTable(query.table).to_pyarrow_table().column("n").to_pylist()
    assert sorted(read) == [n for n in range(45) if n != 7]
