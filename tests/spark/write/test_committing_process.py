"""Spark unpickles a batch's writer in a new process to commit it: what that
imports, and that nothing is lost.
"""

from __future__ import annotations

import pickle
import subprocess
import sys

from pyspark.sql.types import BinaryType, StructField, StructType

from parley.spark.source import ParleySource
from parley.spark.write.sealed import Sealed

OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t", "kafka.sasl.password": "hush"}

COMMIT = """
import pickle, sys
writer = pickle.load(sys.stdin.buffer)
writer.commit([])
heavy = ("pyarrow", "asyncio", "parley.client", "parley.spark.options.texts")
print(*(name for name in heavy if name in sys.modules))
"""


def test_a_batch_written_at_least_once_is_committed_without_importing_the_client() -> None:
    schema = StructType([StructField("value", BinaryType())])
    writer = ParleySource(OPTIONS).writer(schema, overwrite=False)
    done = subprocess.run(
        [sys.executable, "-c", COMMIT], input=pickle.dumps(writer), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == []


def test_a_sealed_value_is_what_it_was_however_often_it_is_pickled() -> None:
    once = pickle.loads(pickle.dumps(Sealed({"a": 1})))
    twice = pickle.loads(pickle.dumps(once))
    assert once.value == twice.value == {"a": 1}
    assert pickle.loads(pickle.dumps(twice)).value == {"a": 1}
