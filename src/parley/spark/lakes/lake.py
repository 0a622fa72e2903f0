"""A table as the driver knows it, whichever lake it is in: how a batch is planned and committed.

What decides is read from a table that was just opened, and the commit is made through that same
handle, which the lake refuses where another writer was faster. Then all begins again with the
table as it is. A commit that fails is looked for: its answer may be all that was lost.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from parley.errors import ConfigError, DataLossError, KafkaError, LakeError
from parley.spark.lakes.columns import Column
from parley.spark.lakes.decisions import Marks, Step, own_mark, step_for
from parley.spark.lakes.messages import TaskFiles
from parley.spark.lakes.opening import said, secrets_of
from parley.spark.lakes.options import LOST_BATCHES, TXN_VERSION, LakeOptions
from parley.spark.write.intent import BatchOfQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from parley.spark.lakes.files import Layout
    from parley.spark.lakes.folders import Folder

log = logging.getLogger("parley.spark")
T = TypeVar("T")
"""A handle of an open table."""
TRIES = 10
"""How often a batch is committed while others change the table: each time they were faster."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks of one batch know."""

    layout: Layout
    folder: Folder
    newest: int | None = None
    """The number of the batch written last under the application id."""
    made_for: str = ""
    """See `TaskFiles`."""

    def written(self, what: BatchOfQuery | None) -> TaskFiles | None:
        """Return what a task hands back of a batch that the table has already; None for others."""
        if what is None or self.newest is None or self.newest < what.batch:
            return None
        return TaskFiles(
            what, (), self.layout.partition_by, self.folder.path, self.made_for, passed_over=True
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be committed at once."""

    columns: tuple[Column, ...]
    """Of the rows."""
    written: TaskFiles
    overwrite: bool = False

    @property
    def what(self) -> BatchOfQuery | None:
        """None for a batch write, which Spark gives no number."""
        return self.written.what


class Lake(ABC, Generic[T]):
    """One table, for one query or batch write. Errors of the lake's library are LakeErrors."""

    LIBRARY = ""
    """Who commits, as one calls it."""
    CLEANS = ""
    """What removes files that no commit names."""

    def __init__(self, options: LakeOptions) -> None:
        self._options = options
        self._where = options.path

    @abstractmethod
    def plan(
        self, columns: Sequence[Column], rows: pa.Schema, *, stream: bool, overwrite: bool
    ) -> Plan:
        """Return what tasks need to know. `rows` is the rows' schema in Arrow.

        Raises ConfigError for rows that do not go into the table, and for a table that cannot be
        written as it wants to be.
        """

    def commit(self, batch: Batch) -> bool:
        """Commit a batch's files; return False where its number stands in the table already.

        Raises LakeError where the table took nothing, and as `step_for` does.
        """
        for left in reversed(range(TRIES)):
            table = self._open()
            if self._is_there(table, batch):
                return False
            if batch.written.passed_over:
                raise LakeError(
                    f"{_named(batch)} stood in the table {self._where} when it was planned "
                    "and does not any more: was the table replaced? Nothing was written; the query "
                    "writes the batch when it is started again"
                )
            try:
                if table is not None and self._make_fit(table, batch):
                    continue  # this handle may not have seen what others wrote in between
                self._write(table, batch)
                return True
            except KafkaError:
                raise
            except Exception as error:
                if self._has_landed(batch, error):
                    log.warning(
                        "%s: committed, although %s says: %s",
                        self._where, self.LIBRARY, self._said(error),
                    )  # fmt: skip
                    return True
                if not left or not self._is_conflict(error):
                    raise LakeError(
                        f"the table {self._where} did not take {_named(batch)}: "
                        f"{self._said(error)}. Nothing of it can be seen. Correct the cause and "
                        "start the query again; files that were written are removed by "
                        f"{self.CLEANS}"
                    ) from error
                log.info(
                    "%s: another writer was faster, trying again: %s",
                    self._where, self._said(error),
                )  # fmt: skip
        raise LakeError(
            f"the table {self._where} was changed by others {TRIES} times while "
            f"{_named(batch)} was committed. Nothing of it can be seen. Start the query again"
        )

    def compact_after(self, what: BatchOfQuery) -> None:
        """Join small files, where the lake can and options say so. A failure is logged: the batch
        is committed.
        """

    def close(self) -> None:
        """Let go of what holds connections."""

    @abstractmethod
    def _open(self) -> T | None:
        """Return a new handle of the table as it is now; None where there is none."""

    @abstractmethod
    def _mark(self, table: T, name: str) -> int | None:
        """Return the number that the table remembers under a name."""

    @abstractmethod
    def _make_fit(self, table: T, batch: Batch) -> bool:
        """Give the table what it lacks for the batch; return whether that took a commit. Raises
        LakeError where the table is no longer the one that the files were made for.
        """

    @abstractmethod
    def _write(self, table: T | None, batch: Batch) -> None:
        """Commit the files and the batch's number at once, once, and only to the table as the
        handle has it.
        """

    @abstractmethod
    def _holds(self, table: T, batch: Batch) -> bool:
        """Return whether the commit that was tried last is in a table opened after it."""

    @abstractmethod
    def _is_conflict(self, error: Exception) -> bool:
        """Return whether another writer was faster: the same may go well on the table as it is
        now.
        """

    def _said(self, error: Exception) -> str:
        """Return what the library says, on one line and without secrets."""
        return said(error, secrets_of(self._options.storage))

    def _is_there(self, table: T | None, batch: Batch) -> bool:
        app = self._options.app
        if app is None:
            return False
        newest = None if table is None else self._mark(table, app)
        if batch.what is None:
            version = self._options.own[TXN_VERSION]
            return newest is not None and version is not None and newest >= version
        if newest is None and batch.overwrite:
            return False  # it has all rows, also those of batches that are gone
        own = None if table is None else self._mark(table, own_mark(app, batch.what.query))
        try:
            return step_for(batch.what, Marks(newest, own), app) is Step.PASS_OVER
        except DataLossError as lost:
            self._go_on_without(lost)
            return False

    def _go_on_without(self, lost: DataLossError) -> None:
        """Raise for rows that are gone, unless options say to go on."""
        if self._options.own[LOST_BATCHES] != "continue":
            raise lost
        log.error("%s: %s The query goes on (lostBatches=continue).", self._where, lost)

    def _marks(self, batch: Batch) -> dict[str, int]:
        """Return the numbers that the table is to remember with the batch, by name."""
        app, version = self._options.app, self._options.own[TXN_VERSION]
        if batch.what is not None and app is not None:
            query, number = batch.what
            return {app: number, own_mark(app, query): number}
        return {app: version} if app is not None and version is not None else {}

    def _has_landed(self, batch: Batch, error: Exception) -> bool:
        """Return whether a commit that failed is in the table."""
        try:
            table = self._open()
            return table is not None and self._holds(table, batch)
        except LakeError:
            raise LakeError(
                f"the table {self._where} did not answer when {_named(batch)} was "
                f"committed: {self._said(error)}. Whether it was is unknown. Start the query "
                "again: it finds out"
            ) from error

    def _check_partitions(self, partition_by: tuple[str, ...]) -> None:
        """Raise ConfigError where the options want other partitions than the table has."""
        wanted = self._options.partition_by
        if wanted not in ((), partition_by):
            raise ConfigError(
                f"the table {self._where} is partitioned by ({', '.join(partition_by)}), not by "
                f"({', '.join(wanted)}): leave partitionBy out, or write into another table"
            )

    def _check_still_partitioned(self, partition_by: tuple[str, ...], batch: Batch) -> None:
        """Raise LakeError where the files were made for other partitions."""
        if partition_by != batch.written.partition_by:
            raise LakeError(
                f"the table {self._where} is partitioned by ({', '.join(partition_by)}) and was "
                "not when the batch was planned. Nothing was written; start the query again"
            )

    def _check_still_required(self, now: Collection[str], checked: Collection[str]) -> None:
        """Raise LakeError where the table wants values in columns that tasks did not look at."""
        more = sorted(set(now) - set(checked))
        if more:
            raise LakeError(
                f'the table {self._where} wants a value in column "{more[0]}" and did not when the '
                "batch was planned: its rows may have nulls there. Nothing was written; start the "
                "query again"
            )


def _named(batch: Batch) -> str:
    return "the rows of this write" if batch.what is None else f"batch {batch.what.batch}"
