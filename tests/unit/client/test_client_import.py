"""Importing parley stays light, and what it offers is all there."""

import subprocess
import sys

import parley
import parley.client

HEAVY = ("pyarrow", "cramjam", "crc32c", "typer", "rich", "asyncio", "numpy")


def test_import_parley_loads_nothing_heavy():
    code = f"import sys, parley; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_options_need_no_pyarrow():
    code = (
        "import sys, parley.client as c; c.ClientOptions(); c.FetchOptions(); print('pyarrow' in "
        "sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_consumers_need_no_compute_functions():
    code = "import sys; from parley.client import Consumer; print('pyarrow.compute' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_every_public_name_is_there_and_documented():
    for module in (parley, parley.client):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value):
                assert value.__doc__, name
        assert set(module.__all__) <= set(dir(module))
