"""One record as a Python object: what the compiled kernel's records are, in Python."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """One record.

    `timestamp` is in milliseconds since 1970; `timestamp_type` is 0 (create), 1 (append) or -1
    (none). `headers` are pairs of a text and bytes or None. `leader_epoch` is that of the record's
    batch, -1 before message format 2 (KIP-101). `delivery_count` says how often a share group has
    delivered the record, this time included; elsewhere it is None.

    A record cannot be changed; `replace` returns another one. Records that were decoded together
    share their bytes, and fields are read out of these each time: a record that is kept keeps up to
    2,000 others' bytes. `copy.copy(record)` keeps its own alone.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    leader_epoch: int = -1
    delivery_count: int | None = None

    def replace(self, **changes: object) -> ConsumerRecord:
        """Return the record with other values of some fields."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    __replace__ = replace

    def __reduce__(self) -> tuple[type[ConsumerRecord], tuple[object, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))


ConsumerRecord.__module__ = "parley.client"
ConsumerRecord.__qualname__ = "ConsumerRecord"
