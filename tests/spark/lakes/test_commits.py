"""Batches of a stream into a Delta table: written once whoever dies, races or repeats, and counted
by a reader that knows only the format.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from parley.errors import (
    ConfigError,
    DataLossError,
    LakeError,
    LocalProtocolError,
    NotInstalledError,
)
from parley.spark.lakes import delta
from parley.spark.lakes.options import Kind
from parley.spark.lakes.snapshots import Place, open_snapshot
from parley.spark.write.prefix import checkpoint_prefix

from .queries import SCHEMA, Query, rows
from .readers import added, files_of, log_of, rows_of, schema_of, versions_of

BATCHES = {batch: [rows(batch * 10, 3), rows(batch * 10 + 5, 2)] for batch in range(4)}
ALL = sorted((row for tasks in BATCHES.values() for task in tasks for row in task), key=str)
APP = checkpoint_prefix("/checkpoint")


class Killed(BaseException):
    """kill -9: nothing is caught, nothing is cleaned up."""


def test_batches_are_in_the_table_with_their_numbers(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    for batch, tasks in BATCHES.items():
        assert query.run(batch, tasks)
    assert rows_of(query.table) == ALL
    assert versions_of(query.table) == {APP: 3, f"{APP}/the-query": 3}
    for actions in log_of(query.table):
        assert sum("add" in action for action in actions) == 2  # a batch is one commit


@pytest.mark.parametrize("name", ["my table", "überall", "100%", "q?x#1+2"])
def test_a_table_is_where_its_address_says(tmp_path: Path, name: str) -> None:
    table = tmp_path / name
    query = Query(table, options={"path": table.as_uri()})
    for batch, tasks in BATCHES.items():
        assert query.run(batch, tasks)
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert rows_of(table) == ALL
    for address in (table.as_uri(), str(table)):
        read = open_snapshot(Place(Kind.DELTA, address)).read(["n", "text"], None)
        assert sorted((row for part in read for row in part.to_pylist()), key=str) == ALL
        assert len(DeltaTable(address).file_uris()) == len(files_of(table))


def test_a_batch_that_spark_runs_again_is_not_written_again(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    query.run(0, BATCHES[0])
    before = files_of(query.table)
    assert not query.run(0, BATCHES[0])  # planned again: tasks pass over
    assert files_of(query.table) == before
    again = [*query.write(1, BATCHES[1])]
    query.run(1, BATCHES[1])
    assert not query.commit(again)  # planned before: the driver passes over
    assert rows_of(query.table) == sorted(
        (row for batch in (0, 1) for task in BATCHES[batch] for row in task), key=str
    )


def _steps(monkeypatch: pytest.MonkeyPatch, at: Callable[[str], None]) -> None:
    """Call `at` before and after everything that the driver does with the table."""
    for name in ("_open", "_is_there", "_make_fit", "_write"):
        original = getattr(delta.DeltaLake, name)

        def step(*args: Any, original: Any = original, name: str = name) -> Any:
            at(f"before {name}")
            found = original(*args)
            at(f"after {name}")
            return found

        monkeypatch.setattr(delta.DeltaLake, name, step)


def test_a_driver_killed_at_any_step_writes_every_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    dies_at = -1

    def at(step: str) -> None:
        taken.append(step)
        if len(taken) - 1 == dies_at:
            raise Killed

    _steps(monkeypatch, at)

    def play(table: Path) -> None:
        """Spark: a batch is over when its commit returned; else it is run again, whole."""
        query, batch = Query(table, at=at), 0
        while batch < len(BATCHES):
            try:
                query.run(batch, BATCHES[batch])
                at("before Spark's own commit")
                batch += 1
                at("after Spark's own commit")
            except Killed:
                nonlocal dies_at
                dies_at = -1

    play(tmp_path / "whole")
    steps = list(taken)
    assert {"task 1", "before _write", "after _write"} <= set(steps)
    for point in range(len(steps)):
        taken.clear()
        dies_at = point
        table = tmp_path / f"killed {point}"
        play(table)
        assert dies_at == -1, "it was killed"
        assert rows_of(table) == ALL, steps[point]


def test_two_drivers_of_one_query_write_a_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Query(tmp_path / "table")
    first.run(0, BATCHES[0])
    slow, fast = first.write(1, BATCHES[1]), first.write(1, BATCHES[1])
    outcomes: list[bool] = []
    original = delta.DeltaLake._write

    def overtaken(self: Any, table: Any, batch: Any) -> None:
        """Let another driver commit between the look at the table and the commit."""
        monkeypatch.setattr(delta.DeltaLake, "_write", original)
        other = threading.Thread(target=lambda: outcomes.append(first.commit(fast)))
        other.start()
        other.join()
        original(self, table, batch)

    monkeypatch.setattr(delta.DeltaLake, "_write", overtaken)
    assert not first.commit(slow)
    assert outcomes == [True]
    assert rows_of(first.table) == sorted(
        (row for batch in (0, 1) for task in BATCHES[batch] for row in task), key=str
    )


def test_two_drivers_make_one_new_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(tmp_path / "table")
    slow, fast = query.write(0, BATCHES[0]), query.write(0, BATCHES[0])
    original = delta.DeltaLake._write

    def overtaken(self: Any, table: Any, batch: Any) -> None:
        monkeypatch.setattr(delta.DeltaLake, "_write", original)
        assert query.commit(fast)
        original(self, table, batch)

    monkeypatch.setattr(delta.DeltaLake, "_write", overtaken)
    assert not query.commit(slow)
    assert rows_of(query.table) == sorted((row for task in BATCHES[0] for row in task), key=str)


def test_a_query_goes_on_beside_other_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Query(tmp_path / "table")
    other = Query(one.table, query="another", options={"txnAppId": "another"})
    one.run(0, BATCHES[0])
    original = delta.DeltaLake._write

    def overtaken(self: Any, table: Any, batch: Any) -> None:
        monkeypatch.setattr(delta.DeltaLake, "_write", original)
        other.run(0, BATCHES[2])
        DeltaTable(one.table).optimize.compact()
        original(self, table, batch)

    monkeypatch.setattr(delta.DeltaLake, "_write", overtaken)
    assert one.run(1, BATCHES[1])
    assert rows_of(one.table) == sorted(
        (row for batch in (0, 1, 2) for task in BATCHES[batch] for row in task), key=str
    )


def test_a_commit_whose_answer_is_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path / "table")
    original = delta.DeltaLake._write

    def unanswered(self: Any, table: Any, batch: Any) -> None:
        original(self, table, batch)
        raise OSError("no answer")

    monkeypatch.setattr(delta.DeltaLake, "_write", unanswered)
    for batch in range(2):
        assert query.run(batch, BATCHES[batch])
    assert len(rows_of(query.table)) == 10


def test_of_a_commit_that_fails_nothing_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path / "table")
    query.run(0, BATCHES[0])
    messages = query.write(1, BATCHES[1])

    def refused(self: Any, table: Any, batch: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(delta.DeltaLake, "_write", refused)
        with pytest.raises(LakeError, match="did not take batch 1: OSError: No space left"):
            query.commit(messages)
    assert len(rows_of(query.table)) == 5
    assert query.commit(messages)
    assert len(rows_of(query.table)) == 10


def test_another_query_under_the_same_name_is_refused(tmp_path: Path) -> None:
    options = {"txnAppId": "flights"}
    one = Query(tmp_path / "table", query="one", options=options)
    other = Query(one.table, query="other", options=options)
    one.run(0, BATCHES[0])
    one.run(1, BATCHES[1])
    for batch in (0, 1, 2):
        with pytest.raises(LocalProtocolError, match=r'under the name "flights".*query other'):
            other.run(batch, BATCHES[batch])
    assert len(rows_of(one.table)) == 10
    assert one.run(2, BATCHES[2])


def test_a_checkpoint_that_was_put_back_is_refused(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    for batch in range(3):
        query.run(batch, BATCHES[batch])
    with pytest.raises(LocalProtocolError, match=r"batch 1 of query .* has batch 2 of it"):
        query.run(1, BATCHES[1])
    assert len(rows_of(query.table)) == 15


def test_a_table_that_lost_batches_is_refused(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    query.run(0, BATCHES[0])
    with pytest.raises(DataLossError, match="the rows of batch 1 are gone"):
        query.run(2, BATCHES[2])
    assert len(rows_of(query.table)) == 5

    assert Query(query.table, options={"lostBatches": "continue"}).run(2, BATCHES[2])
    assert query.run(3, BATCHES[3])
    assert len(rows_of(query.table)) == 15


@pytest.mark.parametrize("is_there", [False, True], ids=["deleted", "another one"])
def test_a_table_that_has_no_batch_of_a_query_that_wrote_some_is_refused(
    tmp_path: Path, is_there: bool
) -> None:
    query = Query(tmp_path / "table")
    for batch in range(2):
        query.run(batch, BATCHES[batch])
    shutil.rmtree(query.table)
    if is_there:
        Query(query.table, options={"txnAppId": "another"}).run(0, BATCHES[3])
    for _ in range(2):  # nothing of the attempt makes the next one pass
        with pytest.raises(DataLossError, match=r"no batch under .* rows of batches 0 to 1 are"):
            query.run(2, BATCHES[2])
    assert Query(query.table, options={"lostBatches": "continue"}).run(2, BATCHES[2])
    assert query.run(3, BATCHES[3])


def test_a_batch_that_has_all_rows_may_go_into_a_new_table(tmp_path: Path) -> None:
    query = Query(tmp_path / "table", overwrite=True)
    query.run(0, BATCHES[0])
    shutil.rmtree(query.table)
    assert query.run(1, BATCHES[1])
    assert len(rows_of(query.table)) == 5


def test_an_empty_batch_leaves_its_number(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    assert query.run(0, [[]])
    assert query.run(1, [[], []])
    assert not query.run(1, [[], []])
    assert query.run(2, BATCHES[2])
    assert versions_of(query.table)[APP] == 2
    assert len(rows_of(query.table)) == 5


def test_the_number_survives_maintenance(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    for batch in range(3):
        query.run(batch, BATCHES[batch])
    table = DeltaTable(query.table)
    table.optimize.compact()
    table.create_checkpoint()
    table.cleanup_metadata()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert not query.run(2, BATCHES[2])
    assert query.run(3, BATCHES[3])
    assert DeltaTable(query.table).to_pyarrow_table().num_rows == 20


def test_small_files_are_joined_every_so_many_batches(tmp_path: Path) -> None:
    query = Query(tmp_path / "table", options={"compactEvery": "2"})
    for batch, tasks in BATCHES.items():
        assert query.run(batch, tasks)
        query.lake().compact_after(query.write(batch, tasks)[0].what)  # type: ignore[arg-type]
        assert len(added(query.table)) == (1 if batch % 2 else 3 if batch else 2)
    assert rows_of(query.table) == ALL


def test_columns_are_added_only_where_that_is_wanted(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    query.run(0, BATCHES[0])
    wider = type(SCHEMA)([*SCHEMA.fields]).add("extra", "double")
    more = [[{"n": 100, "text": "new", "extra": 0.5}]]
    refused = Query(query.table, schema=wider)
    with pytest.raises(ConfigError, match=r'has no column "extra" \(double\).*mergeSchema=true'):
        refused.run(1, more)
    assert Query(query.table, schema=wider, options={"mergeSchema": "true"}).run(1, more)
    assert [field["name"] for field in schema_of(query.table)] == ["n", "text", "extra"]
    found = rows_of(query.table)
    assert {"n": 100, "text": "new", "extra": 0.5} in found
    assert {"n": 0, "text": "row 0", "extra": None} in found
    assert query.run(2, BATCHES[2])  # rows without the new column go on


def test_a_driver_that_only_added_the_column_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle that added a column has seen what others wrote meanwhile: it decides nothing."""
    query = Query(tmp_path / "table")
    query.run(0, BATCHES[0])
    wider = type(SCHEMA)([*SCHEMA.fields]).add("extra", "double")
    options = {"mergeSchema": "true"}
    more = [[{"n": 100, "text": "new", "extra": 0.5}]]
    slow = Query(query.table, schema=wider, options=options)
    messages = slow.write(1, more)
    original = delta.DeltaLake._make_fit

    def overtaken(self: Any, table: Any, batch: Any) -> bool:
        monkeypatch.setattr(delta.DeltaLake, "_make_fit", original)
        Query(query.table).run(1, BATCHES[1])  # the same batch by another driver, old columns
        return original(self, table, batch)

    monkeypatch.setattr(delta.DeltaLake, "_make_fit", overtaken)
    assert not slow.commit(messages)
    assert len(rows_of(query.table)) == 10


