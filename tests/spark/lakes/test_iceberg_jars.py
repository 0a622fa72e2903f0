"""Iceberg's own JAR reads what was written without it: `make test-delta` has a Spark for it."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from parley.host import spark_environment
from parley.testing.realbroker.artifacts import jar_folder

from ...support import GENEROUS_S
from .iceberg_queries import IcebergQuery, load
from .test_delta_jars import PYTHON, SCHEMA, row

ARTIFACT = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
pytestmark = [
    pytest.mark.long,
    pytest.mark.jars,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="no Spark for Iceberg's JAR: make test-delta has one"),
]
PROGRAM = """
    import json, sys
    from pyspark.sql import SparkSession

    jars, metadata, statements = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
    for name, value in {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.read.format("iceberg").load(metadata).createOrReplaceTempView("flights")
    for statement in json.loads(statements):
        found = spark.sql(statement).toJSON().collect()
        print("FOUND", json.dumps([json.loads(row) for row in found]), flush=True)
"""


def by_jar(metadata: str, *statements: str) -> list[list[dict[str, Any]]]:
    """Return what each statement finds, as Iceberg on Spark finds it."""
    jars = ",".join(sorted(str(jar) for jar in jar_folder([ARTIFACT], alone=True).glob("*.jar")))
    environment = {**os.environ, **spark_environment()}
    environment |= {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [PYTHON, "-c", textwrap.dedent(PROGRAM), jars, metadata, json.dumps(statements)],
        capture_output=True, text=True, check=False, env=environment, timeout=8 * GENEROUS_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    lines = done.stdout.splitlines()
    return [json.loads(line[len("FOUND ") :]) for line in lines if line.startswith("FOUND ")]


def test_icebergs_own_jar_reads_the_table(tmp_path: Path) -> None:
    query = IcebergQuery(tmp_path, schema=SCHEMA, options={"partitionBy": "day,flag"})
    for batch in (0, 1):
        query.run(
            batch, [[row(n) for n in range(batch * 20 + k, batch * 20 + 20, 2)] for k in (0, 1)]
        )
    whole, late, part, none = by_jar(
        load(tmp_path).metadata_location,
        "select n, text, unix_micros(at) as at, string(day) as day, string(price) as price, "
        "nested, flag from flights order by n",
        "select count(*) as n from flights where at >= timestamp'2026-01-01 00:00:20' and n < 30",
        "select n from flights where day = date'2026-01-02' and flag order by n",
        "select n from flights where n > 1000 or text > 'u'",
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
    second = dt.date(2026, 1, 2)
    assert part == [{"n": n} for n in range(40) if row(n)["day"] == second and row(n)["flag"]]
    assert none == []
