"""Confluent's framings: the schema's id before the data, or its GUID in a header.

    prefix     00 | id, 4 bytes, big-endian | data
    header     `__value_schema_id` or `__key_schema_id` = 01 | GUID, 16 bytes; the value is the data

For Protobuf (`protobuf=True`) the way to the message type follows the id or the GUID: a count and
as many indexes, as zigzag varints, where a single 00 stands for the first message. Serializers that
write the header leave the prefix out. `Confluent` reads both, as their deserializers do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parley.errors import ConfigError, RemoteProtocolError
from parley.serdes.frames import (
    GUID_BYTES,
    MAX_MESSAGE_INDEXES,
    UINT32,
    Buffer,
    Frame,
    Framed,
    Headers,
    Prefix,
    SchemaGuid,
    SchemaId,
    SchemaRef,
    framing_error,
    header_of,
    number_prefix,
    refuse_indexes,
    view_of,
    wrong_schema,
)
from parley.types import shown
from parley.wire import Cursor
from parley.wire.primitives import encode_varint

MAGIC_ID, MAGIC_GUID = 0, 1
PREFIX_BYTES = 1 + UINT32.size
_FIRST_MESSAGE = b"\x00"
_PREFIX = Prefix(b"\x00", UINT32.size, ref=SchemaId)


def header_name(is_key: bool) -> str:
    """Return the header that names the schema of a record's key or value."""
    return "__key_schema_id" if is_key else "__value_schema_id"


@dataclass(frozen=True, slots=True)
class ConfluentPrefix:
    """The id before the data. `protobuf`: message indexes follow the id."""

    name: ClassVar[str] = "confluent-prefix"
    protobuf: bool = False

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the id and the data. Raises FramingError for bytes without the prefix."""
        view = view_of(data)
        schema = SchemaId(number_prefix(self.name, view, UINT32, "schema id"))
        indexes, start = _indexes(self.name, view, PREFIX_BYTES, self.protobuf)
        return Framed(schema, view[start:], indexes)

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the message. Raises ConfigError unless `schema` is a SchemaId."""
        if not isinstance(schema, SchemaId):
            raise wrong_schema(self.name, schema, "SchemaId")
        way = _encoded(self.name, message_indexes, self.protobuf)
        return Frame(b"".join((b"\x00", UINT32.pack(schema.number), way, payload)))

    def prefix(self, names: Collection[str], *, is_key: bool = False) -> Prefix | None:
        """Return the prefix, if no message indexes follow it."""
        return None if self.protobuf else _PREFIX


@dataclass(frozen=True, slots=True)
class ConfluentHeader:
    """The GUID in a header of the record. `protobuf`: message indexes follow it there."""

    name: ClassVar[str] = "confluent-header"
    protobuf: bool = False

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the GUID and the data. Raises FramingError for records without the header."""
        named = header_name(is_key)
        found = header_of(headers, named)
        view = view_of(data)
        if found is None:
            raise framing_error(self.name, f"the record has no header {named}", view)
        return self._read(view_of(found), view, named)

    def _read(self, header: memoryview, view: memoryview, named: str) -> Framed:
        if len(header) <= GUID_BYTES or header[0] != MAGIC_GUID:
            what = (
                f"the header {named} is no schema GUID: a byte 1 and {GUID_BYTES} bytes are "
                f"expected, {len(header)} bytes are there"
            )
            raise framing_error(self.name, what, header)
        schema = SchemaGuid(bytes(header[1 : 1 + GUID_BYTES]))
        indexes, _ = _indexes(self.name, header, 1 + GUID_BYTES, self.protobuf)
        return Framed(schema, view, indexes)

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the data and the header. Raises ConfigError unless `schema` is a SchemaGuid."""
        if not isinstance(schema, SchemaGuid):
            raise wrong_schema(self.name, schema, "SchemaGuid")
        way = _encoded(self.name, message_indexes, self.protobuf)
        return Frame(bytes(payload), ((header_name(is_key), b"\x01" + schema.raw + way),))


@dataclass(frozen=True, slots=True)
class Confluent:
    """Either: the header if the record has one, else the prefix. Writes what the schema is.

    A header may hold the prefix's form too (byte 0 and an id).
    """

    name: ClassVar[str] = "confluent"
    protobuf: bool = False

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return id or GUID, and the data. Raises FramingError for neither."""
        named = header_name(is_key)
        found = header_of(headers, named)
        if found is None:
            return ConfluentPrefix(self.protobuf).read(data)
        header = view_of(found)
        if len(header) >= PREFIX_BYTES and header[0] == MAGIC_ID:
            said = ConfluentPrefix(self.protobuf).read(header)
            return Framed(said.schema, view_of(data), said.message_indexes)
        return ConfluentHeader(self.protobuf)._read(header, view_of(data), named)

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the prefix for a SchemaId, the header for a SchemaGuid; ConfigError for others."""
        if isinstance(schema, SchemaGuid):
            header = ConfluentHeader(self.protobuf)
            return header.write(payload, schema, is_key=is_key, message_indexes=message_indexes)
        if not isinstance(schema, SchemaId):
            raise wrong_schema(self.name, schema, "SchemaId or SchemaGuid")
        return ConfluentPrefix(self.protobuf).write(
            payload, schema, message_indexes=message_indexes
        )

    def prefix(self, names: Collection[str], *, is_key: bool = False) -> Prefix | None:
        """Return the prefix, where no header says more."""
        return None if self.protobuf or header_name(is_key) in names else _PREFIX


def _indexes(
    name: str, view: memoryview, start: int, protobuf: bool
) -> tuple[tuple[int, ...] | None, int]:
    """Return message indexes and where they end. Raises FramingError for what can be none."""
    if not protobuf:
        return None, start
    cursor = Cursor(view, start)
    try:
        count = cursor.read_varint()
        if count == 0:
            return (0,), cursor.pos
        if not 0 < count <= min(MAX_MESSAGE_INDEXES, cursor.remaining()):
            raise RemoteProtocolError(f"{count} is no number of indexes")
        found = tuple(cursor.read_varint() for _ in range(count))
        if min(found) < 0:
            raise RemoteProtocolError(f"{min(found)} is no index")
    except RemoteProtocolError as error:
        raise framing_error(
            name, f"no message indexes of Protobuf follow the schema id: {error}", view
        ) from error
    return found, cursor.pos


def _encoded(name: str, message_indexes: Sequence[int] | None, protobuf: bool) -> bytes:
    if not protobuf:
        refuse_indexes(name, message_indexes)
        return b""
    indexes = tuple(message_indexes) if message_indexes is not None else (0,)
    if not 0 < len(indexes) <= MAX_MESSAGE_INDEXES or not all(
        isinstance(one, int) and 0 <= one < 2**31 for one in indexes
    ):
        raise ConfigError(
            f"message_indexes={shown(indexes)} is no way to a message: 1 to {MAX_MESSAGE_INDEXES} "
            "whole numbers from 0 on are expected"
        )
    if indexes == (0,):
        return _FIRST_MESSAGE
    return b"".join(map(encode_varint, (len(indexes), *indexes)))
