"""The control batch that ends a transaction on a partition (KIP-98): one record, no codec."""

from __future__ import annotations

from parley.kernel import active
from parley.records import layout

_ENDS = layout.MARKER_BYTES - layout.LOG_OVERHEAD
_ATTRIBUTES = layout.TRANSACTIONAL | layout.CONTROL


def end_marker(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, *, commit: bool, now_ms: int
) -> bytes:
    """Return the marker at offset 0: key (version 0, type), value (version 0, the epoch)."""
    data = bytearray(layout.MARKER_BYTES)
    layout.BATCH_HEADER.pack_into(
        data,
        0,
        0,
        _ENDS,
        -1,
        2,
        0,
        _ATTRIBUTES,
        0,
        now_ms,
        now_ms,
        producer_id,
        producer_epoch,
        -1,
        1,
    )
    layout.MARKER_RECORD.pack_into(
        data, layout.BATCH_HEADER_BYTES, 32, 0, 0, 0, 8, 0,
        layout.COMMIT if commit else layout.ABORT, 12,
        0, coordinator_epoch, 0,
    )  # fmt: skip
    layout.UINT32.pack_into(
        data, layout.CRC_AT, active.crc32c(memoryview(data)[layout.ATTRIBUTES_AT :])
    )
    return bytes(data)
