"""Assignors: pure functions with which the leader of a group decides who reads which partition.

Map: `base` has the terms, `range`, `round_robin` and `sticky` the four of Java; all but
`round_robin` heed `racks`. The sticky ones read `claims` to what members held, `balance`, bring
partitions `near` and `give_back` what need not have moved; `cooperative` withholds what another
still reads.
"""

from __future__ import annotations

from parley.client.group.assignors.base import Assignment, Assignor, Member, Racks, Topics
from parley.client.group.assignors.range import RangeAssignor
from parley.client.group.assignors.round_robin import RoundRobinAssignor
from parley.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from parley.errors import ConfigError, nearest_hint
from parley.types import Several, several, shown, text

__all__ = [
    "OWN",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "Member",
    "Racks",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Topics",
    "by_name",
]

OWN: tuple[Assignor, ...] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)
"""Those that have names: how long they take is known."""
_BY_NAME = {assignor.name: assignor for assignor in OWN}
_BY_JAVA_NAME = {
    f"org.apache.kafka.clients.consumer.{type(assignor).__name__}": assignor for assignor in OWN
}


def by_name(names: Several[str | Assignor]) -> tuple[Assignor, ...]:
    """Return assignors by their names or the names of Java's classes; objects of your own as they
    are.

    The order is that of preference. Raises ConfigError for an unknown name, for what is no
    assignor, for two of one name, and for none.

    >>> [assignor.name for assignor in by_name(["range", "cooperative-sticky"])]
    ['range', 'cooperative-sticky']
    """
    found: dict[str, Assignor] = {}
    for value in several("assignors", names):
        assignor = _named(value) if isinstance(value, str) else _checked(value)
        if assignor.name in found:
            raise ConfigError(f'assignors: two are named "{assignor.name}"; name each once')
        found[assignor.name] = assignor
    if not found:
        raise ConfigError(f"assignors: none is given; name at least one of {_listed()}")
    return tuple(found.values())


def _named(name: str) -> Assignor:
    assignor = _BY_NAME.get(name) or _BY_JAVA_NAME.get(name)
    if assignor is None:
        hint = nearest_hint(name, _BY_NAME)
        raise ConfigError(
            f'assignors: "{name}" is not known; known are {_listed()}, and objects of your '
            f"own.{hint}"
        )
    return assignor


def _checked(value: object) -> Assignor:
    if isinstance(value, type):
        raise ConfigError(
            f"assignors: {value.__name__} is a class; give an object of it: {value.__name__}()"
        )
    if not isinstance(value, Assignor):
        raise ConfigError(
            f"assignors: {shown(value)} has no name, cooperative, user_data and assign"
        )
    text("the name of an assignor", value.name)
    return value


def _listed() -> str:
    return ", ".join(f'"{name}"' for name in _BY_NAME)
