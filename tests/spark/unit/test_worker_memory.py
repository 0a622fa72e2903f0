"""Spark's workers are spared the collector's walk over what was imported; a
user's process is left alone.
"""

from __future__ import annotations

import gc
import importlib.machinery
import sys

import pytest

from parley.spark import worker_memory


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: found.append(worker_memory._calls))
    monkeypatch.setattr(worker_memory, "_calls", 0)
    return found


def test_a_worker_settles_at_its_second_use_and_each_time_that_number_doubles(
    frozen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # what runs as `python -m pyspark.daemon`
    spec = importlib.machinery.ModuleSpec("pyspark.daemon", None)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    for _ in range(20):
        worker_memory.settle_memory()
    assert frozen == [2, 4, 8, 16]


def test_the_memory_of_a_users_program_is_its_own(frozen: list[int]) -> None:
    for _ in range(4):
        worker_memory.settle_memory()
    assert frozen == []
