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
from parley.pipelines.replay.table_options import FIELDS_OF

_AS_IT_IS = ("order", "version", "where", "timestamp")
_OF_TABLES = (*_AS_IT_IS, STORAGE, CATALOG, "to_key", "to_value")
_AS_DECLARED = {"to_key": "key", "to_value": "value"}
_SHARED = {"registry": "registry", "register": "register_schemas"}
"""Keys of both parts, for which a replay has one option."""


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
    encoded = []
    for part in FIELDS_OF:
        given = options.pop(f"to_{part}", None)
        if isinstance(given, dict):
            encoded.append(_encoded(part, dict(given), around))
        elif given is not None:
            found[part] = given
    for key, name in _SHARED.items():
        if len(encoded) > 1 and encoded[0].get(name) != encoded[1].get(name):
            raise ConfigError(f"key and value differ in {key}: give both the same")
    for one in encoded:
        found |= one
    return ReplayedTable(settings=settings, **found)  # type: ignore[arg-type]  # it checks each


def _encoded(part: str, given: Table, around: Surroundings) -> Table:
    if "format" not in given:
        raise ConfigError(f"{part} has no format: avro, json or protobuf")
    found: Table = {}
    if (registry := given.pop("registry", None)) is not None:
        found["registry"] = around.registry(registry).options
    if given.pop("register", False):
        found["register_schemas"] = True
    if "schema" in given:
        given["schema"] = around.schema(str(given["schema"]))
    if "column" in given:
        found["key"] = given.pop("column")
    if "columns" in given:
        found[FIELDS_OF[part]] = given.pop("columns")
    return found | {f"{part}_{key}": value for key, value in given.items()}
