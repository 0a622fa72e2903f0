"""Which table a replay reads, and what its rows are as records: checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client import FORMATS, WITHOUT_REGISTRY, RegistryOptions, Schema
from parley.errors import ConfigError
from parley.pipelines.checks import check_choice, check_number
from parley.types import Names, texts


class Encoding(NamedTuple):
    """How the keys or the values of a table are encoded: options of a `ColumnEncoder`; with format
    None they are not.
    """

    format: str | None
    schema: Schema | str | None
    subject: str | None
    framing: str | None
    message: str | None


FIELDS_OF = {"key": "key_columns", "value": "columns"}
"""The option that names the columns which become the fields of each part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedTable:
    """A Delta or Iceberg table, at one version. Raises ConfigError for what cannot be used.

    `delta` is a table's folder or address, with delta-rs's storage options in `settings`; or
    `iceberg` its name in `catalog`, with pyiceberg's properties of the catalog in `settings`.
    `version` is Delta's version or Iceberg's snapshot: the newest when the replay begins unless
    given. `where` chooses rows, in the SQL of the table's library.

    `order` names columns that rows are sorted by: integers, times, texts, bytes or decimals, nulls
    last. It is `timestamp` unless given; rows that are equal there are ordered by the columns
    `topic`, `partition` and `offset` if the table has them, else by their keys and values.

    `key` and `timestamp` name the columns that are a record's: bytes, text, or an integer, date or
    boolean, which becomes text; and a time, or milliseconds since 1970. They are the columns "key"
    and "timestamp" of a table that has them. A column "headers" of the type that parley reads is
    kept.

    The value is the column "value"; or, encoded with `value_format` (avro, json or protobuf), that
    or a struct of `columns`: where the table has no "value", those that the schema names, or all if
    it is derived. `value_schema`, `value_subject`, `value_framing` and `value_message` are those of
    a `ColumnEncoder`: the latest schema of the subject `<to>-value` with a `registry`, derived
    otherwise; `register_schemas` registers one that the registry does not have. In the same way
    `key_format` encodes the key, with the subject `<to>-key`: the column `key`, of any type that
    the schema has room for, or a struct of `key_columns`.
    """

    delta: str | None = None
    iceberg: str | None = None
    catalog: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: int | None = None
    where: str | None = None
    order: Names = ()
    key: str | None = None
    key_columns: Names = ()
    key_format: str | None = None
    key_schema: Schema | str | None = None
    key_subject: str | None = None
    key_framing: str | None = None
    key_message: str | None = None
    timestamp: str | None = None
    columns: Names = ()
    value_format: str | None = None
    value_schema: Schema | str | None = None
    value_subject: str | None = None
    value_framing: str | None = None
    value_message: str | None = None
    register_schemas: bool = False
    registry: RegistryOptions | None = None

    def __post_init__(self) -> None:
        if (self.delta is None) == (self.iceberg is None):
            raise ConfigError("give one of delta and iceberg: which table is replayed?")
        for name in ("delta", "iceberg", "catalog", "where", "key", "timestamp"):
            given = getattr(self, name)
            if given is not None and not (isinstance(given, str) and given.strip()):
                raise ConfigError(f"{name}={given!r} cannot be used: a text that is not empty is")
        if self.catalog is not None and self.iceberg is None:
            raise ConfigError("catalog goes with iceberg: a Delta table is in none")
        for name in ("order", "columns", "key_columns"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        if self.key is not None and self.key_columns:
            raise ConfigError("give one of key and key_columns: what is the key?")
        if self.version is not None:
            check_number("version", self.version, 0)
        for part in FIELDS_OF:
            self._check_encoding(part)
        if self.key_format is None and self.value_format is None:
            for name in ("register_schemas", "registry"):
                if getattr(self, name):
                    raise ConfigError(f"{name} goes with value_format or key_format")

    @property
    def name(self) -> str:
        """The table, as people call it."""
        return self.delta or self.iceberg or ""

    def encoding(self, part: str) -> Encoding:
        """Return how keys or values are encoded."""
        return Encoding(*(getattr(self, f"{part}_{name}") for name in Encoding._fields))

    def _check_encoding(self, part: str) -> None:
        how = self.encoding(part)
        if how.format is None:
            others = [f"{part}_{name}" for name in Encoding._fields]
            for name in (FIELDS_OF[part], *others):
                if getattr(self, name):
                    raise ConfigError(
                        f"{name} goes with {part}_format: without it the column {part} has bytes"
                    )
            return
        check_choice(f"{part}_format", how.format, *FORMATS)
        if how.framing is None:
            framing = "none" if self.registry is None else "confluent-prefix"
            object.__setattr__(self, f"{part}_framing", framing)
        elif self.registry is None and how.framing not in WITHOUT_REGISTRY:
            raise ConfigError(
                f"{part}_framing={how.framing!r} names a schema of a registry: give registry"
            )
        is_given = how.schema is not None or self.register_schemas
        if self.registry is not None and not is_given:
            object.__setattr__(self, f"{part}_schema", "latest")
