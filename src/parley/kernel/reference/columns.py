"""Growing column buffers, and their readers: the shapes of contract.py in pure Python."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from parley.kernel.contract import (
    MAX_COLUMN_BYTES,
    MAX_SPAN_HEADERS,
    NO_OFFSET_LIMIT,
    Buffer,
    Columns,
    DecodeOptions,
    HeadersColumn,
    KernelError,
    KernelErrorKind,
    VarColumn,
    Want,
)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class VarBuilder:
    """Collects nullable byte strings."""

    __slots__ = ("_data", "_nulls", "_offsets")

    def __init__(self) -> None:
        self._data = bytearray()
        self._offsets = array("i", (0,))
        self._nulls: list[int] = []

    @property
    def size(self) -> int:
        """The bytes of all values."""
        return len(self._data)

    def append(self, value: Buffer | None) -> None:
        """Add one value; None is null."""
        if value is None:
            self._nulls.append(len(self._offsets) - 1)
        else:
            self._data += value
        self._offsets.append(len(self._data))

    def finish(self) -> VarColumn:
        """Return the column."""
        rows = len(self._offsets) - 1
        validity = None
        if self._nulls:
            bitmap = bytearray(b"\xff" * ((rows + 7) // 8))
            if rows % 8:
                # bits after the last row are zero in both kernels
                bitmap[-1] = (1 << (rows % 8)) - 1
            for row in self._nulls:
                bitmap[row >> 3] &= ~(1 << (row & 7))
            validity = bytes(bitmap)
        return VarColumn(validity, self._offsets.tobytes(), bytes(self._data), len(self._nulls))


class ColumnsBuilder:
    """Collects records for the wanted columns."""

    def __init__(self, options: DecodeOptions) -> None:
        want = options.want
        self.rows = 0
        self.first_offset = options.first_offset
        self._end, self._scale = options.end_offset, options.timestamp_scale
        self._offsets = array("q") if want & Want.OFFSETS else None
        self._timestamps = array("q") if want & Want.TIMESTAMPS else None
        self._types = array("i") if want & Want.TIMESTAMP_TYPES else None
        self._key = VarBuilder() if want & Want.KEYS else None
        self._value = VarBuilder() if want & Want.VALUES else None
        self._header_offsets = array("i", (0,)) if want & Want.HEADERS else None
        self._header_keys, self._header_values = VarBuilder(), VarBuilder()
        self._headers = self._most_headers = 0

    def begin_span(self) -> bool:
        """Make ready for another span; return whether the headers leave room for one. Mutates."""
        self._most_headers = self._headers + MAX_SPAN_HEADERS
        return self._headers < MAX_SPAN_HEADERS

    def takes(self, offset: int) -> bool:
        """Return whether a record of this offset is inside the range asked for."""
        return self.first_offset <= offset and (offset < self._end or self._end == NO_OFFSET_LIMIT)

    def append(
        self,
        offset: int,
        timestamp_ms: int,
        timestamp_type: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: list[tuple[bytes, Buffer | None]] | None,
    ) -> None:
        """Add one record."""
        if self._header_offsets is not None and headers:
            self._append_headers(headers)
        self.rows += 1
        if self._offsets is not None:
            self._offsets.append(offset)
        if self._timestamps is not None:
            scaled = timestamp_ms * self._scale
            self._timestamps.append(min(max(scaled, INT64_MIN), INT64_MAX))
        if self._types is not None:
            self._types.append(timestamp_type)
        if self._key is not None:
            self._key.append(key)
        if self._value is not None:
            self._value.append(value)
        if self._header_offsets is not None:
            self._header_offsets.append(self._headers)

    def _append_headers(self, headers: list[tuple[bytes, Buffer | None]]) -> None:
        if self._headers + len(headers) > self._most_headers:
            raise KernelError(KernelErrorKind.TOO_MANY, f"more than {MAX_SPAN_HEADERS} headers")
        for name, content in headers:
            key = name.decode("utf-8", "replace").encode()  # 3 bytes for as little as 1
            if self._header_keys.size + len(key) > MAX_COLUMN_BYTES:
                raise KernelError(KernelErrorKind.TOO_LARGE, "header keys beyond 2 GiB")
            self._header_keys.append(key)
            self._header_values.append(content)
            self._headers += 1

    def finish(self) -> Columns:
        """Return the columns."""
        headers = None
        if self._header_offsets is not None:
            headers = HeadersColumn(
                self._header_offsets.tobytes(),
                self._header_keys.finish(),
                self._header_values.finish(),
                self._headers,
            )
        return Columns(
            rows=self.rows,
            offsets=self._offsets.tobytes() if self._offsets is not None else None,
            timestamps=self._timestamps.tobytes() if self._timestamps is not None else None,
            timestamp_types=self._types.tobytes() if self._types is not None else None,
            key=self._key.finish() if self._key is not None else None,
            value=self._value.finish() if self._value is not None else None,
            headers=headers,
        )


class VarReader:
    """Reads the values of a VarColumn by row."""

    __slots__ = ("_bit_offset", "_data", "_offsets", "_validity")

    def __init__(self, column: VarColumn) -> None:
        self._offsets = memoryview(column.offsets).cast("B").cast("i")
        self._data = memoryview(column.data).cast("B")
        self._validity = None if column.validity is None else memoryview(column.validity).cast("B")
        self._bit_offset = column.bit_offset

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> memoryview | None:
        if self._validity is not None:
            bit = row + self._bit_offset
            if not self._validity[bit >> 3] >> (bit & 7) & 1:
                return None
        return self._data[self._offsets[row] : self._offsets[row + 1]]


def selected(rows: Buffer | None, count: int) -> memoryview | range:
    """Return the row indexes that a call works on: the selection, or all rows."""
    return range(count) if rows is None else memoryview(rows).cast("B").cast("i")


def values(column: VarColumn) -> Iterator[bytes | None]:
    """Yield each value of the column as bytes; for tests and for code where speed is no matter."""
    reader = VarReader(column)
    for row in range(len(reader)):
        value = reader[row]
        yield None if value is None else bytes(value)
