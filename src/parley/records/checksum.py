"""Whether a batch's bytes are those that were written: the CRC alone, no record is looked at.

The CRC-32 of anything else, too.
"""

from __future__ import annotations

from parley.kernel import Buffer, active
from parley.records import layout


def crc32(data: Buffer) -> int:
    """Return the CRC-32 of the bytes."""
    return int(active.crc32(data))


def crc_is_right(batch: Buffer) -> bool:
    """Return whether one whole batch (or one message of magic 0 or 1) has the CRC that it states.

    The offset, size and leader epoch of a batch are outside of it. Bytes too short for a header are
    wrong.
    """
    view = memoryview(batch).cast("B")
    if len(view) < layout.LOG_OVERHEAD + layout.MIN_SIZE[0]:
        return False
    if view[layout.MAGIC_AT] == 2:
        if len(view) < layout.BATCH_HEADER_BYTES:
            return False
        (stated,) = layout.UINT32.unpack_from(view, layout.CRC_AT)
        return bool(active.crc32c(view[layout.ATTRIBUTES_AT :]) == stated)
    (stated,) = layout.UINT32.unpack_from(view, layout.LOG_OVERHEAD)
    return bool(active.crc32(view[layout.MAGIC_AT :]) == stated)
