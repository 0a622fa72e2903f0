"""Hostile bytes at both kernels: floods of every kind, bent and unbent, and what they may take."""

from __future__ import annotations

import contextlib
import importlib
import struct
import time
from random import Random
from types import ModuleType

from parley.kernel.contract import DecodeOptions, KernelError, KernelErrorKind, span_table
from parley_laboratory.hostile import codec_shapes, record_shapes
from parley_laboratory.hostile.account import HostileAccount
from parley_laboratory.hostile.mutations import Mutator

LARGEST_BYTES = 2_000
LIMIT_BYTES = 64 * 1024
"""What a batch may decompress to here: the pure kernel is slow, and floods
are floods at any size.
"""

BUDGET_S = {"python": 2.0, "rust": 0.2}
"""Processor time of one call. Ordinary bytes take a hundredth of it, and a quadratic
flood a hundred times as much.
"""

EITHER = frozenset({KernelErrorKind.COMPRESSED, KernelErrorKind.TOO_LARGE})
"""Of bytes that are damaged near the place where they become too many, each
library finds either first.
"""


def kernels() -> list[ModuleType]:
    """Return the kernels that there are: the reference first."""
    found = [importlib.import_module("parley.kernel.reference")]
    with contextlib.suppress(ImportError):
        found.append(importlib.import_module("parley.kernel.native"))
    return found


def attack_kernels(inputs: int, seed: int) -> HostileAccount:
    """Give floods to every kernel, and return what became of each.

    Half of them are bent, some of these with their checksum made true again. Only KernelError may
    come out, of one kind from all kernels; and no call may take longer than its budget.
    """
    rng = Random(seed)
    account, mutator, found = HostileAccount(seed), Mutator(rng), kernels()
    for number in range(inputs):
        flood = _compressed if rng.random() < 0.4 else _record_set
        name, call, data = flood(rng, mutator)
        outcomes: list[int | str] = []
        for kernel in found:
            begun = time.process_time()
            try:
                outcome: int | str = call(kernel, data)
            except KernelError as error:
                outcome = error.kind
            except Exception as error:
                outcome = "breach"
                account.breach(
                    number, f"{kernel.NAME}, {name}: raised {type(error).__name__}: {error}"
                )
            taken_s = time.process_time() - begun
            if taken_s > BUDGET_S[kernel.NAME]:
                account.breach(
                    number, f"{kernel.NAME}, {name}: {len(data)} bytes took {taken_s:.2f} s"
                )
            outcomes.append(outcome)
        if len(set(outcomes)) > 1 and not EITHER.issuperset(outcomes):
            account.breach(number, f"{name}: the kernels differ: {outcomes}")
        account.outcomes["read" if isinstance(outcomes[0], int) else f"refused: {outcomes[0]}"] += 1
    return account.close()


class _Decompress:
    def __init__(self, codec: int, most: int) -> None:
        self._codec, self._most = codec, most

    def __call__(self, kernel: ModuleType, data: bytes) -> int:
        return memoryview(kernel.decompress(self._codec, data, self._most, 2)).nbytes


class _Decode:
    """Decode a span, in pieces where it has too many records; count the rows."""

    def __init__(self, options: DecodeOptions) -> None:
        self._options = options

    def __call__(self, kernel: ModuleType, data: bytes) -> int:
        table = self._spans(kernel, data)
        rows: int = kernel.decode(data, table, self._options).columns.rows
        for at in range(0, len(table), 32):
            start, end = struct.unpack_from("<2q", table, at)
            if data[start + 16] == 2:
                rows += len(bytes(kernel.cut_batch(data, start, end, self._options, 100)[1]))
        return rows

    def _spans(self, kernel: ModuleType, data: bytes) -> bytes:
        spans, at = [], 0
        while at + 17 <= len(data):
            run = None if data[at + 16] == 2 else kernel.scan_legacy(data, at, 100)
            size = 12 + max(0, struct.unpack_from(">i", data, at + 8)[0])
            end = run.end if run else min(len(data), at + size)
            spans.append((at, end))
            at = end
        return span_table(spans)


def _compressed(rng: Random, mutator: Mutator) -> tuple[str, _Decompress, bytes]:
    name = rng.choice(list(codec_shapes.SHAPES))
    codec, make = codec_shapes.SHAPES[name]
    data = make(rng.randrange(1, LARGEST_BYTES))
    return (
        name,
        _Decompress(codec, LIMIT_BYTES),
        mutator.mutated(data) if rng.random() < 0.5 else data,
    )


def _record_set(rng: Random, mutator: Mutator) -> tuple[str, _Decode, bytes]:
    name = rng.choice(list(record_shapes.SHAPES))
    data = record_shapes.SHAPES[name].make(rng.randrange(1, LARGEST_BYTES)).data
    options = DecodeOptions(max_batch_bytes=LIMIT_BYTES, check_crc=rng.random() < 0.5)
    return name, _Decode(options), mutator.mutated(data) if rng.random() < 0.5 else data
