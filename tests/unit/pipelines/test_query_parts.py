"""Parts of a query that need no Spark: its checkpoint, and what its failures are about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley.client import TopicPartition
from parley.errors import ConfigError
from parley.pipelines.queries.checkpoint import committed
from parley.pipelines.queries.failures import (
    clearest_line,
    failure_text,
    is_data_loss,
    is_disk_full,
    remedy,
)


def checkpoint(folder: Path, commits: list[str], offsets: dict[int, object]) -> Path:
    for name in ("commits", "offsets"):
        (folder / name).mkdir()
    for name in commits:
        (folder / "commits" / name).write_text("v1\n{}")
    for batch, found in offsets.items():
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(found)}")
    return folder


def test_the_last_batch_that_is_committed_counts(tmp_path: Path) -> None:
    folder = checkpoint(
        tmp_path,
        ["9", "10", ".10.crc", "metadata"],
        {
            9: {"a": {"0": 9}},
            10: {"a": {"0": 10}, "@schemas": {"value": "id:1"}},
            11: {"a": {"0": 11}},
        },
    )
    found = committed(folder)
    assert found is not None
    assert found.positions == {TopicPartition("a", 0): 10}


@pytest.mark.parametrize("commits", [[], [".0.crc"], ["7"]])
def test_a_checkpoint_without_a_batch(tmp_path: Path, commits: list[str]) -> None:
    assert committed(checkpoint(tmp_path, commits, {0: {"a": {"0": 9}}})) is None
    assert committed(tmp_path / "nowhere") is None


def test_a_checkpoint_of_another_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="these are not offsets of parley"):
        committed(checkpoint(tmp_path, ["0"], {0: {"logOffset": 3}}))


LOSS = """org.apache.spark.SparkException: [PYTHON_DATA_SOURCE_ERROR] Failed to latestOffset
parley.errors.tree.TopicRecreatedError: orders is another topic
    at org.apache.spark.Something
Caused by: java.io.IOException: pipe"""


def test_what_a_failure_is_about() -> None:
    assert is_data_loss(LOSS)
    assert clearest_line(LOSS) == "parley.errors.tree.TopicRecreatedError: orders is another topic"
    assert not is_data_loss("a DataLossError of somebody else")
    assert is_disk_full("java.io.IOException: No space left on device")
    assert not is_disk_full(LOSS)


def test_the_state_of_another_query_is_said_with_what_helps() -> None:
    text = "x.StateStoreValueSchemaNotCompatible: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] no"
    assert "give the flow a new name" in remedy(text)
    assert remedy(LOSS) == ""


LONG = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
org.apache.spark.SparkException: Job aborted due to stage failure
  File "/x/reader.py", line 1, in read
parley.errors.tree.DataLossError: topic t was created again

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""
JAVA = """[STREAM_FAILED] x
=== plan ===
+- ~Scan[key#0]
java.lang.A: a
	at b.C(D:1)
Caused by: java.lang.E: inner"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LONG, "parley.errors.tree.DataLossError: topic t was created again"),
        (JAVA, "java.lang.E: inner"),
        ("[STREAM_FAILED] x\n+- ~Scan", "[STREAM_FAILED] x"),
        ("", "no reason given"),
    ],
)
def test_of_a_long_failure_the_naming_line_is_shown(text: str, line: str) -> None:
    assert clearest_line(text) == line


def test_the_causes_of_a_failure_are_searched_too() -> None:
    class Captured(Exception):
        def __init__(self, desc: str, trace: str, cause: Exception | None = None) -> None:
            self._desc, self._stackTrace, self._cause = desc, trace, cause

    error = Captured(
        "query ended", "at x", Captured("job aborted", "Caused by: y: No space left on device")
    )
    assert is_disk_full(failure_text(error))
    assert failure_text(OSError("plain")) == "plain"
