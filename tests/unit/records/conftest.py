"""Each test of the records layer runs on both kernels."""

from __future__ import annotations

import importlib

import pytest

MODULES = ("append", "convert", "decode", "encode", "split")


@pytest.fixture(params=["reference", "native"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make `parley.records` use one of the two kernels."""
    try:
        chosen = importlib.import_module(f"parley.kernel.{request.param}")
    except ImportError:
        pytest.skip("the compiled kernel is not built")
    for name in MODULES:
        monkeypatch.setattr(importlib.import_module(f"parley.records.{name}"), "active", chosen)
    return str(request.param)
