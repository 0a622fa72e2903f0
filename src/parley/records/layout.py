"""Where the header fields of each record format stand, as one table.

All formats share the first 17 bytes far enough to distinguish them: offset (8), size of what
follows (4), four bytes that differ, and the magic.

    at  magic 0             magic 1             magic 2
     0  offset              offset              base offset
     8  size                size                size
    12  CRC-32              CRC-32              partition leader epoch
    16  magic               magic               magic
    17  attributes (1)      attributes (1)      CRC-32C
    18  key                 timestamp (8)         |
    21                        |                 attributes (2)
    26                      key                   see kernel/reference/magic2.py for the rest
"""

from __future__ import annotations

import struct

LOG_OVERHEAD = 12
"""Bytes in front of what the size counts."""

SIZE_AT = 8
MAGIC_AT = 16
MIN_SIZE = {0: 14, 1: 22, 2: 49}
"""The smallest size field by magic: a message of null key and value, a batch without records."""

ENTRY_HEAD = struct.Struct(">qiib")
"""Offset, size, the bytes that differ, magic."""

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, size, leader epoch, magic, CRC-32C, attributes, last offset delta, base timestamp,
max timestamp, producer id, producer epoch, base sequence, record count."""

BATCH_HEADER_BYTES = 61
LEADER_EPOCH_AT = 12
CRC_AT = 17
ATTRIBUTES_AT = 21  # and everything from here on is under the CRC-32C
LAST_OFFSET_DELTA_AT = 23
MAX_TIMESTAMP_AT = 35
LEGACY_TIMESTAMP_AT = 18
PRODUCER_ID_AT = 43

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # the base timestamp is a delete horizon (KIP-534)

CONTROL_KEY = struct.Struct(">hh")
"""Version and type of a control record's key."""

ABORT, COMMIT = 0, 1
"""Control record types of transactions' ends; others are in KRaft logs."""

MARKER_RECORD = struct.Struct(">bbbbbhhbhib")
"""The record of a transaction's end: length, attributes, time and
offset deltas, key length, version and type, value length, version and
coordinator epoch, number of headers. Each varint takes one byte here.
"""

MARKER_BYTES = BATCH_HEADER_BYTES + MARKER_RECORD.size

INT32, INT64, UINT32 = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">I")
PRODUCER_FIELDS = struct.Struct(">qhi")
"""Producer id, producer epoch, base sequence."""
