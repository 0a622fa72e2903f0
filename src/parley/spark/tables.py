"""`CREATE TABLE … USING parley OPTIONS (…)`: how the options come back when the table is used.

Spark (4.2, 4.3) hands the options of a table to a Python source when the table is made, and not
when it is read or rows are inserted. They are therefore kept in the metadata of the table's first
column, which Spark stores and gives back. Secrets are not: a table is no place for a password. Say
them at the read, `SELECT … FROM t WITH ('kafka.sasl.jaas.config'='…')` or
`spark.read.option(…).table("t")`, and so in `INSERT INTO t WITH (…)`; what is said there comes
first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from parley.spark.options.texts import Use, has_effect
from parley.types.secret_names import is_secret

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEY = "parley.options"
_SPARKS = (
    "provider",
    "owner",
    "location",
    "comment",
    "external",
    "is_managed_location",
    "table_type",
)


def is_table(options: Mapping[str, str]) -> bool:
    """Return whether Spark is making a table: only then does it add its own property "provider"."""
    return "provider" in options


def schema_of_table(columns: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns, of which the first one carries the options that are no secrets."""
    from pyspark.sql.types import StructField, StructType

    kept = {
        name.lower(): str(text)
        for name, text in options.items()
        if name.lower() not in _SPARKS
        and not name.lower().startswith("option.")
        and not is_secret(name)
        and not _holds_login(name, str(text))
    }
    first, *rest = columns.fields
    metadata = {**first.metadata, KEY: json.dumps(kept)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *rest])


def _holds_login(name: str, text: str) -> bool:
    return name.lower().endswith("url") and "@" in text


def options_of_read(
    options: Mapping[str, str], schema: StructType, use: Use = Use.READ
) -> dict[str, str]:
    """Return the options of a read, with those of the table that is read where it is one. Of the
    table's, which serve reads and writes, those for the use.
    """
    given = dict(options.items())
    for column in schema.fields:
        if KEY in (column.metadata or {}):
            kept = json.loads(column.metadata[KEY])
            return {
                **{name: text for name, text in kept.items() if has_effect(name, use)},
                **{name.lower(): text for name, text in given.items()},
            }
    return given


def options_of_write(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a batch write, with those of the table that rows are inserted into.

    A write that says itself where the cluster is goes into no table: its rows may come out of one,
    whose options are then another cluster's.
    """
    if any(name.lower() == "kafka.bootstrap.servers" for name in options):
        return dict(options.items())
    return options_of_read(options, schema, Use.BATCH_WRITE)
