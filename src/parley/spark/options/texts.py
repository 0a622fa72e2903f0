"""What is made of a user's texts: typed values under the names of the option table.

Case does not matter in names. `kafka.*` options are only set apart here; `options.kafka.py` reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from parley.errors import ConfigError, nearest_hint
from parley.spark.options.row import Kind, OptionValue, SparkOption, Use, allowed
from parley.spark.options.single import OptionValues, read_value
from parley.spark.options.table import OPTIONS, markdown_table

__all__ = [
    "OPTIONS", "GivenOptions", "Kind", "OptionValues", "SparkOption", "Use", "allowed",
    "has_effect", "markdown_table", "nearest_option", "read_options", "read_value",
]  # fmt: skip

V = TypeVar("V", bound=OptionValue)

_BY_NAME = {option.name.lower(): option for option in OPTIONS}

_USES = {
    Use.BATCH_READ: "batch reads",
    Use.STREAM_READ: "stream reads",
    Use.BATCH_WRITE: "batch writes",
    Use.STREAM_WRITE: "stream writes",
}

# Spark hands its own keys to a data source as well: of tables (TableCatalog's reserved properties),
# of paths, of a stream's sink. They mean nothing here and are no mistake of the user's.
_SPARKS_OWN = frozenset(
    (
        "path", "paths", "checkpointlocation", "queryname", "outputmode", "owner", "provider",
        "location", "external", "is_managed_location", "comment", "collation", "mergeschema",
        "table_type", "transient_lastddltime", "format",
    )
)  # fmt: skip
_SPARKS_PREFIXES = ("option.", "spark.", "__")


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """A user's options, checked: the data source's `own` ones and the `kafka.*` texts."""

    own: OptionValues = field(default_factory=OptionValues)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold credentials
    warnings: tuple[str, ...] = ()

    def __getitem__(self, option: SparkOption[V]) -> V:
        """Return the value of an option of the table, its default where the user gave none."""
        return self.own[option]


def read_options(options: Mapping[str, str], use: Use) -> GivenOptions:
    """Return a user's options as typed values.

    Raises ConfigError for an option that does not exist (naming the nearest one) and for a value
    that cannot be read or is out of range. An option for another use is a warning: the same options
    often serve a read and a write.
    """
    values: dict[str, OptionValue] = {}
    kafka: dict[str, str] = {}
    warnings: list[str] = []
    for key, text in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = text
            continue
        option = _BY_NAME.get(name)
        if option is None:
            if name in _SPARKS_OWN or name.startswith(_SPARKS_PREFIXES):
                continue
            raise ConfigError(f'there is no option "{key}".{nearest_option(name)}')
        if not use & option.use:
            warnings.append(_of_another_use(option))
            continue
        if option.no_effect:
            warnings.append(f"option {option.name} has no effect: {option.no_effect}")
        values[option.name] = read_value(option, text)
    return GivenOptions(OptionValues(values), kafka, tuple(warnings))


def has_effect(name: str, use: Use) -> bool:
    """Return whether an option is for a use, as those that are in no table may be."""
    option = _BY_NAME.get(name.lower())
    return option is None or bool(use & option.use)


def _of_another_use(option: SparkOption[OptionValue]) -> str:
    uses = " and ".join(text for use, text in _USES.items() if use & option.use)
    return f"option {option.name} has no effect here: it is for {uses}"


def nearest_option(name: str) -> str:
    """Return ` Did you mean "x"?` in the table's own spelling, or an empty text."""
    hint = nearest_hint(name.lower(), [*_BY_NAME, "kafka.bootstrap.servers"])
    for lower, option in _BY_NAME.items():
        hint = hint.replace(f'"{lower}"', f'"{option.name}"')
    return hint
