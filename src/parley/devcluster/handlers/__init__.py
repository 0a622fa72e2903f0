"""What the brokers of the embedded cluster answer: one module per API that they act
on, one table for the rest.
"""

import pkgutil
import re
from importlib import import_module
from typing import Any

from parley.devcluster.handlers.base import Answer, Call, Handler, NoAnswer, Wait
from parley.devcluster.handlers.refusing import REFUSALS, Refusal, handler_of
from parley.messages import Message
from parley.schema import VersionRange

MODULES = tuple(
    import_module(f"{__name__}.{name}")
    for name in sorted(
        found.name for found in pkgutil.iter_modules(__path__) if re.match(r"h\d\d_", found.name)
    )
)
"""The modules of the APIs that are acted on: all that are named after an API's key."""

SERVED_APIS: frozenset[int] = frozenset(int(module.API.key) for module in MODULES)
"""The APIs that are acted on; the others are refused by the table of `refusing`."""

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