def test_without_delta_rs_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(NotInstalledError, match=r'pip install "kafka-parley\[delta\]"'):
        Query(tmp_path / "table").run(0, BATCHES[0])


def test_a_table_that_delta_rs_cannot_read_is_named(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    query.run(0, BATCHES[0])
    log = query.table / "_delta_log"
    first = log / "00000000000000000000.json"
    first.write_text(first.read_text().replace('"minReaderVersion":1', '"minReaderVersion":9'))
    for crc in log.glob(".*crc"):
        crc.unlink()
    with pytest.raises(LakeError, match=r"the table .*/table cannot be opened: .*version"):
        query.run(1, BATCHES[1])


def test_complete_mode_replaces_the_rows(tmp_path: Path) -> None:
    query = Query(tmp_path / "table", overwrite=True)
    for batch, tasks in BATCHES.items():
        query.run(batch, tasks)
        assert rows_of(query.table) == sorted((row for task in tasks for row in task), key=str)
    assert not query.run(3, BATCHES[3])


def test_partitions_are_folders_and_values_of_the_log(tmp_path: Path) -> None:
    query = Query(tmp_path / "table", options={"partitionBy": "text"})
    given = [{"n": n, "text": text} for n, text in enumerate(["a", "b/ü =%", None, "", "a"])]
    query.run(0, [given])
    expected = [{"n": row["n"], "text": row["text"] or None} for row in given]
    assert rows_of(query.table) == sorted(expected, key=str)
    read = DeltaTable(query.table).to_pyarrow_table().to_pylist()
    assert sorted(read, key=str) == sorted(expected, key=str)
    other = Query(query.table, options={"partitionBy": "n"})
    with pytest.raises(ConfigError, match=r"is partitioned by \(text\), not by \(n\)"):
        other.run(1, [given])
    assert Query(query.table).run(1, [given])  # the table knows


def test_a_partition_column_that_the_rows_lack_is_null(tmp_path: Path) -> None:
    Query(tmp_path / "table", options={"partitionBy": "text"}).run(0, BATCHES[0])
    without = type(SCHEMA)([SCHEMA["n"]])
    assert Query(tmp_path / "table", schema=without).run(1, [[{"n": 100}, {"n": 101}]])
    read = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in read if row["text"] is None) == [100, 101]
    assert len(read) == 7


def test_without_the_partition_column_the_error_names_what_is_wrong(tmp_path: Path) -> None:
    Query(tmp_path / "table", options={"partitionBy": "text"}).run(0, BATCHES[0])
    wrong = type(SCHEMA)().add("n", "string")
    with pytest.raises(ConfigError, match=r'"n" is bigint in the table .* and string in the rows'):
        Query(tmp_path / "table", schema=wrong).run(1, [[{"n": "x"}]])
    partitions_alone = type(SCHEMA)([SCHEMA["text"]])
    with pytest.raises(ConfigError, match=r"by every column that the rows have \(text\): at least"):
        Query(tmp_path / "table", schema=partitions_alone).run(1, [[{"text": "x"}]])
