"""What both implementations of the kernel offer as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from parley.kernel.contract import (
    BatchScan,
    Buffer,
    Columns,
    Decoded,
    DecodeOptions,
    Encoded,
    EncodeOptions,
    LegacyRun,
    ScanOptions,
    VarColumn,
)
from parley.kernel.gathering import (
    Gather,
    GatheredBatches,
    GatheredColumns,
    Gatherer,
    HandleT,
    Spread,
)
from parley.kernel.record import ConsumerRecord

Place = tuple[str, int, Sequence[tuple[int, int]]]
"""Topic and partition of what was fetched, and its epochs: the position after the last record of
each, and the epoch, in order.
"""


FrontTuple = tuple[int, int, tuple[tuple[int, int], ...]]
"""A scan's `end`, `next_offset` and `epochs`."""


class RecordCursor(Protocol):
    """Decoded records of one partition, handed out one after the other."""

    def __len__(self) -> int:
        """Return how many are left."""

    def take_one(self) -> ConsumerRecord | None:
        """Return the next record, None where none is left."""

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to so many records."""

    @property
    def position(self) -> int:
        """The offset after what was handed out, gaps included; -1 before the first.

        Any thread may read it while another one takes.
        """


class Kernel(Protocol):
    """What both implementations offer as module functions, beside their classes ConsumerRecord,
    RecordGatherer (a Gatherer, from which classes may derive whose arguments it overlooks) and
    RowHandle.
    """

    NAME: str
    VERSION: str

    def decode(self, data: Buffer, spans: Buffer, options: DecodeOptions) -> Decoded:
        """Return the records of a table's spans as columns. Raises KernelError naming the span."""

    def cut_batch(
        self, data: Buffer, start: int, end: int, options: DecodeOptions, most: int
    ) -> tuple[Buffer, Buffer]:
        """Return a span's records as uncompressed spans of up to `most`, and the table of these.

        Every record was looked at. The spans have the batch's own offsets and times; the position
        after each is the one after the largest offset so far, the leader epoch is left at -1.
        Decode them without looking at checksums: these are not made again. Of `options` the limits
        and `check_crc` count. Raises KernelError; ARGUMENT for a run of uncompressed magic-0/1
        messages.
        """

    def record_cursor(
        self,
        columns: Columns,
        topic: str,
        partition: int,
        epochs: Sequence[tuple[int, int]],
        next_offset: int,
        counts: Buffer | None = None,
    ) -> RecordCursor:
        """Return the records of columns that a decode made in milliseconds.

        `epochs` has the position after the last record of each leader epoch, and the epoch, in
        order. `next_offset` is the position after the last record. `counts` has an int32 for each
        row: its delivery count, or 0 for a record that is not handed out.
        """

    def first_records(
        self, fetches: Sequence[tuple[Buffer, int, Place]], options: DecodeOptions
    ) -> Sequence[RecordCursor | None]:
        """Return the first records of each fetch from its position on, as far as a decode with
        these options goes; None where it has to be looked at step by step: it has none, or
        something is wrong with it.

        Transactions that were aborted are not left out. `options` is that of each fetch but for
        the offsets. The list ends with the fetch that makes it `max_rows` records altogether.
        """

    @property
    def gather(self) -> Gather:
        """Append a record to its topic's RecordGatherer; return its row."""

    def row_handle(self, kind: type[HandleT], owner: object, row: int) -> HandleT:
        """Return a row of an object as an instance of a class that derives from RowHandle."""

    def gathered_columns(self, gatherer: Gatherer) -> GatheredColumns:
        """Return what a closed RecordGatherer holds, and leave nothing in it."""

    def encode_gathered(
        self, work: Sequence[Spread], hash_keys: bool, options: EncodeOptions
    ) -> list[GatheredBatches | None]:
        """Return the batches of closed gatherers, each with the offsets from `base_offset` on, and
        leave nothing in them.

        A record goes to the partition that it names; with `hash_keys` to Java's default partition
        of its key; else where its topic's records are spread. None for a gatherer whose records
        cannot be written so: it keeps them. Raises KernelError for a format or a codec that there
        is not.
        """

    def scan_batches(self, data: Buffer, start: int, options: ScanOptions) -> BatchScan:
        """Return the batches from byte `start` on. Never raises for foreign bytes."""

    def follow_fronts(self, fetches: Sequence[Buffer], max_epochs: int) -> Sequence[FrontTuple]:
        """Return of each fetch where the whole batches end that a scan of as many epochs passes,
        and what it says of them. Never raises for foreign bytes.
        """

    def encode(
        self, columns: Columns, rows: Buffer | None, start: int, options: EncodeOptions
    ) -> Encoded:
        """Return one batch of selected rows (int32 indexes; None = all) from position `start`."""

    def scan_legacy(self, data: Buffer, start: int, max_entries: int) -> LegacyRun | None:
        """Return the span that begins at `start`; None without a whole magic-0/1 message."""

    def murmur2_partitions(
        self, key: VarColumn, rows: Buffer | None, count: int, partitions: int
    ) -> Buffer:
        """Return Java's default partition of each key as int32, -1 for null keys."""

    def group_rows(self, targets: Buffer, partitions: int) -> tuple[Buffer, Buffer]:
        """Return the rows (int32) by their partition and then in their order, and the count (int32)
        of each partition.

        `targets` holds the partition of each row as int32. Raises KernelError ARGUMENT for one
        outside [0, partitions), and for a number of partitions that is no int32 or is negative.
        """

    def record_hashes(self, columns: Columns) -> Buffer:
        """Return the hash of each record as uint64: XXH64, with the seed 0, of its digest form.

        The form is, in little-endian numbers: the timestamp (int64; left out without that column),
        the key, the value, the number of headers (int32), and each header's key and value. A key or
        value is its length (int32; -1 for null, and without its column) and its bytes. Offsets and
        timestamp types do not matter. Raises KernelError ARGUMENT for columns that are not whole.
        """

    def digest_runs(self, hashes: Buffer, first: int, run: int) -> Buffer:
        """Return three uint64 for each run of hashes: their number, their sum modulo 2^64, and
        their polynomial.

        The first run has `first` hashes, each other one `run`, and the last one what is left. The
        polynomial of h1 ... hn is the sum of hi * DIGEST_BASE^(n - i) modulo DIGEST_MODULUS.
        Raises KernelError ARGUMENT for a run of less than one.
        """

    def bytes_column(self, values: list[bytes | None]) -> VarColumn:
        """Return the column of a list of bytes and None, which nobody may change meanwhile.

        Raises KernelError ARGUMENT for anything else in it, TOO_LARGE beyond MAX_COLUMN_BYTES;
        `record` is the row.
        """

    def crc32c(self, data: Buffer) -> int:
        """Return the CRC-32C (Castagnoli) of the bytes."""

    def crc32(self, data: Buffer) -> int:
        """Return the CRC-32 of the bytes (magic 0 and 1)."""

    def compress(self, codec: int, data: Buffer, level: int | None, magic: int) -> Buffer:
        """Return the bytes compressed as the format wants them (lz4 of magic 0: KIP-57)."""

    def decompress(self, codec: int, data: Buffer, max_bytes: int, magic: int) -> Buffer:
        """Return the decompressed bytes. Raises KernelError TOO_LARGE beyond `max_bytes`."""
