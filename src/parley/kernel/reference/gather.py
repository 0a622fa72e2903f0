"""Records of one topic while they gather, and rows of what has many."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain, repeat

from parley.kernel.contract import (
    MAX_COLUMN_BYTES,
    Columns,
    EncodeOptions,
    HeadersColumn,
    KernelError,
    VarColumn,
)
from parley.kernel.gathering import (
    HEADER_BYTES,
    RECORD_BYTES,
    GatheredBatches,
    GatheredColumns,
    Gatherer,
    HandleT,
    Spread,
)
from parley.kernel.reference.encode import check_format, encode
from parley.kernel.reference.group import group_rows
from parley.kernel.reference.murmur2 import murmur2_partitions
from parley.kernel.reference.rows import bytes_column

Headers = Sequence[tuple[bytes, bytes | None]]
_Gathered = tuple[
    list[bytes | None], list[bytes | None], "array[int]", dict[int, Headers], dict[int, int]
]
"""Values, keys, times, headers and partitions."""


class RowHandle:
    """A row of an object. Made by `row_handle` and `gather` alone, as an instance of a class that
    derives from this one and has no fields of its own (`__slots__ = ()`).
    """

    __slots__ = ("_owner", "_row")
    _owner: object
    _row: int


class RecordGatherer:
    """Records of one topic, from the first until it is closed. Any thread may append.

    Classes that derive from it may take any arguments; it has none.
    """

    __slots__ = (
        "_callbacks", "_guard", "_headers", "_is_open", "_keys", "_partitions", "_room", "_taken",
        "_takes_headers", "_times_ms", "_values", "_where",
    )  # fmt: skip

    def __new__(cls, *_args: object, **_named: object) -> RecordGatherer:
        made = super().__new__(cls)
        made._is_open, made._room, made._taken = True, 0, 0
        made._keys, made._values, made._times_ms = [], [], array("q")
        made._callbacks, made._headers, made._where = None, {}, {}
        made._partitions, made._takes_headers = 0, False
        return made

    _callbacks: list[Callable[..., object] | None] | None
    _guard: AbstractContextManager[object]
    _headers: dict[int, Headers]
    _is_open: bool
    _keys: list[bytes | None]
    _partitions: int
    _room: int
    _taken: int
    _takes_headers: bool
    _times_ms: array[int]
    _values: list[bytes | None]
    _where: dict[int, int]

    def admit(
        self, partitions: int, headers: bool, guard: AbstractContextManager[object], /
    ) -> None:
        """Say which partitions may be named, and whether records may have headers."""
        self._partitions, self._takes_headers, self._guard = partitions, headers, guard

    @property
    def _gathered(self) -> _Gathered:
        return self._values, self._keys, self._times_ms, self._headers, self._where

    @_gathered.setter
    def _gathered(self, gathered: _Gathered) -> None:
        self._values, self._keys, self._times_ms, self._headers, self._where = gathered

    @property
    def room(self) -> int:
        """How many bytes a record may have now; 0 once it is closed."""
        return min(self._room, MAX_COLUMN_BYTES - self._taken) if self._is_open else 0

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self._values)

    @property
    def callbacks(self) -> list[Callable[..., object] | None] | None:
        """The callbacks of the rows, as far as the last one that has one."""
        return self._callbacks

    def unplaced(self, hashed: bool, /) -> int:
        """Return how many records name no partition; with `hashed` of those without a key."""
        return sum(
            row not in self._where and not (hashed and key is not None)
            for row, key in enumerate(self._keys)
        )

    def grant(self, size: int, /) -> None:
        """Let so many bytes more in."""
        self._room += size

    def close(self) -> tuple[int, int]:
        """Let no more records in; return how many there are, and the bytes that none has taken."""
        self._is_open = False
        return len(self._values), self._room

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int,
        timestamp_ms: int,
        callback: Callable[..., object] | None,
        size: int,
    ) -> int:
        """Append a record; return its row, or -1 where it does not fit."""
        with self._guard:
            if not self._is_open or self.room < size:
                return -1
            row = len(self._values)
            self._room -= size
            self._taken += size
            self._values.append(value)
            self._keys.append(key)
            self._times_ms.append(timestamp_ms)
            if headers:
                self._headers[row] = headers
            if partition >= 0:
                self._where[row] = partition
            if callback is not None:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks += [None] * (row - len(self._callbacks))
                self._callbacks.append(callback)
            return row


# size: `gather` is one call for each record that is sent
def gather(
    gatherers: Mapping[str, Gatherer],
    kind: type[HandleT],
    now_s: float,
    topic: object,
    value: object,
    key: object,
    headers: object,
    partition: object,
    timestamp_ms: object,
    callback: object,
) -> HandleT | int | None:
    """Append a record to its topic's gatherer; return its row, what it lacks, or None."""
    if type(topic) is not str:
        return None
    gatherer = gatherers.get(topic)
    if not (value is None or type(value) is bytes) or not (key is None or type(key) is bytes):
        return None
    if timestamp_ms is None:
        time_ms = int(now_s * 1000)
    elif type(timestamp_ms) is int and 0 <= timestamp_ms < 2**63:
        time_ms = timestamp_ms
    else:
        return None
    if callback is not None and not callable(callback):
        return None
    size = RECORD_BYTES + len(value or b"") + len(key or b"")
    if gatherer is None:
        return size if partition is None and headers is None else None
    assert isinstance(gatherer, RecordGatherer)
    where = -1
    if partition is not None:
        if type(partition) is not int or not 0 <= partition < gatherer._partitions:
            return None
        where = partition
    pairs = [] if headers is None else _pairs(headers)
    if pairs is None or (pairs and not gatherer._takes_headers):
        return None
    size += sum(HEADER_BYTES + len(name) + len(content or b"") for name, content in pairs)
    if gatherer.room < size:
        return size
    row = gatherer.append(value, key, pairs, where, time_ms, callback, size)
    return size if row < 0 else row_handle(kind, gatherer, row)


