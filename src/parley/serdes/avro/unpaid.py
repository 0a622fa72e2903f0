"""Values that no byte of a datum stands for: nulls, fixed of no bytes, and records of nothing else.

A few lines of a schema can name a record so often that hours go by with reading nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from parley.errors import SchemaError
from parley.serdes.avro.model import AvroType, Fixed, Record

MAX_UNPAID = 10_000
"""How many a record may have, with those of the records within it."""


def check_unpaid(records: Iterable[Record]) -> None:
    """Raise SchemaError for a record with too many values without bytes."""
    unpaid = _Unpaid()
    for one in records:
        found, _ = unpaid.of(one)
        if found > MAX_UNPAID:
            raise SchemaError(
                f"the record {one.name} has more than {MAX_UNPAID} values that take no bytes"
            )


class _Unpaid:
    def __init__(self) -> None:
        self._known: dict[int, tuple[int, bool]] = {}

    def of(self, kind: AvroType) -> tuple[int, bool]:
        """Return how many values have no bytes, and whether there are any that have."""
        if not isinstance(kind, Record):
            is_empty = kind.size == 0 if isinstance(kind, Fixed) else kind.kind == "null"
            return int(is_empty), not is_empty
        if id(kind) not in self._known:
            self._known[id(kind)] = (0, True)  # what is nothing but itself has no datum
            parts = [self.of(one.type) for one in kind.fields]
            has_bytes = any(paid for _, paid in parts)
            self._known[id(kind)] = (sum(free for free, _ in parts) + (not has_bytes), has_bytes)
        return self._known[id(kind)]
