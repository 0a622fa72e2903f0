"""Faults on request: answer an error, cut the connection, delay, drop, reorder or corrupt the
answer.

Rules of this file:
1. A fault names what it acts on (API, broker, client, topic, partition; or all of them) and how
   often; after that it is gone.
2. Faults act in the order in which they were asked for; at most one of each kind acts on a request.
3. Chance comes from the `rng` that is given: with the cluster's seed the same faults hit again.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from parley.devcluster.faults.asked import Asked
from parley.errors import ConfigError, nearest_hint
from parley.errors.broker import error_codes
from parley.schema import ApiKey

EVERY_TIME = -1
_KEYS = {key.name.replace("_", "").lower(): key for key in ApiKey}


def api_number(api: str | int) -> int:
    """Return an API's key: from its number, or from its name as Kafka writes it.

    Raises ConfigError for a name that no API has.

    >>> api_number("ListOffsets"), api_number("produce"), api_number(3)
    (2, 0, 3)
    """
    if isinstance(api, int):
        return int(api)
    found = _KEYS.get(api.replace("_", "").lower())
    if found is None:
        raise ConfigError(f'there is no API "{api}".{nearest_hint(api.lower(), _KEYS)}')
    return int(found)


@lru_cache(maxsize=256)
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


class Kind(enum.Enum):
    """What a fault does."""

    ERROR = "error"
    CUT = "cut"
    DELAY = "delay"
    DROP = "drop"
    REORDER = "reorder"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which requests a fault acts on; None means any.

    `probability` is the chance that it acts on a request that fits; only then it counts.
    """

    api: int | None = None
    broker: int | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    probability: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ConfigError(f"probability={self.probability} is none; give a number from 0 to 1")
        if self.partition is not None and self.topic is None:
            raise ConfigError(f"partition {self.partition} of which topic? name it too")

    def wants(self, topic: str, partition: int | None) -> bool:
        """Whether it acts on a partition, or on a topic as a whole (None)."""
        return self.topic in (None, topic) and (
            self.partition is None or partition in (None, self.partition)
        )

    def fits(
        self, api: int, broker: int, client_id: str | None, asked: Callable[[], Asked]
    ) -> bool:
        """Whether it acts on a request; `asked` names the topics and partitions,
        when that is looked at.
        """
        if (
            self.api not in (None, api)
            or self.broker not in (None, broker)
            or self.client_id not in (None, client_id)
        ):
            return False
        if self.topic is None:
            return True
        return any(
            self.wants(topic, index)
            for topic, indexes in asked().items()
            for index in indexes or (None,)
        )


@dataclass(slots=True)
class Fault:
    """One thing that shall go wrong, `times` times (-1: always).

    `executed`: whether the broker acts on the request all the same (the answer is lost, late or
    wrong) or does not (the request is lost). `after_bytes`: how much of the answer, size included,
    gets through a cut; None resets the connection instead. `at_byte`: which byte is corrupted, None
    for a random one.
    """

    kind: Kind
    target: Target
    times: int
    error: int = 0
    executed: bool = False
    after_bytes: int | None = None
    delay_ms: int = 0
    at_byte: int | None = None

    def __post_init__(self) -> None:
        for name in ("delay_ms", "after_bytes", "at_byte"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"{name}={getattr(self, name)} is negative; give 0 or more")


class FaultQueue:
    """The faults that are waiting to happen."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random()
        self._waiting: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, fault: Fault) -> None:
        """Let it happen."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Forget all of them."""
        self._waiting.clear()

    def take(
        self, api: int, broker: int, client_id: str | None, asked: Callable[[], Asked]
    ) -> dict[Kind, Fault]:
        """Return what happens to a request, and count it."""
        taken: dict[Kind, Fault] = {}
        for fault in self._waiting:
            if (
                fault.kind in taken
                or not fault.times
                or not fault.target.fits(api, broker, client_id, asked)
            ):
                continue
            if fault.target.probability < 1 and self.rng.random() >= fault.target.probability:
                continue
            taken[fault.kind] = fault
            fault.times -= fault.times > 0
        self._waiting = [fault for fault in self._waiting if fault.times]
        return taken