def _pairs(headers: object) -> list[tuple[bytes, bytes | None]] | None:
    """Return the pairs of a list or a tuple of headers as bytes; None where they are not such."""
    if type(headers) is not list and type(headers) is not tuple:
        return None
    pairs = []
    for entry in headers:
        if type(entry) is not tuple or len(entry) != 2 or type(entry[0]) is not str:
            return None
        if not (entry[1] is None or type(entry[1]) is bytes):
            return None
        try:
            pairs.append((entry[0].encode(), entry[1]))
        except UnicodeEncodeError:
            return None
    return pairs


def row_handle(kind: type[HandleT], owner: object, row: int) -> HandleT:
    """Return a row of an object as an instance of a class that derives from RowHandle."""
    if not issubclass(kind, RowHandle):
        raise TypeError("the class does not derive from RowHandle")
    made = kind.__new__(kind)
    made._owner, made._row = owner, row
    return made


def gathered_columns(gatherer: Gatherer) -> GatheredColumns:
    """Return what a closed gatherer holds, and leave nothing in it."""
    assert isinstance(gatherer, RecordGatherer)
    values, keys, times, headers, where = gatherer._gathered
    gatherer._gathered = ([], [], array("q"), {}, {})
    rows = len(values)
    columns = Columns(
        rows=rows,
        timestamps=times.tobytes(),
        key=_column(keys),
        value=_column(values),
        headers=_headers(headers, rows) if headers else None,
    )
    if not where:
        return GatheredColumns(columns, None)
    return GatheredColumns(
        columns, array("i", [where.get(row, -1) for row in range(rows)]).tobytes()
    )


def _column(values: list[bytes | None]) -> VarColumn | None:
    column = bytes_column(values)
    return None if column.null_count == len(values) else column


def _headers(headers: dict[int, Headers], rows: int) -> HeadersColumn:
    ends = array("i", (0,))
    names: list[bytes | None] = []
    values: list[bytes | None] = []
    for row in range(rows):
        for name, value in headers.get(row, ()):
            names.append(name)
            values.append(value)
        ends.append(len(names))
    return HeadersColumn(ends.tobytes(), bytes_column(names), bytes_column(values), len(names))


def encode_gathered(
    work: Sequence[Spread], hash_keys: bool, options: EncodeOptions
) -> list[GatheredBatches | None]:
    """Return the batches of closed gatherers, None for one whose records cannot be written so."""
    check_format(options)
    made: list[GatheredBatches | None] = []
    for gatherer, partitions, runs in work:
        assert isinstance(gatherer, RecordGatherer)
        before = gatherer._gathered
        try:
            made.append(_batches(gatherer, partitions, runs, hash_keys, options))
        except KernelError:
            gatherer._gathered = before
            made.append(None)
    return made


def _batches(
    gatherer: RecordGatherer,
    partitions: int,
    runs: Sequence[tuple[int, int]],
    hash_keys: bool,
    options: EncodeOptions,
) -> GatheredBatches:
    columns, named = gathered_columns(gatherer)
    hashed: Sequence[int] = [-1] * columns.rows
    if hash_keys and columns.key is not None:
        found = murmur2_partitions(columns.key, None, columns.rows, partitions)
        hashed = memoryview(found).cast("B").cast("i")
    where = hashed if named is None else memoryview(named).cast("B").cast("i")
    spread: Iterator[int] = chain.from_iterable([partition] * count for partition, count in runs)
    if partitions == 1 and named is None:
        spread = repeat(0, columns.rows)
    targets = array("i")
    for target, other in zip(where, hashed, strict=True):
        place = target if target >= 0 else other if other >= 0 else next(spread, -1)
        targets.append(place)
    order, counts = group_rows(targets.tobytes(), partitions)
    rows, start = memoryview(order).cast("B"), 0
    groups = []
    for partition, count in enumerate(memoryview(counts).cast("B").cast("i")):
        if count:
            groups.append((partition, start, rows[4 * start : 4 * (start + count)]))
            start += count
    batches = []
    for partition, place, chosen in groups:
        at = 0
        while at < len(chosen) // 4:
            encoded = encode(columns, chosen, at, options)
            batches.append((partition, encoded.data, place + at, encoded.next_start - at))
            at = encoded.next_start
    assert columns.timestamps is not None
    return GatheredBatches(columns.timestamps, order if len(groups) > 1 else None, batches)
