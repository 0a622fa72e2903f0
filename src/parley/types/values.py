"""Topic partitions, nodes, offsets, secrets and topic ids."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from parley.errors import ConfigError, printable

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""What a JSON text holds, before anybody looked at it."""

ZERO_UUID = bytes(16)
"""The topic id that means "none" (KIP-516)."""


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as Metadata names it. `rack` is None where the broker has none (Metadata v1+)."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, with brackets around IPv6 addresses, and escapes for unprintable ones."""
        host = printable(self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: the *next* to read, and the last record's leader epoch (KIP-320).

    `leader_epoch` is -1 where it is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Secret:
    """A text that never shows in a repr, a log or a pickle's repr; `reveal()` gives it back.

    >>> Secret("hunter2")
    Secret('***')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text._text if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """Return the secret itself. Pass it on, never print it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def format_uuid(topic_id: bytes) -> str:
    """Return a 16-byte topic id in Kafka's 22-character text form (URL-safe base64, no padding).

    >>> format_uuid(bytes(16))
    'AAAAAAAAAAAAAAAAAAAAAA'
    """
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a topic id in text form. Raises ConfigError for other text."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ConfigError(
            f'"{text}" is not a topic id: 22 characters of URL-safe base64 are expected'
        ) from error
    if len(raw) != 16:
        raise ConfigError(f'"{text}" is not a topic id: it has {len(raw)} bytes, 16 are expected')
    return raw
