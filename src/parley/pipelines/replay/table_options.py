"""Which table a replay reads, and what its rows are as records: checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parley.client import FORMATS, WITHOUT_REGISTRY, RegistryOptions, Schema
from parley.errors import ConfigError
from parley.pipelines.checks import check_choice, check_number
from parley.types import Names, texts


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
    otherwise; `register_schemas` registers one that the registry does not have.
    """

    delta: str | None = None
    iceberg: str | None = None
    catalog: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: int | None = None
    where: str | None = None
    order: Names = ()
    key: str | None = None
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
        for name in ("order", "columns"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        if self.version is not None:
            check_number("version", self.version, 0)
        self._check_value()

    @property
    def name(self) -> str:
        """The table, as people call it."""
        return self.delta or self.iceberg or ""

    def _check_value(self) -> None:
        if self.value_format is None:
            for name in (
                "columns", "value_schema", "value_subject", "value_framing", "value_message",
                "register_schemas", "registry",
            ):  # fmt: skip
                if getattr(self, name):
                    raise ConfigError(
                        f"{name} goes with value_format: without it the column value has bytes"
                    )
            return
        check_choice("value_format", self.value_format, *FORMATS)
        if self.value_framing is None:
            framing = "none" if self.registry is None else "confluent-prefix"
            object.__setattr__(self, "value_framing", framing)
        if self.registry is None and self.value_framing not in WITHOUT_REGISTRY:
            raise ConfigError(
                f"value_framing={self.value_framing!r} names a schema of a registry: give registry"
            )
        is_given = self.value_schema is not None or self.register_schemas
        if self.registry is not None and not is_given:
            object.__setattr__(self, "value_schema", "latest")
