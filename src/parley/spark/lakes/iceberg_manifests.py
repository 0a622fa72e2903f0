"""What commits, manifests and metadata of an Iceberg table are made of and read for, beside the
commit itself.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from parley.errors import ConfigError
from parley.spark.lakes.iceberg_columns import Fields, columns_of_table, partition_value
from parley.spark.lakes.lake import Batch
from parley.spark.lakes.messages import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

log = logging.getLogger("parley.spark")


def footer_bytes(footer: pq.FileMetaData, schema: pa.Schema, unordered: Collection[str]) -> bytes:
    """Return a file's footer, of which the driver makes what manifests say of the columns."""
    out = io.BytesIO()
    footer.write_metadata_file(out)
    return out.getvalue()


def fields_in(schema: Schema) -> Fields:
    """Return the fields of a schema as JSON."""
    return cast("Fields", json.loads(schema.model_dump_json())["fields"])


def required_in(schema: Schema, before: Schema) -> list[str]:
    """Return the columns, and fields in them, in which a schema wants values and an earlier one
    did not.
    """
    from pyiceberg.schema import index_by_id

    found = {number for number, field in index_by_id(before).items() if field.required}
    now = index_by_id(schema).items()
    return [
        str(schema.find_column_name(number))
        for number, field in now
        if field.required and number not in found
    ]


def partition_by_of(metadata: TableMetadata, where: str) -> tuple[str, ...]:
    """Return the columns that a table is partitioned by. Raises ConfigError for partitions made
    by a transform, which tasks do not compute.
    """
    found = []
    for field in metadata.spec().fields:
        name = metadata.schema().find_column_name(field.source_id)
        transform = str(field.transform)
        if transform == "void":  # what is left of a partition column that was dropped
            continue
        if transform != "identity" or name is None or "." in name:
            raise ConfigError(
                f"the table {where} is partitioned by {transform} of {name}: parley-iceberg writes "
                "into partitions by a whole column only (identity). Nothing was written. Write "
                "into another table, or change the partitions (ALTER TABLE ... REPLACE PARTITION "
                "FIELD)"
            )
        found.append(name)
    return tuple(found)


def made_for_of(batch: Batch) -> tuple[str, int, int]:
    """Return which table files were made for, which schema of it and which partitions."""
    uuid, schema, spec = batch.written.made_for.split("/")
    return uuid, int(schema), int(spec)


def data_files(metadata: TableMetadata, batch: Batch) -> list[DataFile]:
    """Return the files as manifests name them."""
    _, schema_id, spec_id = made_for_of(batch)
    schema = next(one for one in metadata.schemas if one.schema_id == schema_id)
    spec = metadata.specs()[spec_id]
    folder = batch.written.folder
    return [_data_file(file, folder, schema, spec, metadata) for file in batch.written.files]


def _data_file(
    file: WrittenFile, folder: str, schema: Schema, spec: PartitionSpec, metadata: TableMetadata
) -> DataFile:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    texts = dict(file.partition_values)
    kinds = {column.name: column.kind for column in columns_of_table(fields_in(schema))}
    values = []
    for field in spec.fields:
        name = schema.find_column_name(field.source_id)
        kept = name is not None and name in texts
        values.append(partition_value(texts[name], kinds[name]) if kept else None)
    return cast(
        "DataFile",
        DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{folder}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **_metrics(file, schema, metadata.properties),
        ),
    )


def _metrics(file: WrittenFile, schema: Schema, properties: Mapping[str, str]) -> dict[str, object]:
    """Return what manifests say of a file's columns, by their ids."""
    import pyarrow.parquet as pq
    from pyiceberg.io import pyarrow as of_pyiceberg

    assert isinstance(file.statistics, bytes)
    footer = pq.read_metadata(io.BytesIO(file.statistics))
    ids = of_pyiceberg.parquet_path_to_id_mapping(schema)
    try:
        found = of_pyiceberg.data_file_statistics_from_parquet_metadata(
            footer,
            stats_columns=of_pyiceberg.compute_statistics_plan(schema, dict(properties)),
            parquet_column_mapping=ids,
        )
        for path in _unbounded(footer):
            found.column_aggregates.pop(ids[path], None)
        return cast("dict[str, object]", found.to_serialized_dict())
    except (ValueError, OverflowError) as error:  # a bound that Python has no value for
        log.info("%s has no bounds: %s", file.path, error)
        return {"record_count": file.rows}


def _unbounded(footer: pq.FileMetaData) -> Iterator[str]:
    """Yield the columns that lack bounds in a row group, such as of texts that are too long for a
    footer. pyiceberg takes the bounds of the other row groups for those of the file (0.12).
    """
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            column = footer.row_group(group).column(place)
            found = column.statistics
            if found is None or (found.num_values and not found.has_min_max):
                yield column.path_in_schema


def was_taken_back(metadata: TableMetadata, made: int) -> bool:
    """Return whether a snapshot is there, and is none of those that the table's rows are of.

    Where snapshots between have expired that is unknown, and it counts as one of them.
    """
    known = {one.snapshot_id: one for one in metadata.snapshots}
    if made not in known:
        return False
    number = known[made].sequence_number or 0  # format version 1 has none
    now = metadata.current_snapshot()
    while now is not None and now.snapshot_id != made:
        if 0 < (now.sequence_number or 0) <= number:
            return True
        if now.parent_snapshot_id is not None and now.parent_snapshot_id not in known:
            return False
        now = known.get(now.parent_snapshot_id)
    return now is None
