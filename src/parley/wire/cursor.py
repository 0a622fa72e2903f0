"""A bounds-checked reader of Kafka's primitive types.

Rules of this file:
1. Foreign bytes cause RemoteProtocolError and nothing else.
2. A length or count is compared with the bytes that remain before anything is made from it.
3. Byte sequences are returned as slices of the input, never as copies.
"""

from __future__ import annotations

from struct import Struct, error as StructError

from parley.errors import RemoteProtocolError
from parley.wire import primitives
from parley.wire.primitives import MAX_STRING_BYTES


class Cursor:
    """Reads primitive types from `data`, front to back.

    `pos` is the index of the next byte. Every method consumes what it returns. When one raises
    RemoteProtocolError the position is undefined and the message must be given up.
    """

    __slots__ = ("_data", "_end", "pos")

    def __init__(self, data: bytes | bytearray | memoryview, pos: int = 0) -> None:
        view = memoryview(data)
        self._data = view if view.format == "B" and view.ndim == 1 else view.cast("B")
        self._end = len(self._data)
        self.pos = pos

    def remaining(self) -> int:
        """Return the number of bytes not read yet."""
        return self._end - self.pos

    def _read(self, layout: Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._data, self.pos)
        except StructError:
            raise self._short(layout.size) from None
        self.pos += layout.size
        return value  # type: ignore[no-any-return]  # the layouts below hold one integer

    def _short(self, wanted: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"{wanted} bytes are needed at byte {self.pos} but {self.remaining()} are left; "
            "the message is truncated"
        )

    def read_int8(self) -> int:
        """Read a signed 8-bit integer."""
        return self._read(primitives.INT8)

    def read_int16(self) -> int:
        """Read a signed 16-bit integer."""
        return self._read(primitives.INT16)

    def read_int32(self) -> int:
        """Read a signed 32-bit integer."""
        return self._read(primitives.INT32)

    def read_int64(self) -> int:
        """Read a signed 64-bit integer."""
        return self._read(primitives.INT64)

    def read_uint16(self) -> int:
        """Read an unsigned 16-bit integer."""
        return self._read(primitives.UINT16)

    def read_uint32(self) -> int:
        """Read an unsigned 32-bit integer."""
        return self._read(primitives.UINT32)

    def read_float64(self) -> float:
        """Read an IEEE 754 number of 64 bits."""
        return self._read(primitives.FLOAT64)

    def read_bool(self) -> bool:
        """Read a byte: zero is false, every other value true (as Apache Kafka reads it)."""
        return self._read(primitives.INT8) != 0

    def read_uuid(self) -> bytes:
        """Read the 16 bytes of a UUID."""
        return bytes(self.read_raw(16))

    def read_unsigned_varint(self) -> int:
        """Read an unsigned varint of at most 5 bytes."""
        value, self.pos = primitives.decode_unsigned_varint(self._data, self.pos)
        return value

    def read_varint(self) -> int:
        """Read a zigzag varint of at most 5 bytes."""
        return primitives.unzigzag(self.read_unsigned_varint())

    def read_varlong(self) -> int:
        """Read a zigzag varint of at most 10 bytes."""
        value, self.pos = primitives.decode_unsigned_varlong(self._data, self.pos)
        return primitives.unzigzag(value)

    def read_raw(self, size: int) -> memoryview:
        """Return the next `size` bytes as a slice of the input."""
        if not 0 <= size <= self._end - self.pos:
            raise self._short(size)
        start = self.pos
        self.pos = start + size
        return self._data[start : self.pos]

    def skip(self, size: int) -> None:
        """Pass over `size` bytes."""
        self.read_raw(size)

    # Strings and bytes: a length of −1 (compact: 0) is null.

    def read_nullable_string(self) -> str | None:
        """Read a string with an int16 length, or null."""
        return self._text(self.read_int16())

    def read_string(self) -> str:
        """Read a string with an int16 length; null is an error."""
        return self._text_or_fail(self.read_int16())

    def read_compact_nullable_string(self) -> str | None:
        """Read a string with a varint length, or null."""
        return self._text(self.read_unsigned_varint() - 1)

    def read_compact_string(self) -> str:
        """Read a string with a varint length; null is an error."""
        return self._text_or_fail(self.read_unsigned_varint() - 1)

    def read_nullable_bytes(self) -> memoryview | None:
        """Read bytes with an int32 length, or null."""
        return self._bytes(self.read_int32())

    def read_bytes(self) -> memoryview:
        """Read bytes with an int32 length; null is an error."""
        return self._bytes_or_fail(self.read_int32())

    def read_compact_nullable_bytes(self) -> memoryview | None:
        """Read bytes with a varint length, or null."""
        return self._bytes(self.read_unsigned_varint() - 1)

    def read_compact_bytes(self) -> memoryview:
        """Read bytes with a varint length; null is an error."""
        return self._bytes_or_fail(self.read_unsigned_varint() - 1)

    def _text(self, size: int) -> str | None:
        if size == -1:
            return None
        if not 0 <= size <= MAX_STRING_BYTES:
            raise RemoteProtocolError(
                f"a string before byte {self.pos} has the impossible length {size}"
            )
        try:
            return str(self.read_raw(size), "utf-8")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(
                f"the string before byte {self.pos} is not UTF-8: {error.reason}"
            ) from error

    def _text_or_fail(self, size: int) -> str:
        text = self._text(size)
        if text is None:
            raise RemoteProtocolError(
                f"a null string before byte {self.pos}, where null is not allowed"
            )
        return text

    def _bytes(self, size: int) -> memoryview | None:
        if size == -1:
            return None
        if size < -1:
            raise RemoteProtocolError(
                f"bytes before byte {self.pos} have the impossible length {size}"
            )
        return self.read_raw(size)

    def _bytes_or_fail(self, size: int) -> memoryview:
        data = self._bytes(size)
        if data is None:
            raise RemoteProtocolError(
                f"null bytes before byte {self.pos}, where null is not allowed"
            )
        return data

    # Arrays: the caller reads the elements, after the count was found possible.

    def read_array_count(self, element_size: int = 1) -> int:
        """Read an int32 count of an array; −1 means null.

        `element_size` is the least number of bytes that one element takes: a count that the
        remaining bytes cannot hold raises RemoteProtocolError before anything is allocated.
        """
        return self._count(self.read_int32(), element_size)

    def read_compact_array_count(self, element_size: int = 1) -> int:
        """Read a varint count of an array; −1 means null. See `read_array_count`."""
        return self._count(self.read_unsigned_varint() - 1, element_size)

    def _count(self, count: int, element_size: int) -> int:
        if count < -1 or count * element_size > self._end - self.pos:
            raise RemoteProtocolError(
                f"an array before byte {self.pos} claims {count} elements of at "
                f"least {element_size} bytes, but {self.remaining()} bytes are left"
            )
        return count

    def read_numbers(self, count: int, code: str, size: int) -> list[int]:
        """Return `count` numbers of the struct format `code`, each `size` bytes long."""
        data = self.read_raw(count * size)
        return list(Struct(f">{count}{code}").unpack(data))

    def read_tagged_fields(self) -> dict[int, memoryview]:
        """Read a section of tagged fields without interpreting any (KIP-482).

        Raises RemoteProtocolError when tags repeat or do not ascend.
        """
        fields: dict[int, memoryview] = {}
        last = -1
        for _ in range(self.read_unsigned_varint()):
            tag = self.read_unsigned_varint()
            if tag <= last:
                raise RemoteProtocolError(
                    f"tag {tag} follows tag {last} before byte {self.pos}; tags must ascend"
                )
            last = tag
            fields[tag] = self.read_raw(self.read_unsigned_varint())
        return fields
