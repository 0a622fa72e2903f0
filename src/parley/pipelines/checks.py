"""Checks that the options of jobs share, and sizes as people write them. Pure."""

from __future__ import annotations

import math
import re

from parley.errors import ConfigError
from parley.types import text

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?(?:/s)?", re.IGNORECASE)


def check_name(value: str) -> None:
    """Raise ConfigError for a name that topics and transactions cannot have."""
    if not _NAME.fullmatch(text("name", value)):
        raise ConfigError(
            f'name="{value}" cannot be used: topics and transactions are named after it, so give '
            "letters, digits, dots, dashes and underscores, 200 at most"
        )


def check_choice(name: str, value: object, *choices: str) -> None:
    """Raise ConfigError for a value that is none of some."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")


def check_number(name: str, value: object, least: int) -> None:
    """Raise ConfigError for what is no whole number from `least` up."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value!r} cannot be used: a number from {least} up is")


def size(value: object) -> float:
    """Return bytes of a number with or without a unit.

    >>> size("20MB"), size("512KiB"), size("20 MB/s"), size(1000)
    (20000000.0, 524288.0, 20000000.0, 1000.0)
    """
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None and float(found[1]):
        unit = " kmg".index(found[2].lower() or " ")
        return float(found[1]) * float(1024 if found[3] else 1000) ** unit
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise ConfigError(f'"{value}" is no number of bytes: give 20MB, 512KiB or 1000000')
