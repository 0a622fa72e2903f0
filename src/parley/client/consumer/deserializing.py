"""Keys and values that the application's deserializers make of bytes.

Rules of this file:
1. Deserializers run where records are decoded: in another thread for AsyncConsumer, in the caller's
   for Consumer, and never in the event loop. One may ask a registry.
2. A record that cannot be deserialized is not handed out. Those in front of it are; then the error
   is raised, and the position stays at the record (KIP-334).
3. The next poll tries the record again: what failed may be there by then. To leave it out the
   application seeks past it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from parley.errors import ConfigError, RecordDeserializationError
from parley.records import ConsumerRecord, ListedRecords, RecordCursor
from parley.serdes import Deserializer
from parley.types import shown

Deserialize: TypeAlias = Callable[[bytes], object]
"""Makes a value of bytes: a function, or a `parley.serdes.Deserializer`."""
_Convert = Callable[[ConsumerRecord], object]


class Deserializers(NamedTuple):
    """What makes keys and values; one of them may be missing."""

    key: Deserialize | None
    value: Deserialize | None

    def convert(
        self, records: list[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord], RecordDeserializationError | None]:
        """Return the records up to the first that cannot be deserialized, and why it cannot."""
        made: list[ConsumerRecord] = []
        for record in records:
            changed: dict[str, object] = {}
            for part, make, data in (
                ("key", self.key, record.key), ("value", self.value, record.value)
            ):  # fmt: skip
                if make is None or data is None:
                    continue
                try:
                    if isinstance(make, Deserializer):
                        changed[part] = make(data, record.headers)
                    else:
                        changed[part] = make(data)
                except Exception as error:
                    failed = RecordDeserializationError(error, part=part, record=record)
                    failed.__cause__ = error
                    return made, failed
            made.append(record.replace(**changed) if changed else record)
        return made, None


def deserializers(key: object, value: object) -> Deserializers | None:
    """Return what the options mean, None where nothing is deserialized. Raises ConfigError."""
    for name, given in (("key_deserializer", key), ("value_deserializer", value)):
        if given is None:
            continue
        if not callable(given):
            raise ConfigError(
                f"{name}={shown(given)} cannot be called: give a function that makes something of "
                "bytes, or a parley.serdes.Deserializer"
            )
        is_key = name.startswith("key")
        if isinstance(given, Deserializer) and given.is_key is not is_key:
            raise ConfigError(f"{name}: make the Deserializer with is_key={is_key}")
    return None if key is None and value is None else Deserializers(key, value)  # type: ignore[arg-type]  # checked above


class Piece:
    """Records of one chunk that are deserialized as they are wanted."""

    def __init__(self, of: Deserializers, raw: RecordCursor) -> None:
        self._of = of
        self._waiting = raw.take(len(raw))
        self._next_offset = raw.position
        self.failure: RecordDeserializationError | None = None
        """Why the record in front cannot be handed out."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def offsets(self) -> list[int]:
        """The offsets of records that wait to be deserialized."""
        return [one.offset for one in self._waiting]

    def make(self) -> ListedRecords:
        """Return the records up to the next that cannot be deserialized, which is tried again."""
        made, self.failure = self._of.convert(self._waiting)
        del self._waiting[: len(made)]
        following = self._waiting[0].offset if self._waiting else self._next_offset
        return ListedRecords(made, following)

    def skip(self) -> None:
        """Leave the record in front out."""
        self.failure = None
        del self._waiting[:1]
