"""The per-record kernel's contract: rules, buffer shapes, limits and error kinds.

Two implementations fulfil it: `parley.kernel.reference` (pure Python, the oracle) and
`parley.kernel.native` (Rust). For equal arguments both return equal buffers, and raise KernelError
with equal `kind` and `span`; only the bytes that compressors write may differ.

Rules

1. Buffers are flat, little-endian and speak the buffer protocol as bytes; `memoryview(b).cast("q")`
   views int64, `"i"` int32. A VarColumn is Arrow's binary layout: an optional validity bitmap
   (least significant bit first, None = no nulls), rows + 1 int32 offsets, and the data.
2. A *span* is the byte range of one whole magic-2 batch, of one compressed magic-0/1 message, or of
   a run of uncompressed magic-0/1 messages. A *span table* holds four int64 per span: start, end,
   the position after it (-1 where that does not matter), its leader epoch. A scan (BatchScan)
   decides which batches are shown.
3. Each length and count is checked against the bytes that remain before anything is allocated; a
   negative length other than -1 is malformed; decompression stops at its limit; compressed sets
   nest one level only. Foreign bytes can cause KernelError and nothing else.
4. Work grows linearly with the bytes given and the bytes they may decompress to, whatever they say.
5. The kernel keeps no state between calls, but for RecordGatherer and RecordCursor, and the native
   one releases the GIL: a caller must not change `data` before the call returns.
6. Of bytes that are damaged and would become too large, an announced size counts first, then damage
   to the headers of zstd's blocks, then damage up to one block (lz4) or 128 KiB (gzip, zstd) beyond
   the limit, then the limit. Where gzip data is damaged just where those 128 KiB end, the two may
   differ (COMPRESSED or TOO_LARGE): their libraries look ahead differently.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Anything that speaks the buffer protocol (typing has no name for it before Python 3.12)."""

NO_OFFSET_LIMIT = 2**63 - 1
MAX_COLUMN_BYTES = 2**31 - 1
"""Arrow's int32 offsets end here, and so does every decompressed batch."""

MAX_SPAN_HEADERS = 1 << 20
"""Headers in one decode of a span: a batch with more is cut, a record refused."""

MAX_FRAMES = 1024
"""Frames of lz4 or members of gzip that one batch may have; producers write one."""

DEFAULT_BATCH_LIMIT = 64 * 1024 * 1024
DEFAULT_BATCH_RATIO = 64
"""A batch may decompress to max(64 MiB, 64 x its compressed size) unless a limit is given."""


class Codec(IntEnum):
    """Compression codecs, numbered as in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_LEVELS = {Codec.GZIP: (1, 9, 6), Codec.LZ4: (1, 17, 1), Codec.ZSTD: (-131_072, 22, 3)}
"""Least and largest level, and the one meant by None. Snappy has none. lz4's 1 is its fast
compressor, which Java uses by default, the others its high-compression one.
"""


class Want(IntFlag):
    """The columns a decode fills; a column not wanted costs no copy and comes back as None."""

    NOTHING = 0
    OFFSETS = 1
    TIMESTAMPS = 2
    TIMESTAMP_TYPES = 4
    KEYS = 8
    VALUES = 16
    HEADERS = 32
    ALL = 63


class TimestampType(IntEnum):
    """What a record's timestamp means; NONE where the format has none (magic 0)."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class KernelErrorKind(StrEnum):
    """What is wrong. An encode's ARGUMENT and TOO_LARGE are the caller's, the rest the bytes'."""

    MALFORMED = "malformed"  # a length, varint or structure does not fit its frame
    CRC = "crc"  # the checksum does not match
    COUNT = "count"  # the announced record count cannot be or is not true
    MAGIC = "magic"  # a format version that does not exist or may not stand here
    CODEC = "codec"  # a codec that does not exist or may not stand in this format
    COMPRESSED = "compressed"  # the compressed bytes are damaged
    TOO_LARGE = "too large"  # decompresses (or encodes) beyond the limit
    NESTED = "nested"  # a compressed set inside a compressed set
    # a span has more records or headers than one decode may hold: it has to be cut
    TOO_MANY = "too many"
    ARGUMENT = "argument"  # the caller's columns or options cannot be encoded


