"""What a flow is tested with: records that are given, and those that are expected. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypeAlias

from parley.errors import ConfigError, nearest_hint
from parley.pipelines.declared.keys import moment

Row: TypeAlias = Mapping[str, object]
_GIVEN = ("topic", "partition", "key", "value", "timestamp")
_EXPECTED = ("topic", "key", "value", "row")


@dataclass(frozen=True, slots=True)
class Trial:
    """A test of one flow. `schemas` are files of schemas by subject, for values that are given.

    Raises ConfigError for what cannot be used.
    """

    given: Sequence[Row] = ()
    expect: Sequence[Row] = ()
    schemas: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.given:
            raise ConfigError("given = [{ topic = ..., value = ... }] is missing")
        for name, rows, known in (
            ("given", self.given, _GIVEN), ("expect", self.expect, _EXPECTED)
        ):  # fmt: skip
            if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
                raise ConfigError(f"{name} is a list of tables")
            for key in (key for one in rows for key in one if key not in known):
                raise ConfigError(f'{name} has no key "{key}".{nearest_hint(key, known)}')
        if missing := [one for one in self.given if not isinstance(one.get("topic"), str)]:
            raise ConfigError(f"given: {dict(missing[0])} names no topic")
        if not isinstance(self.schemas, dict):
            raise ConfigError('schemas is like { "orders-value" = "orders.avsc" }')


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of a test: what was expected and did not come, and what came besides."""

    flow: str
    expected: int
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether all came that was expected, and nothing else."""
        return not self.missing and not self.unexpected


def compare(flow: str, expect: Sequence[Row], found: Sequence[Row]) -> TrialResult:
    """Return what is missing and what is too much: each row that is expected is found once, in any
    order. Fields that are not named do not count.

    >>> compare("a", [{"value": {"n": 1}}], [{"value": {"n": 1, "m": 2}, "key": "k"}]).passed
    True
    """
    takers: dict[int, int] = {}
    missing = [
        wanted
        for index, wanted in enumerate(expect)
        if not _take(index, expect, found, takers, set())
    ]
    left = [one for index, one in enumerate(found) if index not in takers]
    return TrialResult(flow, len(expect), tuple(missing), tuple(left))


def _take(
    index: int,
    expect: Sequence[Row],
    found: Sequence[Row],
    takers: dict[int, int],
    tried: set[int],
) -> bool:
    """Find a row for what is expected; who has taken it takes another one, if there is any."""
    for place, row in enumerate(found):
        if place in tried or not _holds(row, expect[index]):
            continue
        tried.add(place)
        if place not in takers or _take(takers[place], expect, found, takers, tried):
            takers[place] = index
            return True
    return False


def _holds(found: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _holds(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(map(_holds, found, wanted))
        )
    if isinstance(wanted, date) or isinstance(found, date):  # a datetime is one
        return _moment(found) == _moment(wanted)
    if isinstance(wanted, float) and isinstance(found, int | float):
        return math.isclose(found, wanted)
    return bool(found == wanted)


def _moment(value: object) -> object:
    if isinstance(value, datetime | date | str):
        try:
            return moment(value)
        except ConfigError:
            return value
    return value
