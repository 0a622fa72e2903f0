"""AWS Glue's framing: 03 | compression, 00 none or 05 zlib | schema version, 16 bytes | data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from parley.errors import FramingError, RemoteProtocolError
from parley.records.single import deflate, inflate
from parley.serdes.frames import (
    GUID_BYTES,
    Buffer,
    Frame,
    Framed,
    GlueVersion,
    Headers,
    SchemaRef,
    framing_error,
    refuse_indexes,
    view_of,
    wrong_schema,
)

MAGIC, NO_COMPRESSION, ZLIB = 3, 0, 5
PREFIX_BYTES = 2 + GUID_BYTES
DEFAULT_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Glue:
    """The schema version before the data. `compress` says how to write; both are read.

    A message may decompress to `max_bytes`.
    """

    name: ClassVar[str] = "glue"
    compress: bool = False
    max_bytes: int = DEFAULT_MAX_BYTES

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the schema version and the data. Raises FramingError for other bytes."""
        view = view_of(data)
        if len(view) < PREFIX_BYTES or view[0] != MAGIC or view[1] not in (NO_COMPRESSION, ZLIB):
            what = (
                f"a message of {len(view)} bytes has no schema version: {PREFIX_BYTES} are expected"
                if len(view) < PREFIX_BYTES
                else "the message has no schema version: it begins with the bytes "
                f"{view[0]} and {view[1]}, where 3 and 0 or 5 are expected"
            )
            raise framing_error(self.name, what, view)
        schema = GlueVersion(bytes(view[2:PREFIX_BYTES]))
        payload = view[PREFIX_BYTES:]
        if view[1] == ZLIB:
            try:
                payload = memoryview(inflate(payload, self.max_bytes))
            except RemoteProtocolError as error:
                raise FramingError(
                    f"the data cannot be decompressed: {error}", framing=self.name
                ) from error
        return Framed(schema, payload)

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the message. Raises ConfigError unless `schema` is a GlueVersion."""
        refuse_indexes(self.name, message_indexes)
        if not isinstance(schema, GlueVersion):
            raise wrong_schema(self.name, schema, "GlueVersion")
        how = ZLIB if self.compress else NO_COMPRESSION
        body = deflate(payload) if self.compress else payload
        return Frame(b"".join((bytes((MAGIC, how)), schema.raw, body)))
