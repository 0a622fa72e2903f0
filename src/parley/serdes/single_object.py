"""Avro's single-object encoding: C3 01 | fingerprint, 8 bytes, little-endian | data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

from parley.serdes.frames import (
    Buffer,
    Fingerprint,
    Frame,
    Framed,
    Headers,
    Prefix,
    SchemaRef,
    framing_error,
    refuse_indexes,
    view_of,
    wrong_schema,
)

MARKER = b"\xc3\x01"
_FINGERPRINT = Struct("<Q")
PREFIX_BYTES = len(MARKER) + _FINGERPRINT.size
_PREFIX = Prefix(MARKER, _FINGERPRINT.size, little=True, ref=Fingerprint)


@dataclass(frozen=True, slots=True)
class SingleObject:
    """The schema's fingerprint before the data; `parley.serdes.fingerprint.rabin` computes it."""

    name: ClassVar[str] = "single-object"

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the fingerprint and the data. Raises FramingError for other bytes."""
        view = view_of(data)
        if len(view) < PREFIX_BYTES or view[:2] != MARKER:
            what = (
                f"a message of {len(view)} bytes has no fingerprint: {PREFIX_BYTES} are expected"
                if len(view) < PREFIX_BYTES
                else "the message has no fingerprint: it does not begin with the bytes c3 01"
            )
            raise framing_error(self.name, what, view)
        return Framed(Fingerprint(_FINGERPRINT.unpack_from(view, 2)[0]), view[PREFIX_BYTES:])

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the message. Raises ConfigError unless `schema` is a Fingerprint."""
        refuse_indexes(self.name, message_indexes)
        if not isinstance(schema, Fingerprint):
            raise wrong_schema(self.name, schema, "Fingerprint")
        return Frame(b"".join((MARKER, _FINGERPRINT.pack(schema.number), payload)))

    def prefix(self, names: Collection[str], *, is_key: bool = False) -> Prefix | None:
        """Return the marker and the fingerprint."""
        return _PREFIX
