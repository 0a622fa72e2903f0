"""Each test of the kernel runs on both implementations."""

from __future__ import annotations

import importlib

import pytest

from parley.kernel.functions import Kernel


@pytest.fixture(params=["reference", "native"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Return one of the two kernels."""
    try:
        found: Kernel = importlib.import_module(f"parley.kernel.{request.param}")
    except ImportError:
        pytest.skip("the compiled kernel is not built")
    return found
