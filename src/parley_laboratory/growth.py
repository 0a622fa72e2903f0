"""How work and memory grow with the input, measured by the processor's time, so that a
busy machine does not matter.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")

ROUNDS = 5
MAX_SIZE = 2**17
TRIES = 10
LEAST_S = 0.002
"""Below this the processor's clock says nothing: inputs are doubled until the work takes longer."""


def processor_s(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the processor time of the fastest of some rounds."""
    best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            begun = time.process_time()
            work()
            best = min(best, time.process_time() - begun)
    finally:
        gc.enable()
    return best


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most memory that Python objects took beyond what was there before."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        kept = work()
        _, peak = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return peak - before


def grows_linearly(
    make: Callable[[int], T], work: Callable[[T], object], size: int, *, factor: int = 4
) -> None:
    """Assert that `factor` times the input takes at most twice `factor` times the processor time.

    Quadratic work would take `factor` squared. Each is measured again until they fit, TRIES times
    at most, and the fastest of all counts: what runs beside it can only make it slower. Work that
    takes no measurable time at MAX_SIZE passes.
    """
    while processor_s(partial(work, make(size)), 1) < LEAST_S:
        if size >= MAX_SIZE:
            return
        size *= 2
    small, large = partial(work, make(size)), partial(work, make(size * factor))
    one = many = float("inf")
    for _ in range(TRIES):
        one, many = min(one, processor_s(small)), min(many, processor_s(large, 3))
        if many <= 2 * factor * one:
            return
    raise AssertionError(f"{factor} times the input took {many / one:.1f} times the processor time")
