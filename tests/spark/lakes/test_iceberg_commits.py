"""Batches of a stream into an Iceberg table: written once whoever dies, races or repeats, and
counted by a reader that knows only the format.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from parley.errors import (
    DataLossError,
    LakeError,
    LocalProtocolError,
)
from parley.spark.lakes.iceberg import IcebergLake
from parley.spark.write.prefix import checkpoint_prefix

from .iceberg_queries import NAME, IcebergQuery as Query, catalog, load
from .iceberg_readers import metadata_of, numbers_of, parquet_of, rows_of
from .queries import SCHEMA, rows

BATCHES = {batch: [rows(batch * 10, 3), rows(batch * 10 + 5, 2)] for batch in range(4)}
APP = checkpoint_prefix("/checkpoint")


def of(*batches: int) -> list[dict[str, Any]]:
    """Return the rows of some batches as a reader sorts them."""
    return sorted((row for batch in batches for task in BATCHES[batch] for row in task), key=str)


class Killed(BaseException):
    """kill -9: nothing is caught, nothing is cleaned up."""


def test_batches_are_in_the_table_with_their_numbers(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for batch, tasks in BATCHES.items():
        assert query.run(batch, tasks)
    assert rows_of(tmp_path) == of(0, 1, 2, 3)
    assert numbers_of(tmp_path) == {APP: 3, f"{APP}/the-query": 3}
    metadata = metadata_of(tmp_path)
    assert len(metadata["snapshots"]) == 4  # a batch is one commit
    assert "commit.retry.num-retries" not in metadata["properties"]
    assert sorted(load(tmp_path).scan().to_arrow().to_pylist(), key=str) == of(0, 1, 2, 3)


def test_a_batch_that_spark_runs_again_is_not_written_again(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(0, BATCHES[0])
    before = parquet_of(tmp_path)
    assert not query.run(0, BATCHES[0])  # planned again: tasks pass over
    assert parquet_of(tmp_path) == before
    again = [*query.write(1, BATCHES[1])]
    query.run(1, BATCHES[1])
    assert not query.commit(again)  # planned before: the driver passes over
    assert rows_of(tmp_path) == of(0, 1)


def _steps(monkeypatch: pytest.MonkeyPatch, at: Callable[[str], None]) -> None:
    """Call `at` before everything that the driver does with the table: between two of them is
    nothing to be killed in.
    """
    names = ("_open", "_is_there", "_write", "_create")
    steps = [(IcebergLake, name) for name in names]
    for kind, name in [*steps, (SqlCatalog, "commit_table"), (SqlCatalog, "_write_metadata")]:
        original = getattr(kind, name)

        def step(*args: Any, original: Any = original, name: str = name, **named: Any) -> Any:
            at(f"before {name}")
            return original(*args, **named)

        static = name == "_write_metadata"
        monkeypatch.setattr(kind, name, staticmethod(step) if static else step)


def test_a_driver_killed_at_any_step_writes_every_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    dies_at = -1

    def at(step: str) -> None:
        taken.append(step)
        if len(taken) - 1 == dies_at:
            raise Killed

    batches = 2

    def play(root: Path) -> None:
        """Spark: a batch is over when its commit returned; else it is run again, whole."""
        root.mkdir()
        query, batch = Query(root, at=at), 0
        while batch < batches:
            try:
                query.run(batch, BATCHES[batch])
                at("before Spark's own commit")
                batch += 1
                at("after Spark's own commit")
            except Killed:
                nonlocal dies_at
                dies_at = -1

    _steps(monkeypatch, at)
    play(tmp_path / "whole")
    steps = list(taken)
    assert {"task 1", "before _create", "before _write_metadata", "after the commit"} <= set(steps)
    for point in range(len(steps)):
        taken.clear()
        dies_at = point
        root = tmp_path / f"killed {point}"
        play(root)
        assert dies_at == -1, "it was killed"
        assert rows_of(root) == of(0, 1), steps[point]


def overtaken(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something between the next commit's look at the table and the commit itself."""
    original = IcebergLake._write

    def write(self: Any, table: Any, batch: Any) -> None:
        monkeypatch.setattr(IcebergLake, "_write", original)
        other = threading.Thread(target=act)
        other.start()
        other.join()
        original(self, table, batch)

    monkeypatch.setattr(IcebergLake, "_write", write)


