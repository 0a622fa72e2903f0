"""Which kernel runs, and what that costs."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from parley import kernel


class KernelInfo(NamedTuple):
    """`name`: "rust" or "python"; `reason`: why the reference runs, None if it does not."""

    native: bool
    name: str
    version: str
    reason: str | None


PURE_COST = (
    "records take 20 to 100 times the processor time to read and 5 to 50 times to write, by codec"
)
"""What the pure-Python kernel costs, wherever named; by benchmarks/kernel.py and its --pure."""

NATIVE_REMEDY = (
    "install Rust (https://rustup.rs) and a C compiler, then `PARLEY_KERNEL=native pip install "
    "--force-reinstall --no-deps --no-cache-dir --no-binary kafka-parley kafka-parley`"
)
"""How to come to the compiled kernel where no wheel has it. pip would otherwise take
the wheel of its cache again.
"""


def kernel_info() -> KernelInfo:
    """Return which record kernel this process uses."""
    return KernelInfo(
        kernel.why_reference is None,
        kernel.active.NAME,
        kernel.active.VERSION,
        kernel.why_reference,
    )


_warned = False


def warn_if_pure() -> None:
    """Warn once per process where the pure-Python kernel runs without being asked for."""
    global _warned
    reason = kernel.why_reference
    if reason is None or _warned or reason == kernel.PURE_ASKED:
        return
    _warned = True
    warnings.warn(
        f"parley runs its pure-Python record kernel because {reason}: {PURE_COST}. Remedy: "
        f"{NATIVE_REMEDY}. PARLEY_PURE=1 runs the pure-Python kernel without this warning.",
        RuntimeWarning,
        stacklevel=3,
    )
