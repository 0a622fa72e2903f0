"""The options of `format("parley-iceberg")`: a table of their own, read like those of Delta.

`catalog.*` goes to pyiceberg as it is, beside what .pyiceberg.yaml and the environment say of the
catalog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from parley.errors import ConfigError
from parley.spark.lakes.options import (
    LOST_BATCHES,
    MERGE_SCHEMA,
    PARTITION_BY,
    TARGET_FILE_SIZE,
    TXN_APP_ID,
    TXN_VERSION,
    Kind,
    LakeOptions,
    app_of,
    read_rows,
    table_of,
)
from parley.spark.options.row import OptionValue, SparkOption, Use, text

TABLE = text(
    "table",
    None,
    "the table's name in the catalog with its namespace, such as lake.flights; `save(name)` and "
    "`start(name)` give it too",
    use=Use.WRITE,
    sparks=".toTable(name)",
)
PATH = text(
    "path",
    None,
    "the same as `table`: Spark puts there what `save` and `start` are given",
    use=Use.WRITE,
    sparks="the table's name, or its folder",
)
CATALOG = text(
    "catalog",
    None,
    "name of a catalog that `.pyiceberg.yaml` or the environment describes (pyiceberg's default "
    "one without it)",
    use=Use.WRITE,
    sparks="in front of the table's name",
)
OPTIONS: tuple[SparkOption[OptionValue], ...] = (
    TABLE,
    PATH,
    CATALOG,
    PARTITION_BY._replace(sparks=".partitionedBy(...) of writeTo"),
    MERGE_SCHEMA._replace(sparks="merge-schema"),
    TARGET_FILE_SIZE._replace(
        doc="about the size at which a task begins another file", sparks="target-file-size-bytes"
    ),
    TXN_APP_ID._replace(sparks="none: a stream remembers by its snapshots"),
    TXN_VERSION._replace(sparks="none"),
    LOST_BATCHES,
)
"""Every row, in the order of the documentation: the options but `catalog.*`."""

PREFIX = "catalog."
_NAME = re.compile(r"[^.\s]+(\.[^.\s]+)+")


def read_iceberg_options(options: Mapping[str, str], use: Use) -> LakeOptions:
    """Return a write's options.

    Raises ConfigError for an option that does not exist (naming the nearest one), for a value that
    cannot be read, and for options that do not go together.
    """
    own, catalog = read_rows(options, use, OPTIONS, PREFIX)
    table, path = own[TABLE], own[PATH]
    if table is not None and path is not None and table != path:
        raise ConfigError(f'two tables are named, table="{table}" and "{path}": leave one out')
    name = table or path
    if name is None:
        raise ConfigError(
            'no table: name it, save("lake.flights"), or with the option "table". Spark\'s catalog '
            "keeps none for a Python sink: INSERT INTO t WITH (table = 'lake.flights', ...) ..."
        )
    if _NAME.fullmatch(name) is None or "/" in name:
        raise ConfigError(
            f'"{name}" is no name of a table in a catalog: give its namespace and its name, such '
            "as lake.flights. Where its files are is the catalog's matter"
        )
    return LakeOptions(
        kind=Kind.ICEBERG,
        path=name,
        own=own,
        partition_by=own[PARTITION_BY],
        app=app_of(own, options, use),
        storage=catalog,
    )


def markdown_table() -> str:
    """Return the table of options as the documentation shows it."""
    return table_of(
        OPTIONS,
        "Iceberg's own sink",
        "| `catalog.*` | both | text |  | handed to pyiceberg as it is: `catalog.type`, "
        "`catalog.uri`, `catalog.warehouse`, `catalog.credential`, those of the store such as "
        "`catalog.s3.endpoint` | spark.sql.catalog.* |",
    )
