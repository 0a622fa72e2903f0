"""The framings by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parley.errors import ConfigError, nearest_hint
from parley.serdes.apicurio import ApicurioHeaders, ApicurioPrefix
from parley.serdes.confluent import Confluent, ConfluentHeader, ConfluentPrefix
from parley.serdes.frames import Bare, Framing
from parley.serdes.glue import Glue
from parley.serdes.single_object import SingleObject

FRAMINGS: Mapping[str, Callable[[], Framing]] = {
    one.name: one
    for one in (
        Confluent,
        ConfluentPrefix,
        ConfluentHeader,
        ApicurioPrefix,
        ApicurioHeaders,
        Glue,
        SingleObject,
        Bare,
    )
}
"""Name -> what makes the framing with its defaults."""
IN_HEADERS = frozenset((Confluent.name, ConfluentHeader.name, ApicurioHeaders.name))
"""The framings that look at a record's headers."""
WITHOUT_REGISTRY = frozenset((Bare.name, SingleObject.name))
"""The framings that name no schema of a registry."""


def framing(name: str) -> Framing:
    """Return the framing of a name. Raises ConfigError, with the nearest name, for others.

    >>> framing("confluent")
    Confluent(protobuf=False)
    """
    made = FRAMINGS.get(name)
    if made is None:
        raise ConfigError(
            f'framing="{name}" is none of {", ".join(FRAMINGS)}.{nearest_hint(name, FRAMINGS)}'
        )
    return made()
