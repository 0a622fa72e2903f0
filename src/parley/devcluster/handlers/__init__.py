"""What the brokers of the embedded cluster answer: one module per API that they act on, `hNN_...`.
The others are refused, by a table (`refusing`) or by rules (`refused_...`).
"""

import pkgutil
import re
from importlib import import_module
from types import ModuleType
from typing import Any

from parley.devcluster.handlers.base import Answer, Call, Handler, NoAnswer, Wait
from parley.devcluster.handlers.refusing import TABLE, Refusal, handler_of
from parley.messages import Message
from parley.schema import VersionRange


def _named(pattern: str) -> tuple[ModuleType, ...]:
    """Return the modules beside this one whose names begin as the pattern says."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}") for name in names if re.match(pattern, name))


MODULES = _named(r"h\d\d_")
"""The modules of the APIs that are acted on: all that are named after an API's key."""

REFUSALS: dict[int, Refusal] = {
    int(row.key): row
    for table in (TABLE, *(module.REFUSALS for module in _named("refused_")))
    for row in table
}
"""Every API that is advertised by some release and not acted on."""

SERVED_APIS: frozenset[int] = frozenset(int(module.API.key) for module in MODULES)
"""The APIs that are acted on."""

HANDLERS: dict[int, Handler[Any]] = {
    **{key: handler_of(refusal) for key, refusal in REFUSALS.items()},
    **{int(module.API.key): module.API for module in MODULES},
}
"""Every API that some release advertises, by key."""

SERVED: dict[int, VersionRange] = {key: handler.versions for key, handler in HANDLERS.items()}
"""The versions that can be answered of each of them."""

__all__ = [
    "HANDLERS",
    "MODULES",
    "REFUSALS",
    "SERVED",
    "SERVED_APIS",
    "Answer",
    "Call",
    "Handler",
    "Message",
    "NoAnswer",
    "Refusal",
    "Wait",
]
