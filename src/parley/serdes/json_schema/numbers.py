"""Numbers as JSON texts have them, for values that are kept as text: a float has fewer digits.

`loads` and `dumps` are those of Python's json but for that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn, TypeAlias


@dataclass(frozen=True, slots=True, repr=False)
class Written:
    """A number that is no whole one, or -0."""

    text: str

    @property
    def value(self) -> int | float:
        """What a program takes it for."""
        return 0 if self.text == _MINUS_ZERO else float(self.text)

    @property
    def whole(self) -> int | None:
        """The whole number that it is, as `2.0` and `1e3` are, with all its digits; None for
        another one, and for one that no float reaches.
        """
        try:
            number = Decimal(self.text)
            if number and (
                number.adjusted() > _MOST_DIGITS or number != number.to_integral_value()
            ):
                return None
        except ArithmeticError:  # an exponent beyond all that Decimal knows
            return None
        return int(number)

    def __repr__(self) -> str:
        return self.text


_MINUS_ZERO = "-0"
_MOST_DIGITS = 308
_dumped = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
Exact: TypeAlias = "dict[str, Exact] | list[Exact] | Written | str | int | float | bool | None"
"""A value of JSON."""


def loads(text: str, *, exact: bool) -> Exact:
    """Return the value of a text; `exact` says whether its numbers are kept as they are written.

    Raises ValueError as Python's json, and for NaN and the infinities, which JSON has not.
    """
    if not exact:
        return json.loads(text, parse_constant=_no_constant)  # type: ignore[no-any-return]
    whole = _whole if _MINUS_ZERO in text else None
    return json.loads(  # type: ignore[no-any-return]
        text, parse_constant=_no_constant, parse_float=Written, parse_int=whole
    )


def dumps(value: Exact) -> str:
    """Return the text of a value, without spaces. Raises TypeError and ValueError as json does."""
    try:
        return _dumped(value)
    except TypeError:  # it may have written numbers
        parts: list[str] = []
        _write(value, parts)
        return "".join(parts)


def plain(value: object) -> object:
    """Return a number as Python's json has it, and another value as it is."""
    return value.value if isinstance(value, Written) else value


def _whole(text: str) -> int | Written:
    return Written(text) if text == _MINUS_ZERO else int(text)


def _write(value: Exact, parts: list[str]) -> None:
    if isinstance(value, Written):
        parts.append(value.text)
    elif isinstance(value, dict):
        before = "{"
        for key, one in value.items():
            parts.append(f"{before}{_dumped(str(key))}:")
            _write(one, parts)
            before = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        before = "["
        for one in value:
            parts.append(before)
            _write(one, parts)
            before = ","
        parts.append("]" if value else "[]")
    else:
        parts.append(_dumped(value))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
