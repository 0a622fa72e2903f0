"""A user's options for a lake, as one table of typed rows and as the sink holds them: Delta's, and
what those of all lakes have in common.

Names are those of Delta's own sink where it has the option. `storage.*` goes to delta-rs as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import unquote

from parley.errors import ConfigError, nearest_hint
from parley.spark.options.row import (
    INT32,
    INT64,
    OptionValue,
    SparkOption,
    Use,
    allowed,
    boolean,
    byte_count,
    default_text,
    integer,
    names,
    text,
)
from parley.spark.options.single import OptionValues, read_value
from parley.spark.write.prefix import checkpoint_prefix

PATH = text(
    "path",
    None,
    "the table's folder, or its address in an object store, such as s3://bucket/table; "
    "`save(path)` and `start(path)` set it",
    use=Use.WRITE,
)
PARTITION_BY = names(
    "partitionBy",
    "columns that a new table is partitioned by: strings, whole numbers, dates or booleans",
    use=Use.WRITE,
    sparks=".partitionBy(...)",
)
MERGE_SCHEMA = boolean(
    "mergeSchema",
    False,
    "whether columns that the table lacks are added to it (else: an error that names them)",
    use=Use.WRITE,
)
TARGET_FILE_SIZE = byte_count(
    "targetFileSize",
    128 * 2**20,
    "about the size at which a task begins another file, and that of files that compaction makes",
    use=Use.WRITE,
    low=1024,
    high=INT64,
    sparks="a property of the table",
)
COMPACT_EVERY = integer(
    "compactEvery",
    None,
    "after how many micro-batches small files are joined into larger ones",
    use=Use.STREAM_WRITE,
    low=1,
    high=INT32,
    sparks="autoCompact",
)
TXN_APP_ID = text(
    "txnAppId",
    None,
    "name under which the table remembers the last batch; a stream's is made of the checkpoint "
    "location without it",
    use=Use.WRITE,
    sparks="batch only; a stream's is the query's id",
)
TXN_VERSION = integer(
    "txnVersion",
    None,
    "number of a batch write: not written again where the table has this or a higher one of "
    "`txnAppId`",
    use=Use.BATCH_WRITE,
    low=0,
    high=INT64,
)
LOST_BATCHES = text(
    "lostBatches",
    "fail",
    "what to do where the table lacks batches that the checkpoint has as written: fail, or log "
    "them and continue",
    use=Use.STREAM_WRITE,
    choices=("fail", "continue"),
    sparks="none: it continues in silence",
)

OPTIONS: tuple[SparkOption[OptionValue], ...] = tuple(
    row for row in globals().values() if isinstance(row, SparkOption)
)
"""Every row above, in the order of the documentation: the options but `storage.*`."""

STORAGE = "storage."
# Spark hands its own keys to a data source as well.
_SPARKS_OWN = frozenset(
    (
        "checkpointlocation", "queryname", "outputmode", "owner", "provider", "location",
        "external", "is_managed_location", "comment", "collation", "table_type", "format", "paths",
    )
)  # fmt: skip
_SPARKS_PREFIXES = ("option.", "spark.", "__")
_DELETE_FIRST = (
    "a write replaces all rows or none. Delete what is to be replaced first (deltalake, pyiceberg "
    'or an engine), then write with mode("append")'
)
_OF_OTHER_SINKS = {
    "overwriteschema": "columns of a table are not replaced. Write into a new table, or add "
    "columns with mergeSchema=true",
    "replacewhere": _DELETE_FIRST,
    "partitionoverwritemode": _DELETE_FIRST,
    "overwrite-mode": _DELETE_FIRST,
    "maxrecordsperfile": "files end at a size, targetFileSize",
}
"""Options of the lakes' own sinks that have no like here, and what to do instead."""
_UNSAFE = "allow_unsafe_rename"
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")
_OF_THIS_MACHINE = re.compile(r"(?:/|//localhost/|///)(?!/)(.*)", re.DOTALL)
_ENCODED = re.compile(r"%[0-9a-fA-F]{2}")


class Kind(Enum):
    """Which lake a table is in."""

    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeOptions:
    """Everything that a lake's sink needs to know."""

    kind: Kind = Kind.DELTA
    path: str
    """The table's folder, absolute since tasks may run in another one; or its name in a catalog."""
    own: OptionValues
    """The sink's other options: `own[MERGE_SCHEMA]`."""
    partition_by: tuple[str, ...] = ()
    app: str | None = None
    """The application id; None for a batch that gives no number."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold credentials
    """What the lake's library is handed as it is."""


def read_lake_options(options: Mapping[str, str], use: Use) -> LakeOptions:
    """Return a write's options.

    Raises ConfigError for an option that does not exist (naming the nearest one), for a value that
    cannot be read, and for options that do not go together.
    """
    own, storage = read_rows(options, use, OPTIONS, STORAGE)
    path = own[PATH]
    if path is None:
        raise ConfigError(
            'no table: give its folder, save("/lake/flights"), or the option "path". Spark\'s '
            "catalog keeps none for a Python sink: INSERT INTO t WITH (path = '/lake/flights') ..."
        )
    _check_storage(storage)
    return LakeOptions(
        path=delta_address(path),
        own=own,
        partition_by=own[PARTITION_BY],
        app=app_of(own, options, use),
        storage=storage,
    )


_FOR = {Use.BATCH_WRITE: "batch writes", Use.STREAM_WRITE: "streams"}


