"""Without the native kernel a user is warned once what it costs; who asked
for the pure one is not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from parley.records import NATIVE_REMEDY, PURE_COST

from ...support import GENEROUS_S

WITHOUT_NATIVE = """
import sys
sys.modules["parley.kernel._native"] = None
from parley.records import decode_columns, kernel_info
for _ in range(2):
    assert list(decode_columns(b"", first_offset=0)) == []
print(kernel_info().name)
"""


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PARLEY_PURE", "PYTHONWARNINGS")
    }
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_NATIVE],
        capture_output=True, text=True, timeout=GENEROUS_S, check=True,
        env={**clean, **environment},
    )  # fmt: skip


def test_the_first_use_of_the_pure_kernel_warns_once_and_names_the_remedy() -> None:
    done = run()
    assert done.stdout == "python\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert PURE_COST in done.stderr
    assert NATIVE_REMEDY in done.stderr
    assert "this installation has no compiled one" in done.stderr
    assert "circular import" not in done.stderr


def test_a_compiled_kernel_that_does_not_load_is_named_with_the_reason(tmp_path: Path) -> None:
    """A library for another machine, or one that was cut off, is not the same as none at all."""
    broken = tmp_path / "_native.abi3.so"
    broken.write_bytes(b"not a library")
    program = f"""
import importlib.machinery, importlib.util, sys
spec = importlib.util.spec_from_file_location("parley.kernel._native", {str(broken)!r})
class Finder:
    def find_spec(self, name, path=None, target=None):
        return spec if name == "parley.kernel._native" else None
sys.meta_path.insert(0, Finder())
from parley.records import kernel_info
print(kernel_info().reason)
"""
    clean = {name: value for name, value in os.environ.items() if name != "PARLEY_PURE"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=clean
    )
    assert done.stdout.startswith("the compiled one does not load (")
    assert str(broken) in done.stdout


def test_nobody_is_warned_of_what_they_asked_for() -> None:
    assert run(PARLEY_PURE="1").stderr == ""
