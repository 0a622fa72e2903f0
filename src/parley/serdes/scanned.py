"""What a look at the prefixes of many messages has found, before any of them is decoded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from parley.serdes.frames import Prefix, SchemaRef, view_of


@dataclass(frozen=True, slots=True)
class Scanned:
    """Messages of one kind of prefix, and what their prefixes say.

    `groups` are 32 bits for each row: the place of its number among `numbers`, -1 without one.
    `bad` are rows that do not begin as they should.
    """

    messages: pa.Array
    prefix: Prefix
    groups: bytes
    numbers: list[int]
    bad: list[int]

    def refs(self) -> list[SchemaRef | None]:
        """Return what the numbers refer to."""
        make = self.prefix.ref
        return [None if make is None else make(number) for number in self.numbers]

    def payloads(self, rows: Iterable[int]) -> list[memoryview]:
        """Return what follows the prefix in some of the messages."""
        start = len(self.prefix)
        return [view_of(memoryview(self.messages[row].as_buffer()))[start:] for row in rows]