class KernelError(Exception):
    """A kernel call failed; `span` and `record` say where (indexes, -1 where they do not apply)."""

    def __init__(
        self, kind: KernelErrorKind, detail: str, *, span: int = -1, record: int = -1
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.span = span
        self.record = record


@dataclass(frozen=True, slots=True)
class VarColumn:
    """A column of nullable byte strings in Arrow's binary layout.

    `bit_offset` is where row 0 stands in `validity` (columns cut out of an Arrow batch); `offsets`
    always begins with row 0, and its first value need not be 0.
    """

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    null_count: int = 0
    bit_offset: int = 0


@dataclass(frozen=True, slots=True)
class HeadersColumn:
    """Arrow's list<struct<key, value>>: rows + 1 int32 offsets into the columns of keys and values.

    Keys are UTF-8 and never null; malformed UTF-8 is replaced by U+FFFD, as Java does.
    """

    offsets: Buffer
    keys: VarColumn
    values: VarColumn
    count: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as flat buffers; a column is None where it was not wanted (or is not given).

    `timestamps` are in the unit that the decode was asked for (milliseconds by default), `offsets`
    int64, `timestamp_types` int32 (Spark's type) with the values of TimestampType.
    """

    rows: int
    offsets: Buffer | None = None
    timestamps: Buffer | None = None
    timestamp_types: Buffer | None = None
    key: VarColumn | None = None
    value: VarColumn | None = None
    headers: HeadersColumn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """What to decode and within which limits.

    Records outside [first_offset, end_offset) are left out, and those of a span that lie below the
    position after the span before it: offsets never go back. NO_OFFSET_LIMIT leaves no offset out,
    not even its own. A decode stops before the span that would pass `max_rows` or `max_bytes`
    (decompressed record bytes), but never before one span is done; it stops as well where it holds
    MAX_SPAN_HEADERS headers. `max_batch_bytes` bounds one decompressed batch; 0 means the default
    rule. A batch of more than `max_span_rows` records, or of more than MAX_SPAN_HEADERS wanted
    headers, fails with TOO_MANY: cut it. (A run of uncompressed magic-0/1 messages is as long as
    its scan let it be.) `timestamp_scale` multiplies milliseconds (1000: Spark's microseconds),
    saturating at int64.
    """

    first_offset: int = 0
    end_offset: int = NO_OFFSET_LIMIT
    want: int = int(Want.ALL)
    timestamp_scale: int = 1
    check_crc: bool = True
    max_rows: int = MAX_COLUMN_BYTES
    max_bytes: int = MAX_COLUMN_BYTES
    max_batch_bytes: int = 0
    max_span_rows: int = MAX_COLUMN_BYTES


@dataclass(frozen=True, slots=True)
class Decoded:
    """The columns, and how many of the given spans they hold."""

    columns: Columns
    spans_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeOptions:
    """The header facts of the batch to write, and its bounds.

    `max_bytes` bounds the batch before compression (one record is always written). `timestamp_ms`
    serves where the columns have no timestamps. `log_append_time_ms` marks LogAppendTime. `level`
    None is the codec's default. Where the columns have offsets these are kept, else records count
    up from `base_offset`.
    """

    magic: int = 2
    codec: int = 0
    level: int | None = None
    max_bytes: int = MAX_COLUMN_BYTES
    max_records: int = MAX_COLUMN_BYTES
    base_offset: int = 0
    timestamp_ms: int = -1
    log_append_time_ms: int | None = None
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class Encoded:
    """One whole batch (magic 2) or message set (magic 0/1).

    `next_start` is the index (into the selection) of the first row that is not in it.
    """

    data: Buffer
    next_start: int
    max_timestamp_ms: int


SPAN_FIELDS = 4


def span_table(spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the table of spans whose positions do not matter."""
    return array("q", [field for start, end in spans for field in (start, end, -1, -1)]).tobytes()


MAX_RUN = 4096
"""Uncompressed messages of magic 0 and 1 in one span of a scan, at most."""

MAX_CONTROL_RECORDS = 1024
"""Brokers write one record into a control batch; all are looked at for the first."""

DIGEST_MODULUS = 2**61 - 1
DIGEST_BASE = 0x1E37_79B9_7F4A_7C1A
"""A primitive root of that prime: swapped records count, however far apart they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """From which position to which, and how many runs of batches of one leader epoch at most.

    `aborted` holds the aborted transactions as pairs of int64, producer id and first offset, in any
    order.
    """

    position: int = 0
    end_offset: int = NO_OFFSET_LIMIT
    max_epochs: int = MAX_COLUMN_BYTES
    aborted: Buffer = b""


@dataclass(frozen=True, slots=True)
class BatchScan:
    """The batches from a byte position on, as their headers describe them; little is checked.

    `table` has the batches, and runs of messages of magic 0 and 1, that show records. Those that
    end below the position are passed over; those without records, control batches, and batches of
    aborted transactions only move the position: the last span's, where there is one. An aborted
    transaction ends with its abort marker, which is the only batch that is opened.

    The scan ends at `end`: before the first batch that is not whole, whose offsets cannot be, or
    which is a damaged marker that matters; before one that begins at or behind the end offset (the
    position is then the end offset); before one of too many epochs. `epochs` has pairs of int64 for
    each run of batches of one leader epoch (-1 for magic 0 and 1): the position after the last of
    them, and the epoch. `leader_epoch` is that of the last batch.
    """

    table: Buffer
    epochs: Buffer
    end: int
    next_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LegacyRun:
    """One span of magic-0/1 messages: a single compressed one, or a run of uncompressed ones."""

    end: int
    magic: int
    codec: int
    entries: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    timestamp_type: int


def batch_limit(compressed_bytes: int, max_batch_bytes: int) -> int:
    """Return how many bytes a batch may decompress to."""
    limit = max_batch_bytes or max(DEFAULT_BATCH_LIMIT, DEFAULT_BATCH_RATIO * compressed_bytes)
    return min(limit, MAX_COLUMN_BYTES)
