"""Which kernel runs, and what that costs."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from parley import kernel


class KernelInfo(NamedTuple):
    """`name` is "rust" or "python"; `reason` says why the reference runs, None where it does not."""

    native: bool
    name: str
    version: str
    reason: str | None


def kernel_info() -> KernelInfo:
    """Return which record kernel this process uses."""
    return KernelInfo(kernel.why_reference is None, kernel.active.NAME, kernel.active.VERSION, kernel.why_reference)


_warned = False


def warn_if_pure() -> None:
    """Warn once per process where the pure-Python kernel runs without being asked for."""
    global _warned
    reason = kernel.why_reference
    if reason is None or _warned or reason == kernel.PURE_ASKED:
        return
    _warned = True
    warnings.warn(
        f"parley runs its pure-Python record kernel because {reason}: reading and writing records is "
        "about fifty times slower. Install Rust (rustup.rs) and reinstall kafka-parley; "
        "`parley doctor` tells more.",
        RuntimeWarning,
        stacklevel=3,
    )
