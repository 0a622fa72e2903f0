"""Faults on request: answer an error, cut the connection, delay the answer.

Rules of this file:
1. A fault names an API (or all), a broker (or all), and how often it acts; after that it is gone.
2. Faults act in the order in which they were asked for; at most one of each kind acts on a request.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.errors import ConfigError, nearest_hint
from parley.errors.broker import error_codes
from parley.schema import ApiKey

EVERY_TIME = -1


def api_number(api: str | int) -> int:
    """Return an API's key: from its number, or from its name as Kafka writes it.

    Raises ConfigError for a name that no API has.

    >>> api_number("ListOffsets"), api_number("produce"), api_number(3)
    (2, 0, 3)
    """
    if isinstance(api, int):
        return int(api)
    names = {key.name.replace("_", "").lower(): key for key in ApiKey}
    found = names.get(api.replace("_", "").lower())
    if found is None:
        raise ConfigError(f'there is no API "{api}".{nearest_hint(api.lower(), names)}')
    return int(found)


def api_name(key: int) -> str:
    """Return an API's name as Kafka writes it, `API 999` for a key without one.

    >>> api_name(2)
    'ListOffsets'
    """
    try:
        return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    except ValueError:
        return f"API {key}"


def error_number(error: str | int) -> int:
    """Return an error's code, from its number or from Kafka's name of it. Raises ConfigError.

    >>> error_number("NOT_LEADER_OR_FOLLOWER"), error_number(74)
    (6, 74)
    """
    if isinstance(error, int):
        return error
    codes = {entry.name: entry.code for entry in error_codes().values()}
    if error not in codes:
        raise ConfigError(f'Kafka has no error "{error}".{nearest_hint(error.upper(), codes)}')
    return codes[error]


@dataclass(slots=True)
class Fault:
    """One thing that shall go wrong. Exactly one of `error`, `cut`, `delay_ms` is set.

    `executed`: for a cut, whether the broker acts on the request before the connection breaks (the
    acknowledgement is lost) or does not (the request is lost).
    """

    api: int | None
    broker: int | None
    times: int
    error: int | None = None
    cut: bool = False
    executed: bool = False
    delay_ms: int | None = None

    def fits(self, api: int, broker: int) -> bool:
        """Whether it acts on a request."""
        return self.times != 0 and self.api in (None, api) and self.broker in (None, broker)


class Faults:
    """The faults that are waiting to happen."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Let it happen."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Forget all of them."""
        self._waiting.clear()

    def take(self, api: int, broker: int) -> list[Fault]:
        """Return what happens to this request, and count it."""
        if not self._waiting:
            return []
        taken: dict[tuple[bool, bool, bool], Fault] = {}
        for fault in self._waiting:
            kind = (fault.error is not None, fault.cut, fault.delay_ms is not None)
            if fault.fits(api, broker) and kind not in taken:
                taken[kind] = fault
                fault.times -= fault.times > 0
        self._waiting = [fault for fault in self._waiting if fault.times != 0]
        return list(taken.values())
