"""Digests of records: what two runs of records have in common if they are the same records.

A record's hash is the kernel's (`record_hashes` in kernel/contract.py). The digest of a run has the
number of records, the sum of their hashes, which forgets their order, and a polynomial of them,
which does not. Digests of adjacent runs join into that of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from parley.kernel import DIGEST_BASE, DIGEST_MODULUS, Buffer, Columns, KernelError, active
from parley.records.failures import translate_encode

_MASK = 2**64 - 1


class RunDigest(NamedTuple):
    """A run of records: how many, the sum of their hashes modulo 2^64, and their polynomial."""

    records: int = 0
    hash_sum: int = 0
    polynomial: int = 0

    def joined(self, after: RunDigest) -> RunDigest:
        """Return the digest of these records and those that come right after them.

        >>> first, second = RunDigest(1, 7, 7), RunDigest(1, 9, 9)
        >>> first.joined(second) == second.joined(first)
        False
        """
        shifted = self.polynomial * pow(DIGEST_BASE, after.records, DIGEST_MODULUS)
        return RunDigest(
            self.records + after.records,
            self.hash_sum + after.hash_sum & _MASK,
            (shifted + after.polynomial) % DIGEST_MODULUS,
        )


def record_hashes(columns: Columns) -> Buffer:
    """Return the hash of each record as uint64; timestamps count where the columns have them."""
    try:
        return active.record_hashes(columns)
    except KernelError as error:
        raise translate_encode(error) from error


def digest_runs(hashes: Buffer, first: int, run: int) -> Iterator[RunDigest]:
    """Yield the digests of runs of hashes: the first of `first` records, the others of `run`."""
    fields = memoryview(active.digest_runs(hashes, first, run)).cast("B").cast("Q")
    for at in range(0, len(fields), 3):
        yield RunDigest(*fields[at : at + 3])
