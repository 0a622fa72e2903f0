"""Delta tables that others change below a running query: restored, or given demands, after a batch
was planned. Nothing is lost in silence, and nothing goes in that the table does not want.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field, Schema

from parley.errors import ConfigError, DataLossError, LakeError
from parley.spark.lakes.partitions import NULL
from parley.spark.write.intent import BatchOfQuery

from .queries import Query, rows
from .readers import rows_of

BATCHES = [[rows(batch * 10, 2)] for batch in range(6)]


def _written(table: Path, batches: int = 4, **more: Any) -> Query:
    query = Query(table, **more)
    for batch in range(batches):
        assert query.run(batch, BATCHES[batch])
    return query


def _nothing(table: Path, *, silent: bool = False) -> None:
    """Make a version without rows, as another writer; one that is silent says nothing of it."""
    handle = DeltaTable(table)
    if silent:
        action = {"txn": {"appId": "other", "version": 1}}
        log = table / "_delta_log" / f"{handle.version() + 1:020}.json"
        log.write_text(json.dumps(action))
        return
    handle.create_write_transaction([], "append", handle.schema(), [])


@pytest.mark.parametrize("others", [0, 3, 20])
@pytest.mark.parametrize("batch", [4, 3], ids=["next", "again"])
def test_a_restored_table_is_found_out(tmp_path: Path, others: int, batch: int) -> None:
    query = _written(tmp_path / "table")
    DeltaTable(query.table).restore(1)
    for number in range(others):
        _nothing(query.table, silent=number > 0)
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"remembers batch 3 of .* restored to version 1"):
            query.run(batch, BATCHES[batch])
    assert len(rows_of(query.table)) == 4
    Query(query.table, options={"lostBatches": "continue"}).run(4, BATCHES[4])
    assert query.run(5, BATCHES[5])  # what is gone is gone: said once
    assert len(rows_of(query.table)) == 8


def test_a_restore_that_takes_no_batch_back_is_none_of_the_querys_business(tmp_path: Path) -> None:
    query = _written(tmp_path / "table")
    _nothing(query.table)
    DeltaTable(query.table).restore(3)
    assert query.run(4, BATCHES[4])
    table = DeltaTable(query.table)
    table.restore(0)
    table.restore(table.version() - 1)  # and that was taken back
    assert query.run(5, BATCHES[5])
    assert len(rows_of(query.table)) == 12


def test_a_table_restored_to_a_time_is_found_out(tmp_path: Path) -> None:
    query = _written(tmp_path / "table")
    newest = DeltaTable(query.table).history(1)[0]["timestamp"]
    _nothing(query.table)
    DeltaTable(query.table).restore(datetime.datetime.fromtimestamp(newest / 1000, datetime.UTC))
    assert query.run(4, BATCHES[4])
    log = query.table / "_delta_log"
    restored = {
        "timestamp": newest + 9,
        "operation": "RESTORE",
        "operationParameters": {"version": None, "timestamp": "2026-11-28 10:00:00"},
    }
    version = DeltaTable(query.table).version() + 1
    (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": restored}))
    with pytest.raises(DataLossError, match=r"was restored to the time 2026-11-28 10:00:00"):
        query.run(5, BATCHES[5])


def test_a_query_that_replaces_all_rows_misses_none(tmp_path: Path) -> None:
    query = _written(tmp_path / "table", overwrite=True)
    DeltaTable(query.table).restore(1)
    assert query.run(4, BATCHES[4])
    assert len(rows_of(query.table)) == 2


@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("delta.constraints.low", "n > 0", "uses the constraint low"),
        ("delta.columnMapping.mode", "name", "uses column mapping"),
        ("delta.setTransactionRetentionDuration", "interval 1 day", "forgets which batch"),
    ],
)
def test_what_a_table_demands_since_the_batch_was_planned_is_not_passed_over(
    tmp_path: Path, name: str, setting: str, expected: str
) -> None:
    query = _written(tmp_path / "table", 1)
    messages = query.write(1, BATCHES[1])
    _configure(query.table, {name: setting})
    with pytest.raises(ConfigError, match=expected):
        query.commit(messages)
    assert len(rows_of(query.table)) == 2


def _configure(table: Path, settings: dict[str, str]) -> None:
    """Give a table properties in a version of its own, as another writer."""
    log = table / "_delta_log"
    metadata = next(
        action["metaData"]
        for line in (log / f"{0:020}.json").read_text().splitlines()
        if "metaData" in (action := json.loads(line))
    )
    version = DeltaTable(table).version() + 1
    action = {"metaData": metadata | {"configuration": settings}}
    (log / f"{version:020}.json").write_text(json.dumps(action))


def test_a_column_that_wants_values_since_the_batch_was_planned_gets_no_null(
    tmp_path: Path,
) -> None:
    query = Query(tmp_path / "table")
    batch = [[{"n": None, "text": "a"}]]
    messages = query.write(0, batch)
    fields = [Field("n", "long", nullable=False), Field("text", "string")]
    DeltaTable.create(str(query.table), Schema(fields))
    with pytest.raises(LakeError, match=r'wants a value in column "n" and did not when'):
        query.commit(messages)
    with pytest.raises(ConfigError, match='has null in column "n"'):
        query.write(0, batch)
    assert query.run(0, BATCHES[0])  # looked at by tasks
    assert query.run(1, BATCHES[1])
    assert len(rows_of(query.table)) == 4


def test_a_compaction_leaves_a_value_that_delta_rs_takes_for_null(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"partitionBy": "text", "compactEvery": "1"}
    query = Query(tmp_path / "table", options=options)
    given = [{"n": 1, "text": NULL}, {"n": 2, "text": None}]
    for batch in range(2):
        query.run(batch, [given])
        query.lake().compact_after(BatchOfQuery(query.query, batch))
    assert rows_of(query.table) == sorted(given * 2, key=str)
    assert f"not compacted: {NULL} is a value of a partition" in caplog.text
