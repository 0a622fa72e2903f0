"""Without the native kernel a user is told once what it costs; who asked for the pure one is not."""

from __future__ import annotations

import os
import subprocess
import sys

WITHOUT_NATIVE = """
import sys
sys.modules["parley.kernel._native"] = None
from parley.records import decode_columns, kernel_info
for _ in range(2):
    assert list(decode_columns(b"", first_offset=0)) == []
print(kernel_info().name)
"""


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PARLEY_PURE", "PYTHONWARNINGS")}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_NATIVE],
        capture_output=True, text=True, timeout=60, check=True, env={**clean, **environment},
    )  # fmt: skip


def test_the_first_use_of_the_pure_kernel_warns_once_and_names_the_remedy() -> None:
    done = run()
    assert done.stdout == "python\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert "Install Rust" in done.stderr


def test_nobody_is_warned_of_what_they_asked_for() -> None:
    assert run(PARLEY_PURE="1").stderr == ""
