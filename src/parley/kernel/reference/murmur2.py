"""The hash of keys in Java's default partitioner (org.apache.kafka.common.utils, murmur2)."""

from __future__ import annotations

from array import array

from parley.kernel.contract import Buffer, KernelError, KernelErrorKind, VarColumn
from parley.kernel.reference.columns import VarReader, selected

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: Buffer) -> int:
    """Return the hash as an unsigned 32-bit number; Java masks the sign bit away before the modulo.

    >>> murmur2(b"21") - 2**32
    -973932308
    """
    raw = bytes(data)
    h = _SEED ^ len(raw)
    whole = len(raw) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(raw[at : at + 4], "little") * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    tail = raw[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


def murmur2_partitions(key: VarColumn, rows: Buffer | None, count: int, partitions: int) -> Buffer:
    """Return the partition of each selected key as int32, -1 where the key is null."""
    if partitions < 1:
        raise KernelError(KernelErrorKind.ARGUMENT, f"{partitions} partitions cannot be")
    reader = VarReader(key)
    found = array("i")
    for row in selected(rows, count):
        if not 0 <= row < len(reader):
            raise KernelError(
                KernelErrorKind.ARGUMENT, f"row {row} is not among the {len(reader)} rows"
            )
        value = reader[row]
        found.append(-1 if value is None else (murmur2(value) & 0x7FFFFFFF) % partitions)
    return found.tobytes()
