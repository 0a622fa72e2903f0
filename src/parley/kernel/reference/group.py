"""Rows by partition."""

from __future__ import annotations

from array import array

from parley.kernel.contract import Buffer, KernelError, KernelErrorKind


def group_rows(targets: Buffer, partitions: int) -> tuple[Buffer, Buffer]:
    """Return rows by partition, then in their order, and how many each partition has."""
    if not 0 <= partitions < 2**31:
        raise KernelError(KernelErrorKind.ARGUMENT, f"{partitions} partitions cannot be")
    numbers = memoryview(targets).cast("B").cast("i")
    counts = array("i", bytes(4 * partitions))
    for target in numbers:
        if not 0 <= target < partitions:
            raise KernelError(
                KernelErrorKind.ARGUMENT, f"row of partition {target}, of {partitions}"
            )
        counts[target] += 1
    order = array("i", sorted(range(len(numbers)), key=numbers.__getitem__))
    return order.tobytes(), counts.tobytes()