def read_rows(
    options: Mapping[str, str], use: Use, rows: Sequence[SparkOption[OptionValue]], prefix: str
) -> tuple[OptionValues, dict[str, str]]:
    """Return the values of options that stand in a table, and those behind a prefix, without it.

    Raises ConfigError for an option that does not exist (naming the nearest one), is for another
    use, or whose value cannot be read.
    """
    by_name = {option.name.lower(): option for option in rows}
    values: dict[str, OptionValue] = {}
    handed_on: dict[str, str] = {}
    for key, given in options.items():
        name = key.lower()
        if name.startswith(prefix):
            handed_on[name.removeprefix(prefix)] = given
            continue
        option = by_name.get(name)
        if option is None:
            if name not in _SPARKS_OWN and not name.startswith(_SPARKS_PREFIXES):
                raise ConfigError(f'there is no option "{key}".{_instead(name, rows)}')
        elif use & option.use:
            values[option.name] = read_value(option, given)
        else:
            raise ConfigError(f"option {option.name} is for {_FOR[option.use]} only")
    return OptionValues(values), handed_on


def app_of(own: OptionValues, options: Mapping[str, str], use: Use) -> str | None:
    """Return the name under which the table remembers batches; None for a batch write without a
    number. Raises ConfigError where a stream has none, or a batch write half of it.
    """
    app, version = own[TXN_APP_ID], own[TXN_VERSION]
    if use & Use.BATCH_WRITE:
        if (app is None) != (version is None):
            raise ConfigError(
                "txnAppId and txnVersion go together: the one names who writes, the other numbers "
                "its batches"
            )
        return app
    if app is not None:
        return app
    location = next(
        (text for name, text in options.items() if name.lower() == "checkpointlocation"), ""
    ).strip()
    if not location:
        raise ConfigError(
            "the table needs a name for the query that stays over restarts: set the option "
            "checkpointLocation (on the writer itself; spark.sql.streaming.checkpointLocation is "
            "not seen here), or txnAppId"
        )
    return checkpoint_prefix(location)


def _check_storage(storage: Mapping[str, str]) -> None:
    for name, given in storage.items():
        if name.endswith(_UNSAFE) and given.strip().lower() not in ("false", "0", ""):
            raise ConfigError(
                f"option storage.{name} cannot be used: two writers could replace each other's "
                "commits. Without it delta-rs asks the store for conditional writes; where that "
                "has none, use storage.aws_s3_locking_provider"
            )


def local_path(address: str) -> str | None:
    """Return the path that an address names on this machine; None for one in an object store.

    What follows `file:` is encoded, as `Path.as_uri()` does it and delta-rs expects it. Raises
    ConfigError where that is no path of this machine.

    >>> local_path("file:///lake/my%20flights"), local_path("my%20flights")
    ('/lake/my flights', 'my%20flights')
    """
    found = _SCHEME.match(address)
    if found is None:
        return address
    if found[1].lower() != "file":
        return None
    file = _OF_THIS_MACHINE.fullmatch(address, len(found[0]))
    if file is None:
        raise ConfigError(f'"{address}" names no folder of this machine: give file:///PATH')
    return "/" + unquote(file[1])


def delta_address(address: str) -> str:
    """Return a table's address as delta-rs is handed it: a folder of this machine as its path.

    Raises ConfigError for a folder that delta-rs does not find again.
    """
    path = local_path(address)
    if path is None:
        return address
    encoded = _ENCODED.search(path)
    if encoded is not None:
        raise ConfigError(
            f'the folder {path} has "{encoded[0]}" in its name, which delta-rs takes for an '
            f'encoded "{unquote(encoded[0])}": give the folder another name'
        )
    return os.path.abspath(path)


def local_folder(location: str) -> str | None:
    """Return the folder of a location on this machine, where nothing is encoded, as pyiceberg has
    it; None for an object store.

    >>> local_folder("file:///lake/my%20flights"), local_folder("s3://lake/flights")
    ('/lake/my%20flights', None)
    """
    found = _SCHEME.match(location)
    if found is None:
        return os.path.abspath(location)
    if found[1].lower() != "file":
        return None
    return "/" + location[len(found[0]) :].lstrip("/")


def _instead(name: str, rows: Sequence[SparkOption[OptionValue]]) -> str:
    if name in _OF_OTHER_SINKS:
        return f" It belongs to another sink; here {_OF_OTHER_SINKS[name]}."
    hint = nearest_hint(name, [option.name.lower() for option in rows])
    for option in rows:
        hint = hint.replace(f'"{option.name.lower()}"', f'"{option.name}"')
    return hint


def markdown_table() -> str:
    """Return the table of options as the documentation shows it."""
    return table_of(
        OPTIONS,
        "Delta's own sink",
        "| `storage.*` | both | text |  | handed to delta-rs as it is: credentials and addresses "
        "of an object store, such as `storage.aws_region` | Hadoop's settings |",
    )


def table_of(rows: Sequence[SparkOption[OptionValue]], other: str, prefixed: str) -> str:
    """Return rows as a table of Markdown, beside how another sink has the option, and a line for
    options behind a prefix.
    """
    lines = [
        f"| option | for | values | default | meaning | {other} |",
        "|---|---|---|---|---|---|",
    ]
    for option in rows:
        default = default_text(option)
        use = _FOR.get(option.use, "both")
        cells = (f"`{option.name}`", use, allowed(option), default, option.doc, option.sparks)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, prefixed])
