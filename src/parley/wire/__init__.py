"""Bytes and nothing else: Kafka's primitive types read from and written to buffers.

`Cursor` is the only place that slices foreign bytes field by field, `WriteBuffer` its mirror.

Map: `primitives` are the formats, `cursor` reads them, `buffer` writes them.
"""

from parley.wire.buffer import WriteBuffer
from parley.wire.cursor import Cursor
from parley.wire.primitives import (
    MAX_STRING_BYTES,
    decode_unsigned_varint,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
)

__all__ = [
    "MAX_STRING_BYTES",
    "Cursor",
    "WriteBuffer",
    "decode_unsigned_varint",
    "encode_unsigned_varint",
    "encode_varint",
    "encode_varlong",
]
