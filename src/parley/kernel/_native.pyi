"""Types of the compiled kernel (native/src/lib.rs). `native.py` makes the contract's of them."""

from collections.abc import Sequence

from parley.kernel import contract
from parley.kernel.record import ConsumerRecord as ConsumerRecord

VERSION: str

class NativeError(ValueError):
    """args: (kind, detail, span, record)."""

class Buffer:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class RecordCursor:
    def __len__(self) -> int: ...
    def take_one(self) -> ConsumerRecord | None: ...
    def take(self, most: int) -> list[ConsumerRecord]: ...
    @property
    def position(self) -> int: ...

def record_cursor(
    columns: contract.Columns,
    topic: str,
    partition: int,
    epochs: Sequence[tuple[int, int]],
    next_offset: int,
    counts: contract.Buffer | None = None,
) -> RecordCursor: ...

_Var = tuple[Buffer | None, Buffer, Buffer, int]
_Headers = tuple[Buffer, _Var, _Var, int]

def decode(
    data: contract.Buffer, spans: contract.Buffer, options: contract.DecodeOptions
) -> tuple[
    int, Buffer | None, Buffer | None, Buffer | None, _Var | None, _Var | None, _Headers | None, int
]: ...
def cut_batch(
    data: contract.Buffer, start: int, end: int, options: contract.DecodeOptions, most: int
) -> tuple[Buffer, Buffer]: ...
def encode(
    columns: contract.Columns,
    rows: contract.Buffer | None,
    start: int,
    options: contract.EncodeOptions,
) -> tuple[Buffer, int, int]: ...
def scan_batches(
    data: contract.Buffer, start: int, options: contract.ScanOptions
) -> tuple[Buffer, Buffer, int, int, int]: ...
def scan_legacy(
    data: contract.Buffer, start: int, max_entries: int
) -> tuple[int, int, int, int, int, int, int, int] | None: ...
def murmur2_partitions(
    key: contract.VarColumn, rows: contract.Buffer | None, count: int, partitions: int
) -> Buffer: ...
def group_rows(targets: contract.Buffer, partitions: int) -> tuple[Buffer, Buffer]: ...
def bytes_column(values: list[bytes | None]) -> _Var: ...
def crc32c(data: contract.Buffer) -> int: ...
def crc32(data: contract.Buffer) -> int: ...
def compress_bytes(codec: int, data: contract.Buffer, level: int | None, magic: int) -> Buffer: ...
def decompress_bytes(codec: int, data: contract.Buffer, max_bytes: int, magic: int) -> Buffer: ...
