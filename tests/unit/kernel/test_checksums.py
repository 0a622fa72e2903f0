"""Checksums and the partitioner's hash: published check values, and what Java computes."""

from __future__ import annotations

from array import array

import pytest

from parley.kernel.contract import KernelError, KernelErrorKind
from parley.kernel.functions import Kernel
from parley.records import int32s, var_column


def test_crc_check_values(kernel: Kernel) -> None:
    """The check values of the CRC catalogue (ISO-HDLC and iSCSI)."""
    assert kernel.crc32(b"123456789") == 0xCBF43926
    assert kernel.crc32c(b"123456789") == 0xE3069283
    assert kernel.crc32c(b"") == 0
    assert kernel.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert kernel.crc32c(memoryview(bytearray(b"\xff" * 32))) == 0x62A8AB43


# What org.apache.kafka.common.utils.Utils.murmur2 returns, from Kafka's own UtilsTest.
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_murmur2_is_javas(kernel: Kernel) -> None:
    keys = list(JAVA_MURMUR2)
    for partitions in (1, 7, 1000, 2**31 - 1):
        found = int32s(kernel.murmur2_partitions(var_column(keys), None, len(keys), partitions))
        assert list(found) == [(JAVA_MURMUR2[key] & 0x7FFFFFFF) % partitions for key in keys]


def test_null_keys_and_selected_rows(kernel: Kernel) -> None:
    key = var_column([b"21", None, b"", b"abc"])
    assert int32s(kernel.murmur2_partitions(key, None, 4, 10))[1] == -1
    every = list(int32s(kernel.murmur2_partitions(key, None, 4, 10)))
    picked = kernel.murmur2_partitions(key, b"\x03\0\0\0\x01\0\0\0", 4, 10)
    assert list(int32s(picked)) == [every[3], -1]


@pytest.mark.parametrize(
    ("rows", "partitions"), [(b"\x04\0\0\0", 3), (b"\xff\xff\xff\xff", 3), (None, 0)]
)
def test_rows_and_partitions_are_checked(
    kernel: Kernel, rows: bytes | None, partitions: int
) -> None:
    with pytest.raises(KernelError) as caught:
        kernel.murmur2_partitions(var_column([b"a"] * 4), rows, 4, partitions)
    assert caught.value.kind is KernelErrorKind.ARGUMENT


def test_rows_of_a_partition_keep_their_order(kernel: Kernel) -> None:
    order, counts = kernel.group_rows(array("i", [2, 0, 2, 0, 3]).tobytes(), 5)
    assert list(int32s(order)) == [1, 3, 0, 2, 4]
    assert list(int32s(counts)) == [2, 0, 2, 1, 0]


@pytest.mark.parametrize("target", [-1, 5])
def test_a_row_of_no_partition_is_refused(kernel: Kernel, target: int) -> None:
    with pytest.raises(KernelError) as caught:
        kernel.group_rows(array("i", [0, target]).tobytes(), 5)
    assert caught.value.kind is KernelErrorKind.ARGUMENT
