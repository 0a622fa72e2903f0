"""What is made of the text of a single option, whichever table it stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from parley.errors import ConfigError, nearest_hint
from parley.spark.options.row import INT64, Kind, OptionValue, SparkOption, allowed
from parley.spark.values.moments import Ago, read_bytes, read_duration, read_moment
from parley.types import Secret

V = TypeVar("V", bound=OptionValue)

_NUMBERS: Mapping[Kind, Callable[[str], int | Ago]] = {
    Kind.INTEGER: int,
    Kind.MOMENT: read_moment,
    Kind.DURATION: read_duration,
    Kind.BYTES: read_bytes,
}


@dataclass(frozen=True, slots=True)
class OptionValues:
    """What a user gave, as typed values by the names of the table; `values[MIN_PARTITIONS]`."""

    given: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)

    def __getitem__(self, option: SparkOption[V]) -> V:
        """Return the value of an option, its default where the user gave none."""
        return cast("V", self.given.get(option.name, option.default))


def read_value(
    option: SparkOption[OptionValue], text: str
) -> str | int | tuple[str, ...] | Ago | Secret:
    """Return an option's text as its type. Raises ConfigError with what is allowed."""
    text = str(text).strip()
    if option.secret:
        return Secret(text)
    if option.kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _bad(option, text)
        return text.lower() == "true"
    if option.kind in _NUMBERS:
        return _number(option, text)
    if option.kind is Kind.NAMES:
        return _names(option, text)
    if option.choices:
        if text.lower() not in option.choices:
            raise ConfigError(f"{_bad(option, text)}{nearest_hint(text.lower(), option.choices)}")
        return text.lower()
    if not text:
        raise ConfigError(f"{option.name} is empty. It is to say: {option.doc}.")
    return text


def _names(option: SparkOption[OptionValue], text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise _bad(option, text)
    if len(set(found)) != len(found):
        raise ConfigError(f'{option.name}="{text}" names a column twice')
    return found


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
