"""Several names, which one text is not: the type that
says so to a checker, and the check when the call is made.

A text iterates over its letters, so that a call which wants names would take `"ab"` for the names a
and b. `Names` excludes it for mypy and pyright; `texts` refuses it for everybody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

from parley.errors import ConfigError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SHOWN = 60
"""Characters of a wrong value that an error shows."""


class Many(Protocol[T_co]):
    """A list, a tuple, a set, the keys of a dict; no text, whose `in` takes nothing but texts."""

    def __iter__(self) -> Iterator[T_co]: ...

    def __contains__(self, value: object, /) -> bool: ...


Several: TypeAlias = Many[T] | Iterator[T]
"""What is iterated over once. A value that is only known as an Iterable might be
a text: make a list of it.
"""
Names: TypeAlias = Many[str] | Iterator[str]
"""Several names. mypy and pyright refuse a single text, and each call that takes
names does when it is made.
"""


def shown(value: object) -> str:
    """Return how an error shows a wrong value: its repr, shortened, and its type."""
    text = repr(value)
    return f"{text if len(text) <= SHOWN else text[: SHOWN - 3] + '...'} ({type(value).__name__})"


def several(what: str, values: object, of: str = "names") -> tuple[object, ...]:
    """Return what a caller gave where several values are wanted.

    Raises ConfigError for one text, and for no values.

    >>> several("n", "ab")
    Traceback (most recent call last):
    parley.errors.tree.ConfigError: n='ab' is one text where several names are wanted: give ['ab']
    """
    if isinstance(values, str | bytes | bytearray | memoryview):
        kind = "text" if isinstance(values, str) else "bytes value"
        short = repr(values) if len(repr(values)) <= SHOWN else "..."
        raise ConfigError(
            f"{what}={short} is one {kind} where several {of} are wanted: give [{short}]"
        )
    if not isinstance(values, Iterable):
        raise ConfigError(
            f"{what}={shown(values)} cannot be used: several {of} are wanted, as a list"
        )
    return tuple(values)


def texts(what: str, values: object, of: str = "names") -> tuple[str, ...]:
    """Return several names. Raises ConfigError for one text, and for a name that is none."""
    return tuple(text(what, one) for one in several(what, values, of))


def text(what: str, value: object) -> str:
    """Return a name. Raises ConfigError for what is no text, is empty, or cannot be sent."""
    if not isinstance(value, str):
        raise ConfigError(f"{what}: {shown(value)} is no name; a text is expected")
    if not value:
        raise ConfigError(f"{what}: '' is no name; a text is expected, not an empty one")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{what}: {shown(value)} cannot be sent: it is no Unicode text"
        ) from error
    if size_bytes > 0x7FFF:
        raise ConfigError(
            f"{what}: a name of {size_bytes} bytes is longer than the 32767 that Kafka allows"
        )
    return value
