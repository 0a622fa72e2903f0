"""Keys of the kind `replay` as options of a replay. Pure."""

from __future__ import annotations

from parley.errors import ConfigError
from parley.pipelines.declared.surroundings import (
    CATALOG,
    STORAGE,
    Surroundings,
    Table,
    lake_settings,
    place_of,
)
from parley.pipelines.replay import ReplayedTable, ReplayOptions

_AS_IT_IS = ("order", "version", "where", "key", "timestamp")
_OF_TABLES = (*_AS_IT_IS, STORAGE, CATALOG, "to_value")
_AS_DECLARED = {"to_value": "value"}


def replay_options(name: str, options: Table, around: Surroundings) -> ReplayOptions:
    """Return the replay of a flow, of a topic or of a table."""
    place = place_of(options, "from")
    if place == "topic":
        for key in _OF_TABLES:
            if key in options:
                raise ConfigError(f"{_AS_DECLARED.get(key, key)} is for tables: from has a topic")
        return ReplayOptions(name=name, **options)  # type: ignore[arg-type]  # it checks each
    table = _table(place, options, around)
    return ReplayOptions(name=name, table=table, **options)  # type: ignore[arg-type]  # the same


def _table(lake: str, options: Table, around: Surroundings) -> ReplayedTable:
    catalog, settings = lake_settings(lake, options)
    found: Table = {lake: around.table(lake, str(options.pop(lake))), "catalog": catalog}
    for key in _AS_IT_IS:
        if key in options:
            found[key] = options.pop(key)
    value = options.pop("to_value", None)
    if value is not None:
        assert isinstance(value, dict)  # checked when it was read
        found |= _value(dict(value), around)
    return ReplayedTable(settings=settings, **found)  # type: ignore[arg-type]  # it checks each


def _value(given: Table, around: Surroundings) -> Table:
    if "format" not in given:
        raise ConfigError("value has no format: avro, json or protobuf")
    found: Table = {}
    if (registry := given.pop("registry", None)) is not None:
        found["registry"] = around.registry(registry).options
    if "register" in given:
        found["register_schemas"] = given.pop("register")
    if "columns" in given:
        found["columns"] = given.pop("columns")
    return found | {f"value_{key}": value for key, value in given.items()}
