"""What an option of the data source is, and how its text is read: one typed row of the table.

A row says what type its value has, so that `given[MIN_PARTITIONS]` is an `int | None` to a type
checker and to whoever reads the code.
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import Generic, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

from parley.spark.values.moments import Ago
from parley.types import Secret

OptionValue: TypeAlias = str | int | tuple[str, ...] | Ago | Secret | None
"""What an option's text is read as, by its kind."""
V_co = TypeVar("V_co", bound=OptionValue, covariant=True)
D = TypeVar("D", str, int, None)
"""The type of a default: None where the option has none."""
INT32, INT64 = 2**31 - 1, 2**63 - 1


class Use(Flag):
    """What a data source is opened for."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE


class Kind(Enum):
    """How an option's text is read."""

    TEXT = "text"
    NAMES = "names separated by commas"
    INTEGER = "integer"
    BOOLEAN = "true or false"
    MOMENT = "milliseconds since 1970-01-01 UTC, or a time ago such as -10 minutes"
    DURATION = "a time such as 15m or 90 seconds"
    BYTES = "bytes, also such as 64m"
    JSON = "JSON"


SAME = "the same"
OURS = "–"


class SparkOption(NamedTuple, Generic[V_co]):
    """One line of the table."""

    name: str
    kind: Kind
    default: V_co
    doc: str
    use: Use = Use.READ
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    no_effect: str = ""
    """Why the option is accepted although nothing comes of it."""
    sparks: str = SAME
    """How Spark's own source has it: `SAME`, `OURS` where it has none, or the difference."""
    secret: bool = False
    """Whether no text, log or table may show the value."""


class _More(TypedDict, total=False):
    use: Use
    low: int | None
    high: int | None
    choices: tuple[str, ...]
    no_effect: str
    sparks: str
    secret: bool


# -- one function for each kind, which knows the type of its values --------------------------------


def text(name: str, default: D, doc: str, **more: Unpack[_More]) -> SparkOption[str | D]:
    """Return an option whose value is its text, or one of its `choices`."""
    return SparkOption(name, Kind.TEXT, default, doc, **more)


def names(name: str, doc: str, **more: Unpack[_More]) -> SparkOption[tuple[str, ...]]:
    """Return an option whose value is a list of names, each of them once."""
    return SparkOption(name, Kind.NAMES, (), doc, **more)


def secret_text(name: str, doc: str, **more: Unpack[_More]) -> SparkOption[Secret | None]:
    """Return an option whose value is a text that nothing shows."""
    return SparkOption(name, Kind.TEXT, None, doc, **more)._replace(secret=True)


def json_text(name: str, default: D, doc: str, **more: Unpack[_More]) -> SparkOption[str | D]:
    """Return an option whose value is JSON, read by whoever looks it up."""
    return SparkOption(name, Kind.JSON, default, doc, **more)


def integer(name: str, default: D, doc: str, **more: Unpack[_More]) -> SparkOption[int | D]:
    """Return an option whose value is a number."""
    return SparkOption(name, Kind.INTEGER, default, doc, **more)


def boolean(name: str, default: bool, doc: str, **more: Unpack[_More]) -> SparkOption[bool]:
    """Return an option that is true or false."""
    return SparkOption(name, Kind.BOOLEAN, default, doc, **more)


def moment(name: str, default: D, doc: str, **more: Unpack[_More]) -> SparkOption[int | Ago | D]:
    """Return an option whose value is a time of day in milliseconds, or a time ago."""
    return SparkOption(name, Kind.MOMENT, default, doc, **more)


def duration(name: str, default: D, doc: str, **more: Unpack[_More]) -> SparkOption[int | D]:
    """Return an option whose value is a time in milliseconds."""
    return SparkOption(name, Kind.DURATION, default, doc, **more)


def byte_count(name: str, default: D, doc: str, **more: Unpack[_More]) -> SparkOption[int | D]:
    """Return an option whose value is a number of bytes."""
    return SparkOption(name, Kind.BYTES, default, doc, **more)


def default_text(option: SparkOption[OptionValue]) -> str:
    """Return an option's default as a user would write it."""
    default = option.default
    if isinstance(default, bool):
        return str(default).lower()
    if option.kind is Kind.DURATION and isinstance(default, int):
        return f"{default // 60_000}m"
    if option.kind is Kind.BYTES and isinstance(default, int):
        return f"{default // 2**20}m"
    return "" if default in (None, ()) else str(default)


def allowed(option: SparkOption[OptionValue]) -> str:
    """Return in words which values an option takes."""
    if option.choices:
        return " or ".join(option.choices)
    if option.kind is Kind.INTEGER:
        top = f" to {option.high}" if option.high not in (None, INT64) else ""
        return (
            f"an integer from {option.low or 0}{top}"
            if top
            else f"an integer of at least {option.low or 0}"
        )
    return str(option.kind.value)
