"""An Iceberg table: pyiceberg is imported here and in `iceberg_manifests` alone, when it is needed.

A batch is one transaction: a snapshot of its files, which the catalog takes only on top of the
snapshot that the handle has, and its number as a property of the table, which outlives
expire_snapshots. A batch without rows makes a snapshot too: properties alone are taken on top of
anything. pyiceberg would try a refused commit again by itself, on top of what others wrote
meanwhile, and so write a batch twice; a handle is opened with this turned off, which the table
never sees.

Files follow a schema of the table by its ids. So a new table and new columns are committed when a
batch is planned, before tasks write.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from parley.errors import ConfigError, DataLossError, KafkaError, LakeError, NotInstalledError
from parley.spark.lakes.columns import (
    Column,
    Fit,
    as_new_table,
    check_columns,
    check_new_table,
    check_partitions,
    fit,
)
from parley.spark.lakes.decisions import GO_ON
from parley.spark.lakes.iceberg_columns import (
    ICEBERG,
    check_types,
    columns_of_table,
    fields_of,
    widened,
    with_ids,
)
from parley.spark.lakes.iceberg_manifests import (
    data_files,
    fields_in,
    footer_bytes,
    made_for_of,
    partition_by_of,
    required_in,
    was_taken_back,
)
from parley.spark.lakes.iceberg_options import CATALOG
from parley.spark.lakes.lake import TRIES, Batch, Lake, Plan
from parley.spark.lakes.opening import load_catalog, load_iceberg, said, secrets_of
from parley.spark.lakes.options import MERGE_SCHEMA, TARGET_FILE_SIZE, LakeOptions, local_folder
from parley.types import Json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from parley.spark.lakes.folders import Stream

log = logging.getLogger("parley.spark")
NUMBER = "parley.batch."
"""Before a name in the table's properties: the number of the last batch under the name."""
SNAPSHOT = "parley.snapshot."
"""The same: the snapshot that this batch made."""
HIGHEST_FORMAT = 2
FIRST_PARTITION_ID = 1000
_RETRIES = "commit.retry.num-retries"
_MERGE_MANIFESTS = "commit.manifest-merge.enabled"
_CODEC = "write.parquet.compression-codec"


