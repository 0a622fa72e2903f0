"""Apicurio's own framings: an id of 8 bytes before the data, or in a header.

    prefix     00 | id, 8 bytes, big-endian | data
    headers    `apicurio.value.globalId` or `apicurio.value.contentId` (for keys: `.key.`), 8 bytes

Its serializers of release 3 write Confluent's prefix with a content id by default: read
those with Confluent's framing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parley.serdes.frames import (
    UINT64,
    Buffer,
    ContentId,
    Frame,
    Framed,
    GlobalId,
    Headers,
    Prefix,
    SchemaRef,
    framing_error,
    header_of,
    number_prefix,
    refuse_indexes,
    view_of,
    wrong_schema,
)

PREFIX_BYTES = 1 + UINT64.size


@dataclass(frozen=True, slots=True)
class ApicurioPrefix:
    """The id before the data. The bytes do not say which id: `content_ids` does."""

    name: ClassVar[str] = "apicurio"
    content_ids: bool = False

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the id and the data. Raises FramingError for bytes without the prefix."""
        view = view_of(data)
        number = number_prefix(self.name, view, UINT64, "id")
        kind = ContentId if self.content_ids else GlobalId
        return Framed(kind(number), view[PREFIX_BYTES:])

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the message. Raises ConfigError for a schema of another kind."""
        refuse_indexes(self.name, message_indexes)
        kind = ContentId if self.content_ids else GlobalId
        if not isinstance(schema, kind):
            raise wrong_schema(self.name, schema, kind.__name__)
        return Frame(b"".join((b"\x00", UINT64.pack(schema.number), payload)))

    def prefix(self, names: Collection[str], *, is_key: bool = False) -> Prefix | None:
        """Return the prefix."""
        return Prefix(b"\x00", UINT64.size, ref=ContentId if self.content_ids else GlobalId)


@dataclass(frozen=True, slots=True)
class ApicurioHeaders:
    """The id in a header, which says what kind it is; the value is the data."""

    name: ClassVar[str] = "apicurio-headers"

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the id and the data. Raises FramingError for records without such a header."""
        view, known = view_of(data), list(headers)
        for kind, suffix in ((GlobalId, "globalId"), (ContentId, "contentId")):
            name = _header(suffix, is_key)
            found = header_of(known, name)
            if found is None:
                continue
            raw = view_of(found)
            if len(raw) != UINT64.size:
                what = f"the header {name} has {len(raw)} bytes, 8 are expected"
                raise framing_error(self.name, what, raw)
            return Framed(kind(UINT64.unpack(raw)[0]), view)
        names = " or ".join(_header(suffix, is_key) for suffix in ("globalId", "contentId"))
        raise framing_error(self.name, f"the record has no header {names}", view)

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return data and header. Raises ConfigError unless `schema` is one of Apicurio's ids."""
        refuse_indexes(self.name, message_indexes)
        if not isinstance(schema, GlobalId | ContentId):
            raise wrong_schema(self.name, schema, "GlobalId or ContentId")
        suffix = "globalId" if isinstance(schema, GlobalId) else "contentId"
        return Frame(bytes(payload), ((_header(suffix, is_key), UINT64.pack(schema.number)),))


def _header(suffix: str, is_key: bool) -> str:
    return f"apicurio.{'key' if is_key else 'value'}.{suffix}"