@pytest.mark.parametrize("tasks", [BATCHES[1], [[]]], ids=["with rows", "without rows"])
def test_two_drivers_of_one_query_write_a_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: Any
) -> None:
    first = Query(tmp_path)
    first.run(0, BATCHES[0])
    slow, fast = first.write(1, tasks), first.write(1, tasks)
    outcomes: list[bool] = []

    def others() -> None:
        outcomes.append(first.commit(fast))
        outcomes.append(first.run(2, BATCHES[2]))

    overtaken(monkeypatch, others)
    with pytest.raises(LocalProtocolError, match=r"has batch 2 of it: another driver"):
        first.commit(slow)
    assert outcomes == [True, True]
    assert numbers_of(tmp_path)[APP] == 2  # and not 1 again
    assert rows_of(tmp_path) == of(0, 2, *([1] if tasks != [[]] else []))


def test_the_slower_of_two_drivers_passes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path)
    slow, fast = query.write(0, BATCHES[0]), query.write(0, BATCHES[0])  # into a new table
    overtaken(monkeypatch, lambda: query.commit(fast))
    assert not query.commit(slow)
    assert rows_of(tmp_path) == of(0)


def test_two_drivers_make_one_new_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(tmp_path)
    original = IcebergLake._create

    def create(self: Any, columns: Any) -> None:
        monkeypatch.setattr(IcebergLake, "_create", original)
        query.run(0, BATCHES[0])
        original(self, columns)

    monkeypatch.setattr(IcebergLake, "_create", create)
    assert not query.run(0, BATCHES[0])
    assert rows_of(tmp_path) == of(0)


def test_a_query_goes_on_beside_other_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Query(tmp_path)
    other = Query(tmp_path, query="another", options={"txnAppId": "another"})
    one.run(0, BATCHES[0])

    def others() -> None:
        other.run(0, BATCHES[2])
        table = load(tmp_path)
        table.append(pa.Table.from_pylist(BATCHES[3][0] + BATCHES[3][1]))
        with table.update_schema() as update:
            update.rename_column("text", "words")

    overtaken(monkeypatch, others)
    assert one.run(1, BATCHES[1])
    expected = [{"n": row["n"], "words": row["text"]} for row in of(0, 1, 2, 3)]
    assert rows_of(tmp_path) == sorted(expected, key=str)
    found = load(tmp_path).scan().to_arrow().to_pylist()
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("lost", [OSError("no answer"), CommitStateUnknownException("504")])
def test_a_commit_whose_answer_is_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Exception
) -> None:
    query = Query(tmp_path)
    original = SqlCatalog.commit_table

    def unanswered(*args: Any) -> Any:
        original(*args)
        raise lost

    monkeypatch.setattr(SqlCatalog, "commit_table", unanswered)
    for batch in range(2):
        assert query.run(batch, BATCHES[batch])
    assert rows_of(tmp_path) == of(0, 1)


def test_of_a_commit_that_fails_nothing_is_seen_and_no_secret_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path, options={"catalog.credential": "me:hush-hush"})
    query.run(0, BATCHES[0])
    messages = query.write(1, BATCHES[1])

    def refused(*args: Any) -> Any:
        raise OSError("No space left on device, says me:hush-hush")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", refused)
        with pytest.raises(LakeError, match="did not take batch 1: OSError: No space") as caught:
            query.commit(messages)
    assert "hush" not in str(caught.value)
    assert rows_of(tmp_path) == of(0)
    assert query.commit(messages)
    assert rows_of(tmp_path) == of(0, 1)


def test_another_query_under_the_same_name_is_refused(tmp_path: Path) -> None:
    options = {"txnAppId": "flights"}
    one = Query(tmp_path, query="one", options=options)
    other = Query(tmp_path, query="other", options=options)
    one.run(0, BATCHES[0])
    one.run(1, BATCHES[1])
    for batch in (0, 1, 2):
        with pytest.raises(LocalProtocolError, match=r'under the name "flights".*query other'):
            other.run(batch, BATCHES[batch])
    assert rows_of(tmp_path) == of(0, 1)
    assert one.run(2, BATCHES[2])


