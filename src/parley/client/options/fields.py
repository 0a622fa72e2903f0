"""How options are declared, checked and read: one description per option serves all of it.

An option is a dataclass field made with `option(...)`. Its snake_case name, Kafka's dotted name,
its range, its choices and its one-line description stand in one place; `OptionSet` checks values,
reads properties and lists the table for the documentation.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import logging
import re
from collections.abc import Iterable, Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from parley.client.options.java_names import JAVA_NAMES
from parley.errors import ConfigError, nearest_hint
from parley.types import Secret, text as sendable

log = logging.getLogger("parley.client")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_TRUE = {"true", "yes", "1", "on"}
_FALSE = {"false", "no", "0", "off"}


class OptionRow(NamedTuple):
    """One line of the option table: both spellings, the default and what the option means."""

    name: str
    dotted: str
    default: object
    allowed: str
    doc: str


def option(
    default: object,
    doc: str,
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    dotted: str | None = None,
    kind: type = object,
    shown: bool = True,
    sent: bool = False,
) -> Any:
    """Return a dataclass field for an option; `kind` is the type a text value is read as.

    With `shown=False` no repr has its value; with `sent=True` it goes to brokers as a text.
    """
    if kind is object and default is not None:
        kind = type(default)
    metadata = {
        "doc": doc,
        "low": low,
        "high": high,
        "choices": choices,
        "dotted": dotted,
        "kind": kind,
        "sent": sent,
    }
    return dataclasses.field(default=default, metadata=metadata, repr=shown)


def dotted_name(field: dataclasses.Field[object]) -> str:
    """Return Kafka's spelling of an option, `fetch.min.bytes` for `fetch_min_bytes`."""
    return field.metadata.get("dotted") or field.name.replace("_", ".")


class _Signature:
    """The signature of the dataclass, which `inspect` would not find behind `__new__`."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        whole = inspect.signature(owner.__init__)  # type: ignore[misc]  # of this class and no subclass
        return whole.replace(
            parameters=list(whole.parameters.values())[1:], return_annotation=owner
        )


First = TypeVar("First", bound="OptionSet")
Second = TypeVar("Second", bound="OptionSet")


class OptionSet:
    """The base of every group of options: checked when made, frozen afterwards."""

    __slots__ = ()
    __signature__ = _Signature()

    if not TYPE_CHECKING:  # a type checker sees the dataclass's own parameters

        def __new__(cls, *positional: object, **named: object) -> Self:
            """Refuse an option that does not exist, with the nearest name; not as a TypeError."""
            if positional:
                raise ConfigError(f"{cls.__name__}({positional[0]!r}): options are given by name")
            check_names(cls, named)
            return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            if "doc" in field.metadata:
                object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))
        self._check_together()

    def _check_together(self) -> None:
        """Raise ConfigError where two options contradict each other."""

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the options of keyword names. Raises ConfigError that has the nearest name."""
        return cls(**values)

    @classmethod
    def from_properties(cls, source: Mapping[str, object] | str | Path) -> Self:
        """Return the options of Kafka's dotted names, in a mapping or a `.properties` file.

        Names that only Kafka's Java clients have are left out and logged. Raises ConfigError for
        an unknown name (with the nearest known one) and for a value out of range.
        """
        return cls.of(snake_names(read_properties(source), option_names(cls)))

    @classmethod
    def table(cls) -> list[OptionRow]:
        """Return the rows of the documentation's option table."""
        rows = []
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if "doc" in field.metadata:
                row = OptionRow(
                    field.name,
                    dotted_name(field),
                    field.default,
                    _allowed(field),
                    str(field.metadata["doc"]),
                )
                rows.append(row)
        return rows

    @classmethod
    def secret_names(cls) -> frozenset[str]:
        """Return the options that hold secrets, in all spellings."""
        kinds = {field.name: field.metadata.get("kind") for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # every subclass is a dataclass
        return frozenset(
            spelling for spelling, name in option_names(cls).items() if kinds[name] is Secret
        )

    def replace(self, **changes: object) -> Self:
        """Return a copy with some options changed, checked again."""
        return type(self).of({**_values(self), **changes})


def option_names(*groups: type[OptionSet]) -> dict[str, str]:
    """Return the table from both spellings to snake_case, for one or several groups."""
    names = {}
    for group in groups:
        for field in dataclasses.fields(group):  # type: ignore[arg-type]
            if "doc" in field.metadata:
                names[dotted_name(field)] = field.name
                names[field.name.replace("_", ".")] = field.name
                names[field.name] = field.name
    return names


def check_names(group: type[OptionSet], names: Iterable[str]) -> None:
    """Raise ConfigError, with the nearest known name, for a name that is no option of a group."""
    known = _known_names(group)  # type: ignore[arg-type]  # mypy: classes were not Hashable
    for name in names:
        if name not in known:
            raise unknown_option(name, known)


def split_named(
    named: Mapping[str, object], first: type[First], second: type[Second]
) -> tuple[First, Second]:
    """Return the options of two groups out of one set of keyword arguments; a name may be both's.

    Raises ConfigError, with the nearest name, for one that neither has.
    """
    names = _known_names(first), _known_names(second)  # type: ignore[arg-type]  # as above
    for name in named:
        if name not in names[0] | names[1]:
            raise unknown_option(name, names[0] | names[1])
    given = [{name: named[name] for name in named if name in known} for known in names]
    return first.of(given[0]), second.of(given[1])


@cache
def _known_names(group: type[OptionSet]) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(group))  # type: ignore[arg-type]  # every group is a dataclass