class IcebergLake(Lake["Table"]):
    """One Iceberg table."""

    LIBRARY = "pyiceberg"
    CLEANS = "remove_orphan_files of an engine"

    def __init__(self, options: LakeOptions) -> None:
        super().__init__(options)
        self._catalog: Catalog | None = None
        self._tried: int | None = None
        """The snapshot of the commit that was tried last."""

    def plan(
        self, columns: Sequence[Column], rows: pa.Schema, *, stream: bool, overwrite: bool
    ) -> Plan:
        """See `Lake`."""
        from parley.spark.lakes.files import Layout
        from parley.spark.lakes.folders import Folder

        columns = widened(columns)
        table, fitted = self._prepared(columns)
        metadata = table.metadata
        app, parquet = self._options.app, _parquet(metadata.properties)
        layout = Layout(
            with_ids(rows, fields_in(metadata.schema())),
            partition_by_of(metadata, self._where),
            fitted.required,
            self._options.own[TARGET_FILE_SIZE],
            footer_bytes,
            partitions_in_files=True,
            parquet=parquet,
        )
        path = table.location_provider().data_path
        stores = {} if local_folder(path) else dict(table.io.properties)
        newest = self._mark(table, app) if app is not None else None
        made_for = (metadata.table_uuid, metadata.current_schema_id, metadata.default_spec_id)
        return Plan(
            layout, Folder(path, stores, open_in_store), newest, "/".join(map(str, made_for))
        )

    def close(self) -> None:
        """See `Lake`."""
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _prepared(self, columns: Sequence[Column]) -> tuple[Table, Fit]:
        """Return a table that has all columns of the rows; make it or add them where it has not."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        for _ in range(TRIES):
            table = self._open()
            try:
                if table is None:
                    self._create(columns)
                    continue
                fitted = self._checked(table, columns)
                if not fitted.added:
                    return table, fitted
                self._add_columns(table, fitted.added)
            except (CommitFailedException, TableAlreadyExistsError) as error:
                log.info("%s: another writer was faster: %s", self._where, self._said(error))
            except KafkaError:
                raise
            except Exception as error:
                change = "made" if table is None else "given the rows' new columns"
                raise LakeError(
                    f"the table {self._where} cannot be {change}: {self._said(error)}. Nothing was "
                    "written. The catalog or the place of the table's files refused it: look at "
                    "the options catalog.* (catalog.warehouse says where new tables go), at the "
                    "rights and the room there, and start the query again"
                ) from error
        raise LakeError(
            f"the table {self._where} was changed by others {TRIES} times while columns were "
            "added. Nothing was written. Start the query again"
        )

    def _checked(self, table: Table, columns: Sequence[Column]) -> Fit:
        metadata = table.metadata
        if metadata.format_version > HIGHEST_FORMAT:
            raise ConfigError(
                f"the table {self._where} has format version {metadata.format_version}: "
                f"parley-iceberg writes versions 1 and {HIGHEST_FORMAT}. Write into another table"
            )
        partition_by = partition_by_of(metadata, self._where)
        self._check_partitions(partition_by)
        check_columns(columns, ICEBERG)
        known = columns_of_table(fields_in(metadata.schema()))
        check_types(columns, known, self._where)
        if metadata.sort_order().fields:
            log.info("%s has a sort order: rows stay in theirs", self._where)
        merge = self._options.own[MERGE_SCHEMA]
        fitted = fit(columns, known, merge=merge, where=self._where)
        check_partitions(columns, partition_by, ICEBERG)
        return fitted

    def _create(self, columns: Sequence[Column]) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        partition_by = self._options.partition_by
        check_new_table(columns, partition_by, ICEBERG)
        schema = _schema(fields_of(as_new_table(columns)))
        ids = [schema.find_field(name).field_id for name in partition_by]
        fields = [
            PartitionField(source, FIRST_PARTITION_ID + place, IdentityTransform(), name)
            for place, (source, name) in enumerate(zip(ids, partition_by, strict=True))
        ]
        # Manifests of many small commits are joined: Iceberg's default, and not pyiceberg's.
        properties = {_MERGE_MANIFESTS: "true"}
        try:
            self._loaded().create_table(
                self._where,
                schema,
                partition_spec=PartitionSpec(*fields),
                properties=properties,
            )
        except NoSuchNamespaceError:
            namespace = self._where.rpartition(".")[0]
            raise ConfigError(
                f'the catalog has no namespace "{namespace}" for the table {self._where}: make it, '
                f'catalog.create_namespace("{namespace}") or CREATE NAMESPACE, or name another'
            ) from None

    def _add_columns(self, table: Table, added: Sequence[Column]) -> None:
        types = _schema(fields_of(added))
        with table.update_schema() as update:
            for field in types.fields:
                update.add_column((field.name,), field.field_type)

    def _open(self) -> Table | None:
        table = load_iceberg(self._where, self._loaded(), self._secrets())
        if table is None:
            return None
        properties = {**table.metadata.properties, _RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        return table

    def _loaded(self) -> Catalog:
        if self._catalog is None:
            name = self._options.own[CATALOG]
            self._catalog = load_catalog(self._where, name, self._options.storage)
        return self._catalog

    def _mark(self, table: Table, name: str) -> int | None:
        found = table.metadata.properties.get(NUMBER + name)
        return None if found is None else int(found)

    def _is_there(self, table: Table | None, batch: Batch) -> bool:
        app = self._options.app
        if table is not None and batch.what is not None and app is not None:
            made = table.metadata.properties.get(SNAPSHOT + app)
            if made is not None and was_taken_back(table.metadata, int(made)):
                lost = DataLossError(
                    f"the properties of the table {self._where} name batch "
                    f'{self._mark(table, app)} of "{app}", but snapshot {made}, which wrote it, is '
                    "none of the table's history any more: it was rolled back or "
                    f"replaced, and rows are gone. Batch {batch.what.batch} was not written. "
                    f"{GO_ON}"
                )
                self._go_on_without(lost)
        return super()._is_there(table, batch)

    def _make_fit(self, table: Table, batch: Batch) -> bool:
        self._check_still_partitioned(partition_by_of(table.metadata, self._where), batch)
        uuid, schema, spec = made_for_of(batch)
        if str(table.metadata.table_uuid) != uuid or table.metadata.default_spec_id != spec:
            raise LakeError(
                f"the table {self._where} was replaced, or partitioned again, since the batch was "
                "planned. Nothing was written; start the query again"
            )
        metadata = table.metadata
        if metadata.current_schema_id != schema:
            planned = next(one for one in metadata.schemas if one.schema_id == schema)
            self._check_still_required(required_in(metadata.schema(), planned), ())
        return False

    def _write(self, table: Table | None, batch: Batch) -> None:
        from pyiceberg.expressions import AlwaysTrue

        if table is None:
            raise LakeError(
                f"the table {self._where} was dropped since the batch was planned. Nothing was "
                "written; start the query again"
            )
        transaction = table.transaction()
        what = batch.what
        shown = (
            {} if what is None else {"parley.query": what.query, "parley.batch": str(what.batch)}
        )
        snapshot = transaction.update_snapshot(snapshot_properties=shown)
        if batch.overwrite:
            with snapshot.delete() as delete:
                delete.delete_by_predicate(AlwaysTrue())
        merges = table.metadata.properties.get(_MERGE_MANIFESTS, "false").lower() == "true"
        with snapshot.merge_append() if merges else snapshot.fast_append() as append:
            for file in data_files(table.metadata, batch):
                append.append_data_file(file)
        self._tried = append.snapshot_id
        properties = {f"{NUMBER}{name}": str(number) for name, number in self._marks(batch).items()}
        if what is not None and self._options.app is not None:
            properties[SNAPSHOT + self._options.app] = str(append.snapshot_id)
        if properties:
            transaction.set_properties(properties)
        transaction.commit_transaction()

    def _holds(self, table: Table, batch: Batch) -> bool:
        return self._tried is not None and table.snapshot_by_id(self._tried) is not None

    def _is_conflict(self, error: Exception) -> bool:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        return isinstance(error, (CommitFailedException, ValidationException))

    def _said(self, error: Exception) -> str:
        return said(error, self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        known = {} if self._catalog is None else self._catalog.properties
        return secrets_of({**known, **self._options.storage})


def open_in_store(path: str, storage: Mapping[str, str], name: str) -> Stream:
    """Begin a file in an object store, with pyiceberg."""
    try:
        from pyiceberg.io import load_file_io
    except ModuleNotFoundError:
        raise NotInstalledError("pyiceberg", "iceberg") from None
    location = f"{path}/{name}"
    return cast("Stream", load_file_io(dict(storage), location).new_output(location).create())


def _schema(fields: list[Json]) -> Schema:
    from pyiceberg.schema import Schema

    return cast("Schema", Schema.model_validate({"type": "struct", "fields": fields}))


def _parquet(properties: Mapping[str, str]) -> dict[str, str | bool]:
    """Return how the table wants its files written, in pyarrow's names."""
    codec = properties.get(_CODEC, "zstd").lower()
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "store_decimal_as_integer": True,
    }
