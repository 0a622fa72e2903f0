"""A Delta table, by delta-rs, which is imported when it is needed.

delta-rs records a batch's number with its rows, but refuses a repetition only where the number
changed since the table was opened. So a handle that committed anything else (a column) decides
nothing more.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from parley.errors import DataLossError, NotInstalledError
from parley.spark.lakes.columns import (
    Column,
    Fit,
    as_new_table,
    check_columns,
    check_new_table,
    check_partitions,
    columns_of,
    fit,
    schema_json,
)
from parley.spark.lakes.decisions import GO_ON, own_mark
from parley.spark.lakes.features import Demands, check_features
from parley.spark.lakes.lake import Batch, Lake, Plan
from parley.spark.lakes.messages import WrittenFile
from parley.spark.lakes.opening import open_delta
from parley.spark.lakes.options import COMPACT_EVERY, MERGE_SCHEMA, TARGET_FILE_SIZE
from parley.spark.lakes.partitions import NULL
from parley.spark.lakes.restores import BATCH, QUERY, taken_back
from parley.spark.write.intent import BatchOfQuery

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

    from parley.spark.lakes.folders import Stream

log = logging.getLogger("parley.spark")


class DeltaLake(Lake["DeltaTable"]):
    """One Delta table."""

    LIBRARY = "delta-rs"
    CLEANS = "vacuum"

    def plan(
        self, columns: Sequence[Column], rows: pa.Schema, *, stream: bool, overwrite: bool
    ) -> Plan:
        """See `Lake`."""
        table = self._open()
        if table is None:
            check_new_table(columns, self._options.partition_by)
            return self._planned(rows, self._options.partition_by, columns, {})
        check_features(_demands(table), self._where, stream=stream, overwrite=overwrite)
        partition_by = tuple(table.metadata().partition_columns)
        self._check_partitions(partition_by)
        check_columns(columns)
        fitted = self._fit(table, columns)
        check_partitions(columns, partition_by)
        known = (*columns_of(table.schema().to_json()), *fitted.added)
        app = self._options.app
        newest = None if app is None else self._mark(table, app)
        configuration = table.metadata().configuration
        return self._planned(rows, partition_by, known, configuration, fitted.required, newest)

    def _planned(
        self,
        rows: pa.Schema,
        partition_by: tuple[str, ...],
        known: Sequence[Column],
        configuration: Mapping[str, str],
        required: tuple[str, ...] = (),
        newest: int | None = None,
    ) -> Plan:
        """`known` are the table's columns, those included that it gets first."""
        from parley.spark.lakes.files import Layout
        from parley.spark.lakes.folders import Folder
        from parley.spark.lakes.statistics import indexed, statistics

        wanted = indexed([one for one in known if one.name not in partition_by], configuration)
        describe = partial(statistics, wanted=wanted)
        target = self._options.own[TARGET_FILE_SIZE]
        layout = Layout(rows, partition_by, required, target, describe)
        folder = Folder(self._where, self._options.storage, open_in_store)
        return Plan(layout, folder, newest, json.dumps(required))

    def compact_after(self, what: BatchOfQuery) -> None:
        """Join small files after every `compactEvery` batches."""
        every = self._options.own[COMPACT_EVERY]
        if every is None or (what.batch + 1) % every:
            return
        try:
            table = self._open()
            if table is not None and any(NULL in one.values() for one in table.partitions()):
                # delta-rs would make null of it (1.6.6).
                log.warning("%s: not compacted: %s is a value of a partition", self._where, NULL)
            elif table is not None:
                found = table.optimize.compact(target_size=self._options.own[TARGET_FILE_SIZE])
                log.info("%s: compacted, %s", self._where, found)
        except Exception as error:
            log.warning("%s: compaction failed, the rows are all there: %s", self._where, error)

    def _open(self) -> DeltaTable | None:
        return open_delta(self._where, self._options.storage)

    def _storage(self) -> dict[str, str] | None:
        return dict(self._options.storage) or None

    def _mark(self, table: DeltaTable, name: str) -> int | None:
        return cast("int | None", table.transaction_version(name))

    def _is_there(self, table: DeltaTable | None, batch: Batch) -> bool:
        app, what = self._options.app, batch.what
        # What replaces all rows does not miss those of earlier batches.
        if table is not None and what is not None and app is not None and not batch.overwrite:
            newest = self._mark(table, own_mark(app, what.query))
            if newest is not None:
                self._check_restores(table, what, newest)
        return super()._is_there(table, batch)

    def _check_restores(self, table: DeltaTable, what: BatchOfQuery, newest: int) -> None:
        """Raise DataLossError where rows of the query's newest batch are not in the table."""
        wrote = BatchOfQuery(what.query, newest)
        back = taken_back(table.history, table.version() + 1, wrote)
        if back is not None:
            lost = DataLossError(
                f"the table {self._where} remembers batch {newest} of query {what.query}, but was "
                f"restored to {back}, which is older: rows are gone. Batch {what.batch} was not "
                f"written. {GO_ON}"
            )
            self._go_on_without(lost)

    def _fit(self, table: DeltaTable, columns: Sequence[Column]) -> Fit:
        known = columns_of(table.schema().to_json())
        merge = self._options.own[MERGE_SCHEMA]
        return fit(columns, known, merge=merge, where=self._where)

    def _make_fit(self, table: DeltaTable, batch: Batch) -> bool:
        self._check_still_partitioned(tuple(table.metadata().partition_columns), batch)
        stream = batch.what is not None
        check_features(_demands(table), self._where, stream=stream, overwrite=batch.overwrite)
        fitted = self._fit(table, batch.columns)
        self._check_still_required(fitted.required, json.loads(batch.written.made_for))
        if fitted.added:
            from deltalake import Schema

            fields = Schema.from_json(schema_json(fitted.added)).fields
            table.alter.add_columns(fields)
        return bool(fitted.added)

    def _write(self, table: DeltaTable | None, batch: Batch) -> None:
        actions = [_add_action(file) for file in batch.written.files]
        properties = self._properties(batch)
        if table is not None:
            table.create_write_transaction(
                actions,
                "overwrite" if batch.overwrite else "append",
                table.schema(),
                list(batch.written.partition_by),
                commit_properties=properties,
            )
            return
        from deltalake import Schema
        from deltalake.transaction import create_table_with_add_actions

        create_table_with_add_actions(
            self._where,
            Schema.from_json(schema_json(as_new_table(batch.columns))),
            actions,
            mode="error",
            partition_by=list(batch.written.partition_by),
            storage_options=self._storage(),
            commit_properties=properties,
        )

    def _properties(self, batch: Batch) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        marks = [Transaction(name, number) for name, number in self._marks(batch).items()]
        if batch.what is None:
            return CommitProperties(app_transactions=marks)
        query, number = batch.what
        return CommitProperties(
            custom_metadata={QUERY: query, BATCH: str(number)},
            app_transactions=marks,
        )

    def _holds(self, table: DeltaTable, batch: Batch) -> bool:
        if batch.written.files:
            paths = set(table.get_add_actions(flatten=True).column("path").to_pylist())
            return batch.written.files[0].path in paths
        return batch.what is not None and self._is_there(table, batch)

    def _is_conflict(self, error: Exception) -> bool:
        from deltalake.exceptions import CommitFailedError

        return isinstance(error, CommitFailedError) or "already exists" in str(error).lower()


def open_in_store(path: str, storage: Mapping[str, str], name: str) -> Stream:
    """Begin a file in an object store, with delta-rs."""
    try:
        # What deltalake.fs makes of it for pyarrow does not take pyarrow's buffers (1.6.6).
        from deltalake._internal import DeltaFileSystemHandler
    except ModuleNotFoundError:
        raise NotInstalledError("deltalake", "delta") from None
    handler = DeltaFileSystemHandler(path, dict(storage))
    return cast("Stream", handler.open_output_stream(name, None))  # its stub lacks two methods


def _demands(table: DeltaTable) -> Demands:
    protocol = table.protocol()
    return Demands(
        protocol.min_writer_version,
        tuple(protocol.writer_features or ()),
        dict(table.metadata().configuration),
        table.schema().to_json(),
    )


def _add_action(file: WrittenFile) -> AddAction:
    from deltalake.transaction import AddAction

    assert isinstance(file.statistics, str)
    return AddAction(
        file.path, file.size, dict(file.partition_values), file.modified_ms, True, file.statistics
    )