def unknown_option(name: str, known: Iterable[str]) -> ConfigError:
    """Return (not raise) the error for an option that does not exist."""
    return ConfigError(f'there is no option "{name}".{nearest_hint(name, known)}')


def snake_names(properties: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    """Return `properties` by snake_case names; those that only Java's clients have are left out and
    logged. Raises ConfigError for a name that nobody has.
    """
    found, unused = {}, []
    for name, value in properties.items():
        if name in names:
            found[names[name]] = value
        elif name in JAVA_NAMES:
            unused.append(name)
        else:
            raise unknown_option(name, names)
    if unused:
        log.warning("options of Java's clients that have no effect here: %s", ", ".join(unused))
    return found


def read_properties(source: Mapping[str, object] | str | Path) -> Mapping[str, object]:
    """Return the mapping itself, or that of a `.properties` file (`key=value`, `#`, `!`).

    Long lines may go on after a backslash, and the escapes are Java's. An error shows no line: it
    may be a secret's.
    """
    if isinstance(source, Mapping):
        return source
    found: dict[str, str] = {}
    pending = ""
    try:
        lines = Path(source).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'the properties file "{source}" cannot be read ({error})') from error
    for number, line in enumerate(lines, 1):
        text = pending + line.strip()
        pending = ""
        if not text or text[0] in "#!":
            continue
        if (len(text) - len(text.rstrip("\\"))) % 2:
            pending = text[:-1]
            continue
        ends = [text.find(sign) for sign in "=:" if sign in text]
        if not ends:
            raise ConfigError(f"{source}, line {number}: it is not of the form key=value")
        value = _ESCAPE.sub(_unescaped, text[min(ends) + 1 :].strip())
        # Java writes a character beyond 16 bits as two escapes.
        found[text[: min(ends)].strip()] = value.encode("utf-16", "surrogatepass").decode(
            "utf-16", "replace"
        )
    return found


def _unescaped(found: re.Match[str]) -> str:
    letter = found[1]
    return (
        chr(int(letter[1:], 16))
        if len(letter) == 5
        else {"n": "\n", "t": "\t", "r": "\r"}.get(letter, letter)
    )


def _values(options: OptionSet) -> dict[str, object]:
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}  # type: ignore[arg-type]


def _checked(field: dataclasses.Field[object], value: object) -> object:
    """Return the value in its type. Raises ConfigError with option, value and what is allowed."""
    if value is None:
        if field.default is None:
            return None
        raise ConfigError(f"{field.name} must be given a value: {_allowed(field)}")
    kind = field.metadata["kind"]
    if kind is int:
        value = _integer(field, value)
    elif kind is bool:
        value = _boolean(field, value)
    elif kind is Secret:
        if not isinstance(value, str | Secret):
            raise ConfigError(f"{field.name} must be a text, not {type(value).__name__}")
        value = Secret(value)
    elif kind is str:
        value = _text(field, value)
    choices = field.metadata["choices"]
    if choices:
        value = _choice(field, value, choices)
    return value


def _text(field: dataclasses.Field[object], value: object) -> str:
    """Return a text, also of a number or a path: the text of bytes or of a list is no name."""
    if not isinstance(value, str | int | float | PathLike) or isinstance(value, bool):
        raise ConfigError(f"{field.name} must be a text, not {type(value).__name__}")
    found = str(value)
    if found and field.metadata["sent"]:
        sendable(field.name, found)
    return found


def _integer(field: dataclasses.Field[object], value: object) -> int:
    if isinstance(value, datetime.timedelta) and field.name.endswith("_ms"):
        value = round(value.total_seconds() * 1000)
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            raise _bad(field, value) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(field, value)
    low, high = field.metadata["low"], field.metadata["high"]
    if (low is not None and value < low) or (high is not None and value > high):
        raise _bad(field, value)
    return value


def _boolean(field: dataclasses.Field[object], value: object) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
    elif isinstance(value, bool):
        return value
    raise _bad(field, value)


def _choice(field: dataclasses.Field[object], value: object, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if isinstance(value, str) and value.strip().lower() == choice.lower():
            return choice
    raise ConfigError(
        f'{field.name}="{value}" is not one of '
        f"{', '.join(choices)}.{nearest_hint(str(value), choices)}"
    )


def _bad(field: dataclasses.Field[object], value: object) -> ConfigError:
    return ConfigError(
        f"{field.name}={value!r} cannot be used: {_allowed(field)} is expected "
        f"({field.metadata['doc']})"
    )


def _allowed(field: dataclasses.Field[object]) -> str:
    if field.metadata["choices"]:
        return " | ".join(field.metadata["choices"])
    low, high, kind = field.metadata["low"], field.metadata["high"], field.metadata["kind"]
    if kind is int:
        if low is not None and high is not None:
            return f"an integer from {low} to {high}"
        return f"an integer of at least {low}" if low is not None else "an integer"
    return {bool: "true or false", str: "a text"}.get(kind, "a value")
