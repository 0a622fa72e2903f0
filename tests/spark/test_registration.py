"""How Spark finds the data source: by itself in the workers' interpreter, or by registering it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import parley.spark
from parley.errors import ConfigError
from parley.host import interpreter_has, spark_interpreter


def test_spark_finds_the_source_without_registration(spark: Any) -> None:
    interpreter = spark_interpreter()
    assert interpreter == sys.executable == os.environ["PYSPARK_PYTHON"]
    assert interpreter_has(interpreter, "pyspark_parley")
    frame = spark.read.format("parley").option("kafka.bootstrap.servers", "x:1").option("subscribe", "t").load()
    assert frame.columns[:2] == ["key", "value"]


def test_registering_does_no_harm_and_may_be_repeated(spark: Any) -> None:
    parley.spark.register(spark)
    parley.spark.register(spark)
    spark.read.format("parley").option("kafka.bootstrap.servers", "x:1").option("subscribe", "t").load()


def test_an_old_spark_is_refused() -> None:
    class Old:
        version = "4.1.1"

    with pytest.raises(ConfigError, match=r"needs Spark 4\.2 or later, this is 4\.1\.1"):
        parley.spark.register(Old())


def test_what_every_planner_imports_is_light() -> None:
    """Spark imports pyspark_parley in each of its planner processes, whatever format they are for."""
    program = """
        import json, sys
        import pyspark.sql.datasource
        before = set(sys.modules)
        import pyspark_parley
        print(json.dumps(sorted(set(sys.modules) - before)))
    """
    shown = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    added = json.loads(shown.stdout)
    assert {name for name in added if name.split(".")[0] not in sys.stdlib_module_names} == {
        "parley", "parley.spark", "parley.spark.source", "pyspark_parley",
    }  # fmt: skip


def test_continuous_trigger_and_sparks_own_name_are_not_to_be_had(spark: Any, tmp_path: Any) -> None:
    stream = spark.readStream.format("parley").option("kafka.bootstrap.servers", "x:1").option("subscribe", "t").load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=r"(?i)continuous"):
        writer.trigger(continuous="1 second").start()