def test_batches_out_of_turn_are_refused(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for batch in range(2):
        query.run(batch, BATCHES[batch])
    with pytest.raises(LocalProtocolError, match=r"batch 0 of query .* has batch 1 of it"):
        query.run(0, BATCHES[0])
    with pytest.raises(DataLossError, match="the rows of batch 2 are gone"):
        query.run(3, BATCHES[3])
    assert rows_of(tmp_path) == of(0, 1)


@pytest.mark.parametrize("goes_on", [False, True], ids=["as it was", "with later rows"])
def test_a_table_that_was_rolled_back_is_refused(tmp_path: Path, goes_on: bool) -> None:
    """The number is a property, which a rollback leaves; the snapshot beside it says so."""
    query = Query(tmp_path)
    for batch in range(3):
        query.run(batch, BATCHES[batch])
    table = load(tmp_path)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    if goes_on:
        load(tmp_path).append(pa.Table.from_pylist(BATCHES[3][0]))
    for batch in (2, 3):
        with pytest.raises(DataLossError, match="rolled back or replaced"):
            query.run(batch, BATCHES[batch])
    assert Query(tmp_path, options={"lostBatches": "continue"}).run(3, BATCHES[3])
    assert query.run(4, BATCHES[2])


def test_a_table_that_has_no_batch_of_a_query_that_wrote_some_is_refused(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for batch in range(2):
        query.run(batch, BATCHES[batch])
    catalog(tmp_path).drop_table(NAME)
    for _ in range(2):  # nothing of the attempt makes the next one pass
        with pytest.raises(DataLossError, match=r"no batch under .* rows of batches 0 to 1 are"):
            query.run(2, BATCHES[2])
    assert Query(tmp_path, options={"lostBatches": "continue"}).run(2, BATCHES[2])
    assert query.run(3, BATCHES[3])
    assert rows_of(tmp_path) == of(2, 3)


def test_an_empty_batch_leaves_its_number(tmp_path: Path) -> None:
    query = Query(tmp_path)
    assert query.run(0, [[]])
    assert query.run(1, [[], []])
    assert not query.run(1, [[], []])
    assert query.run(2, BATCHES[2])
    assert numbers_of(tmp_path)[APP] == 2
    assert rows_of(tmp_path) == of(2)


def test_the_number_survives_maintenance(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for batch in range(3):
        query.run(batch, BATCHES[batch])
    table = load(tmp_path)
    later = dt.datetime.now() + dt.timedelta(days=1)
    table.maintenance.expire_snapshots().older_than(later).commit()
    assert len(metadata_of(tmp_path)["snapshots"]) == 1
    assert not query.run(2, BATCHES[2])
    assert query.run(3, BATCHES[3])
    assert rows_of(tmp_path) == of(0, 1, 2, 3)


def test_manifests_of_small_batches_are_joined(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(0, BATCHES[0])
    with load(tmp_path).transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "2"})
    for batch in (1, 2, 3):
        query.run(batch, BATCHES[batch])
    assert rows_of(tmp_path) == of(0, 1, 2, 3)
    assert len(load(tmp_path).inspect.manifests()) == 1


def test_complete_mode_replaces_the_rows(tmp_path: Path) -> None:
    query = Query(tmp_path, overwrite=True)
    for batch in range(3):
        query.run(batch, BATCHES[batch])
        assert rows_of(tmp_path) == of(batch)
    assert not query.run(2, BATCHES[2])
    assert query.run(3, [[]])
    assert rows_of(tmp_path) == []


def test_a_table_that_is_another_one_at_the_commit_takes_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path)
    messages = query.write(0, BATCHES[0])
    catalog(tmp_path).drop_table(NAME)
    with pytest.raises(LakeError, match="was dropped since the batch was planned"):
        query.commit(messages)
    query.run(0, BATCHES[1])
    messages = query.write(1, BATCHES[2])
    catalog(tmp_path).drop_table(NAME)
    query.run(0, BATCHES[0])
    with pytest.raises(LakeError, match="was replaced, or partitioned again"):
        query.commit(messages)
    assert rows_of(tmp_path) == of(0)


@pytest.mark.parametrize("of_struct", [False, True], ids=["column", "field"])
def test_what_wants_values_since_the_batch_was_planned_gets_no_null(
    tmp_path: Path, of_struct: bool
) -> None:
    schema = type(SCHEMA)().add("n", "long").add("s", type(SCHEMA)().add("x", "long"))
    query = Query(tmp_path, schema=schema)
    query.run(0, [[{"n": 1, "s": {"x": 1}}]])
    messages = query.write(1, [[{"n": None, "s": {"x": None}}]])
    with load(tmp_path).update_schema(allow_incompatible_changes=True) as change:
        change.update_column(("s", "x") if of_struct else "n", required=True)
    name = "s.x" if of_struct else "n"
    with pytest.raises(LakeError, match=rf'wants a value in column "{name}" and did not when'):
        query.commit(messages)


def test_columns_may_be_renamed_since_the_batch_was_planned(tmp_path: Path) -> None:
    query = Query(tmp_path)
    messages = query.write(0, [[{"n": 1, "text": "a"}]])
    with load(tmp_path).update_schema() as change:
        change.rename_column("text", "other")
    assert query.commit(messages)
    assert load(tmp_path).scan().to_arrow().to_pylist() == [{"n": 1, "other": "a"}]
