"""What is made of a user's texts: typed values under the names of the option table.

Case does not matter in names. `kafka.*` options are only set apart here; `options.kafka.py` reads
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from parley.errors import ConfigError, nearest_hint
from parley.spark.options.row import INT64, Kind, OptionValue, SparkOption, Use, allowed
from parley.spark.options.table import OPTIONS, markdown_table
from parley.spark.values.moments import Ago, read_bytes, read_duration, read_moment

__all__ = [
    "OPTIONS", "GivenOptions", "Kind", "OptionValues", "SparkOption", "Use", "allowed",
    "markdown_table", "nearest_option", "read_options", "read_value",
]  # fmt: skip

V = TypeVar("V", bound=OptionValue)

_NUMBERS: Mapping[Kind, Callable[[str], int | Ago]] = {
    Kind.INTEGER: int,
    Kind.MOMENT: read_moment,
    Kind.DURATION: read_duration,
    Kind.BYTES: read_bytes,
}
_BY_NAME = {option.name.lower(): option for option in OPTIONS}

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
class OptionValues:
    """What a user gave, as typed values by the names of the table; `values[MIN_PARTITIONS]`."""

    given: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)

    def __getitem__(self, option: SparkOption[V]) -> V:
        """Return the value of an option, its default where the user gave none."""
        return cast("V", self.given.get(option.name, option.default))


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
    that cannot be read or is out of range.
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
            continue
        if option.no_effect:
            warnings.append(f"option {option.name} has no effect: {option.no_effect}")
        values[option.name] = read_value(option, text)
    return GivenOptions(OptionValues(values), kafka, tuple(warnings))


def nearest_option(name: str) -> str:
    """Return ` Did you mean "x"?` in the table's own spelling, or an empty text."""
    hint = nearest_hint(name.lower(), [*_BY_NAME, "kafka.bootstrap.servers"])
    for lower, option in _BY_NAME.items():
        hint = hint.replace(f'"{lower}"', f'"{option.name}"')
    return hint


def read_value(option: SparkOption[OptionValue], text: str) -> str | int | Ago:
    """Return an option's text as its type. Raises ConfigError with what is allowed."""
    text = str(text).strip()
    if option.kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _bad(option, text)
        return text.lower() == "true"
    if option.kind in _NUMBERS:
        return _number(option, text)
    if option.choices:
        if text.lower() not in option.choices:
            raise ConfigError(f"{_bad(option, text)}{nearest_hint(text.lower(), option.choices)}")
        return text.lower()
    if not text:
        raise ConfigError(f"{option.name} is empty. It is to say: {option.doc}.")
    return text


def _number(option: SparkOption[OptionValue], text: str) -> int | Ago:
    try:
        value = _NUMBERS[option.kind](text)
    except ValueError:
        raise _bad(option, text) from None
    low = option.low if option.low is not None else 0
    high = option.high if option.high is not None else INT64
    if not isinstance(value, Ago) and not low <= value <= high:
        raise _bad(option, text)
    return value


def _bad(option: SparkOption[OptionValue], text: str) -> ConfigError:
    return ConfigError(
        f'{option.name}="{text}" cannot be used: {allowed(option)} is expected ({option.doc})'
    )
