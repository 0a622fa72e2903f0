"""Rows into a topic: Avro with keys and headers, at a pace, with a ledger of acknowledgements."""

from __future__ import annotations

import binascii
import json
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from parley.arrow import HEADERS_TYPE
from parley.pipelines.demo.inputs import ROW_ID, ColumnType, Dataset, Row
from parley.types import Json

if TYPE_CHECKING:
    from parley.client import ProduceResult

ROWS_PER_CHUNK = 2_000
ARROW_TYPES = {
    ColumnType.BIGINT: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.STRING: pa.string(),
}
Encode = Callable[[pa.StructArray], pa.Array]
"""Makes a record's value of each row."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows from `first_row` on, to be produced; `checksums` are CRC-32 of their values."""

    first_row: int
    batch: pa.RecordBatch
    checksums: array[int]


class Ledger:
    """What the brokers have acknowledged: row numbers from 0 up to, not including, `rows`.

    Rows are produced in order, one chunk at a time, so that a number says it all. The checksums are
    what the table is compared with in the end.
    """

    def __init__(self) -> None:
        self.checksums: array[int] = array("L")
        self.idempotent = True

    @property
    def rows(self) -> int:
        """Number of rows acknowledged so far. Safe to ask for from another thread."""
        return len(self.checksums)

    def acknowledge(self, chunk: Chunk, *, idempotent: bool) -> None:
        """Enter a chunk that all brokers concerned have taken."""
        if chunk.first_row != self.rows:
            raise ValueError(f"row {chunk.first_row} was acknowledged, but {self.rows} is next")
        self.checksums.extend(chunk.checksums)
        self.idempotent = self.idempotent and idempotent


class Pace:
    """At most so many rows per second, from the first question on; 0: as fast as it goes."""

    def __init__(self, rows_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rows_per_second = rows_per_second
        self._clock = clock
        self._start: float | None = None

    def wait_seconds(self, rows_done: int) -> float:
        """Return how long to wait before the next rows may go, `rows_done` having gone."""
        if self._start is None:
            self._start = self._clock()
        if self._rows_per_second <= 0:
            return 0.0
        return max(0.0, self._start + rows_done / self._rows_per_second - self._clock())


def row_type(dataset: Dataset) -> pa.StructType:
    """Return the type of a row: its number as `row_id`, by which it is found again, and its columns
    under the names that Avro allows.
    """
    columns = [(dataset.fields[name], ARROW_TYPES[kind]) for name, kind in dataset.columns.items()]
    return pa.struct([(ROW_ID, pa.int64()), *columns])


def chunks(dataset: Dataset, encode: Encode, *, headers: bool = True) -> Iterator[Chunk]:
    """Yield the dataset as record batches with the columns key, value and (where wanted) headers.

    Raises InputError at the first bad line.
    """
    rows = dataset.rows()
    first_row = 0
    # Small inputs go in small chunks too: what happens meanwhile is due at fractions of the rows.
    rows_per_chunk = max(1, min(ROWS_PER_CHUNK, dataset.row_count // 100))
    header = [("source", dataset.path.name.encode()), ("content-type", b"application/avro")]
    while part := list(islice(rows, rows_per_chunk)):
        values = encode(typed_rows(dataset, first_row, part))
        keys = [encode_key(row, dataset.key_columns) for row in part]
        columns = [pa.array(keys, pa.binary()), values]
        names = ["key", "value"]
        if headers:
            columns.append(pa.array([header] * len(part), HEADERS_TYPE))
            names.append("headers")
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        yield Chunk(first_row, batch, checksums(values))
        first_row += len(part)


def checksums(values: pa.Array) -> array[int]:
    """Return the CRC-32 of each value."""
    return array("L", map(binascii.crc32, values.to_pylist()))


def typed_rows(dataset: Dataset, first_row: int, rows: Sequence[Row]) -> pa.StructArray:
    """Return rows, numbered from `first_row` on, as an array of `row_type`."""
    kind = row_type(dataset)
    columns = [pa.array(range(first_row, first_row + len(rows)), pa.int64())]
    for name, column in dataset.columns.items():
        values = [_value(row.get(name), column) for row in rows]
        columns.append(pa.array(values, ARROW_TYPES[column]))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _value(value: Json, column: ColumnType) -> Json:
    """Return a value as its column takes it: what has no other type there is its JSON text."""
    if column is ColumnType.STRING and value is not None and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    if column is ColumnType.DOUBLE and isinstance(value, int):
        return float(value)
    return value


def encode_key(row: Row, key_columns: tuple[str, ...]) -> bytes | None:
    """Return a record key: the key columns' values, None where all of them are missing."""
    values = [row.get(name) for name in key_columns]
    if all(value is None for value in values):
        return None
    return "-".join("" if value is None else str(value) for value in values).encode()


class Feeder(threading.Thread):
    """Produces a dataset in its own thread. `error` holds what ended it early, if so.

    The first chunk goes at once, the others when `may_go_on` says so, at the pace.
    """

    def __init__(
        self,
        dataset: Dataset,
        encode: Encode,
        send: Callable[[pa.RecordBatch], ProduceResult],
        *,
        pace: Pace,
        may_go_on: Callable[[], bool] = lambda: True,
        headers: bool = True,
    ) -> None:
        super().__init__(name="parley-demo-feeder", daemon=True)
        self.ledger = Ledger()
        self.error: BaseException | None = None
        self._dataset = dataset
        self._encode = encode
        self._send = send
        self._pace, self._may_go_on = pace, may_go_on
        self._headers = headers
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            for chunk in chunks(self._dataset, self._encode, headers=self._headers):
                if chunk.first_row and not self._wait_for_turn(chunk.first_row):
                    return
                result = self._send(chunk.batch)
                self.ledger.acknowledge(chunk, idempotent=bool(result.idempotent))
        except BaseException as error:
            self.error = error

    def _wait_for_turn(self, rows_done: int) -> bool:
        """Wait until the next chunk may go; return False where it is to stop."""
        while not self._may_go_on():
            if self._stopping.wait(0.1):
                return False
        return not self._stopping.wait(self._pace.wait_seconds(rows_done))

    @property
    def finished(self) -> bool:
        """Whether everything was produced and acknowledged."""
        return (
            self.ident is not None
            and not self.is_alive()
            and self.ledger.rows == self._dataset.row_count
        )

    def stop(self) -> None:
        """Ask the thread to end after the chunk it is at."""
        self._stopping.set()
