"""The demo's care for its output folder, and the pipeline's file that it writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parley.errors import ConfigError
from parley.pipelines.declared.reading import read
from parley.pipelines.demo.demo import prepare_output
from parley.pipelines.demo.inputs import open_input
from parley.pipelines.demo.job import JobPlan, write_file
from parley.pipelines.queries import QueryOptions
from parley.pipelines.queries.session import _stderr_into, pyspark_logs_into


def planned(folder: Path, text: str) -> JobPlan:
    path = folder / "a b.csv"
    path.write_text(text)
    output = folder / 'out "quoted" \\ ü'
    output.mkdir()
    return JobPlan(
        name="demo",
        dataset=open_input(path),
        source="old:1,old:2",
        target="new:1",
        registry="http://registry:8081",
        topic="a",
        aggregates_topic="b",
        output=output,
    )


def test_the_output_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "out"
    prepare_output(output)
    (output / "old").mkdir()
    (output / "old" / "file").write_text("x")
    prepare_output(output)
    assert [path.name for path in output.iterdir()] == [".parley-demo"]


def test_what_another_program_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match="did not write"):
        prepare_output(tmp_path)
    with pytest.raises(ConfigError, match="did not write"):
        prepare_output(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "x"


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    prepare_output(tmp_path)
    assert (tmp_path / ".parley-demo").exists()


@pytest.mark.parametrize(
    ("text", "by", "average"),
    [
        ("id,the kind,amount\n1,a,2.5\n2,b,2.5\n3,a,1\n", "the_kind", "avg(`amount`)"),
        ("note\nx\n", "kafka_partition", None),
    ],
)
def test_the_file_is_one_that_can_be_run(
    tmp_path: Path, text: str, by: str, average: str | None
) -> None:
    plan = planned(tmp_path, text)
    write_file(plan)
    found = read(plan.file)
    assert list(found.flows) == ["copy", "table", "aggregates", "proof"]
    assert [name for name, flow in found.flows.items() if flow.auto] == [
        "copy", "table", "aggregates",
    ]  # fmt: skip
    assert found.state / "spark.log" == plan.log
    assert found.spark["spark.sql.warehouse.dir"] == str(plan.output / "warehouse")
    table, aggregates = found.flows["table"].options, found.flows["aggregates"].options
    assert isinstance(table, QueryOptions)
    assert isinstance(aggregates, QueryOptions)
    assert table.sink.options["path"] == str(plan.table)
    assert table.sink.options["partitionBy"] == by
    assert f"group by `{by}`" in aggregates.sql
    assert ("avg(" in aggregates.sql) is (average is not None)
    assert average is None or average in aggregates.sql


def test_what_starts_meanwhile_inherits_the_log_and_stderr_comes_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = os.fstat(2)
    with _stderr_into(log):
        os.write(2, b"from a child\n")
    after = os.fstat(2)
    assert log.read_bytes() == b"from a child\n"
    assert (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino)


@pytest.mark.spark
def test_what_pyspark_logs_of_a_wrong_query_goes_into_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from pyspark.logger import PySparkLogger

    for name in ("first", "second"):  # of two sessions, one after the other
        pyspark_logs_into(tmp_path / name)
        PySparkLogger.getLogger("SQLQueryContextLogger").error(f"of the {name}")
    assert "of the first" in (tmp_path / "first").read_text()
    assert "of the first" not in (tmp_path / "second").read_text()
    assert "of the second" in (tmp_path / "second").read_text()
    assert capfd.readouterr().err == ""
