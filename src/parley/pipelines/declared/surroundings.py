"""What a file has beside its flows, and how several kinds of flows take it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from parley.client import ClientOptions, dotted_name, option_names
from parley.errors import ConfigError, nearest_hint
from parley.pipelines.declared.keys import TABLES
from parley.registry import RegistryOptions
from parley.spark.lakes.options import local_path
from parley.spark.options.schema_table import REGISTRY_ROWS
from parley.types import Secret

Table = dict[str, object]
Texts = Mapping[str, str]
DELTA, ICEBERG = TABLES
STORAGE, CATALOG = "storage", "catalog"
"""The tables with settings for the libraries of lakes: Delta's and Iceberg's."""
SCHEMA_FILE = "file:"
_OF_CLIENT = {field.name: dotted_name(field) for field in fields(ClientOptions)}


class Registry(NamedTuple):
    """A schema registry as a file declares it."""

    options: RegistryOptions
    texts: Texts
    """The same as options of Spark's data source."""


class Surroundings(NamedTuple):
    """What a file has beside its flows."""

    name: str
    """Of the pipeline."""
    folder: Path
    """The file's."""
    state: Path
    clusters: Mapping[str, Texts]
    """As options of Spark's data source."""
    registries: Mapping[str, Registry]

    def registry(self, name: object) -> Registry:
        """Return a registry. Raises ConfigError for one that is not declared."""
        if name not in self.registries:
            hint = nearest_hint(str(name), list(self.registries))
            raise ConfigError(f"registry={name!r} is not declared: [registry.NAME].{hint}")
        return self.registries[str(name)]

    def table(self, lake: str, name: str) -> str:
        """Return a table's name, or its folder as seen from the file's. Raises ConfigError for an
        address that is no folder of this machine.
        """
        path = local_path(name) if lake == DELTA else None
        return name if path is None else str(self.folder / path)

    def schema(self, given: str) -> str:
        """Return which schema a text means; a file's path as seen from the folder of this one."""
        path = given.removeprefix(SCHEMA_FILE)
        return f"{SCHEMA_FILE}{self.folder / path}" if path != given and path else given


def cluster_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return a cluster's settings as options of the data source.

    >>> cluster_texts({"bootstrap_servers": "a:9092"})
    {'kafka.bootstrap.servers': 'a:9092'}
    """
    names = option_names(ClientOptions)
    return {f"kafka.{_OF_CLIENT[names[name]]}": as_text(value) for name, value in settings.items()}


def declared_registry(settings: Mapping[str, object]) -> Registry:
    """Return a schema registry.

    Raises ConfigError as `RegistryOptions`, and for what cannot be sent to Spark's workers.
    """
    options = RegistryOptions.from_config(settings)
    found = {"schemaRegistryUrl": options.url}
    for field in fields(RegistryOptions):
        value = getattr(options, field.name)
        if field.name == "url" or value == field.default:
            continue
        if field.name not in REGISTRY_ROWS:
            raise ConfigError(f"{field.name} cannot be given in a file")
        found[REGISTRY_ROWS[field.name].name] = as_text(value)
    return Registry(options, found)


def place_of(options: Table, side: str) -> str:
    """Return which of topic, delta and iceberg a side of a flow has. Raises ConfigError where it is
    not one.
    """
    places = [place for place in ("topic", *TABLES) if place in options]
    if len(places) != 1:
        raise ConfigError(
            f"{side} has {' and '.join(places) or 'no place'}: give one of topic, delta and iceberg"
        )
    return places[0]


def lake_settings(lake: str, options: Table) -> tuple[str | None, dict[str, str]]:
    """Take what is said of a table's lake out of options: return the catalog's name, and the
    settings that go to the lake's library.
    """
    prefix = STORAGE if lake == DELTA else CATALOG
    name: str | None = None
    settings: dict[str, str] = {}
    for key in (STORAGE, CATALOG):
        given = options.pop(key, None)
        if key == CATALOG and isinstance(given, str):
            name = given
        elif isinstance(given, dict) and key == prefix:
            settings = {str(one): as_text(value) for one, value in given.items()}
        elif given is not None:
            raise ConfigError(f"{key}={given!r} is not for {lake}: give {prefix} = {{ ... }}")
    return name, settings


def as_text(value: object) -> str:
    """Return a value as an option of the data source has it."""
    if isinstance(value, Secret):
        return value.reveal()
    return str(value).lower() if isinstance(value, bool) else str(value)
