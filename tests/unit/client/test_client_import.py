"""Importing parley stays light, and what it offers is all there."""

import subprocess
import sys
import time

import parley
import parley.client

HEAVY = ("pyarrow", "cramjam", "crc32c", "typer", "rich", "asyncio", "numpy")


def test_import_parley_loads_nothing_heavy():
    code = f"import sys, parley; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_import_parley_takes_less_than_a_fifth_of_a_second():
    code = "import time; t = time.perf_counter(); import parley; print(time.perf_counter() - t)"
    times = []
    for _ in range(3):
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(float(found.stdout))
        if min(times) < 0.2:
            break
    assert min(times) < 0.2, times
    assert time.perf_counter() > 0


def test_options_need_no_pyarrow():
    code = "import sys, parley.client as c; c.ClientOptions(); c.FetchOptions(); print('pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_every_public_name_is_there_and_documented():
    for module in (parley, parley.client):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value):
                assert value.__doc__, name
        assert set(module.__all__) <= set(dir(module))
