"""The per-record kernel: batches of magic 0, 1 and 2 to Arrow-layout column buffers and back.

The compiled kernel is picked where it was built, the pure-Python reference otherwise, or always
with PARLEY_PURE=1 in the environment. Only `records` imports this package.

Map: `contract` says what a kernel keeps to, and what it takes and gives; `gathering` says that of
records that gather, and `functions` lists what it does. `record` is what a record is, and `listed`
hands out those of a list; `native` is the compiled one, `reference` the one in Python.
`zlib_stream` is for single messages.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from parley.kernel.contract import (
    DIGEST_BASE,
    DIGEST_MODULUS,
    MAX_COLUMN_BYTES,
    MAX_CONTROL_RECORDS,
    MAX_FRAMES,
    MAX_RUN,
    MAX_SPAN_HEADERS,
    NO_OFFSET_LIMIT,
    SPAN_FIELDS,
    BatchScan,
    Buffer,
    Codec,
    Columns,
    Decoded,
    DecodeOptions,
    Encoded,
    EncodeOptions,
    HeadersColumn,
    KernelError,
    KernelErrorKind,
    LegacyRun,
    ScanOptions,
    TimestampType,
    VarColumn,
    Want,
    batch_limit,
    span_table,
)
from parley.kernel.functions import FrontTuple, Kernel, RecordCursor
from parley.kernel.gathering import (
    HEADER_BYTES,
    RECORD_BYTES,
    GatheredBatches,
    GatheredColumns,
    Spread,
)
from parley.kernel.listed import ListedRecords

__all__ = [
    "DIGEST_BASE",
    "DIGEST_MODULUS",
    "HEADER_BYTES",
    "MAX_COLUMN_BYTES",
    "MAX_CONTROL_RECORDS",
    "MAX_FRAMES",
    "MAX_RUN",
    "MAX_SPAN_HEADERS",
    "NO_OFFSET_LIMIT",
    "PURE_ASKED",
    "RECORD_BYTES",
    "SPAN_FIELDS",
    "BatchScan",
    "Buffer",
    "Codec",
    "Columns",
    "ConsumerRecord",
    "DecodeOptions",
    "Decoded",
    "EncodeOptions",
    "Encoded",
    "FrontTuple",
    "GatheredBatches",
    "GatheredColumns",
    "HeadersColumn",
    "Kernel",
    "KernelError",
    "KernelErrorKind",
    "LegacyRun",
    "ListedRecords",
    "RecordCursor",
    "RecordGatherer",
    "RowHandle",
    "ScanOptions",
    "Spread",
    "TimestampType",
    "VarColumn",
    "Want",
    "active",
    "batch_limit",
    "span_table",
    "why_reference",
]


PURE_ASKED = "PARLEY_PURE is set"


def _pick() -> tuple[Kernel, str | None]:
    if os.environ.get("PARLEY_PURE", "") not in ("", "0"):
        return _reference(), PURE_ASKED
    try:
        # By its full name: `from parley.kernel import _native`
        # would blame a circular import for a missing file.
        importlib.import_module("parley.kernel._native")
        import parley.kernel.native as native
    except ModuleNotFoundError as error:
        if error.name != "parley.kernel._native":
            raise
        return _reference(), "this installation has no compiled one"
    except ImportError as error:
        return _reference(), f"the compiled one does not load ({error})"
    return native, None


def _reference() -> Kernel:
    from parley.kernel import reference  # only where it is used: Spark's tasks pay for each import

    return reference


active: Kernel
"""The kernel that this process uses."""

why_reference: str | None
"""Why the reference runs, or None where the compiled kernel does."""

active, why_reference = _pick()

if TYPE_CHECKING:
    from parley.kernel.record import ConsumerRecord
    from parley.kernel.reference.gather import RecordGatherer, RowHandle
else:
    ConsumerRecord = active.ConsumerRecord
    RecordGatherer, RowHandle = active.RecordGatherer, active.RowHandle
