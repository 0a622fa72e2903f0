"""The examples of docstrings and documents that need a Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..examples import cluster_of_examples, failures, programs, run

PROGRAMS = [one for one in programs() if "pyspark" in one[2] and str(one[0]) != "README.md"]


def test_the_example_of_parley_spark_runs(spark: Any) -> None:
    with cluster_of_examples() as servers:
        assert failures("parley.spark", servers, spark=spark) == []


@pytest.mark.parametrize(
    ("document", "line", "text"), PROGRAMS, ids=[f"{name}:{line}" for name, line, _ in PROGRAMS]
)
def test_the_programs_of_documents_run_in_spark(
    spark: Any, document: Path, line: int, text: str
) -> None:
    with cluster_of_examples() as servers:
        run(document, line, text, servers)
