"""Three seeds of the chaos job: driver, Python worker, planner and broker die,
and every row is there once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.kills
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        (1, "worker,driver"),
        (2, "planner,broker,worker"),
        (3, "driver,broker"),
    ],
)
def test_s01_s02_every_row_is_there_once_whoever_is_killed(seed: int, kinds: str) -> None:
    command = [sys.executable, "-m", "tests.chaos.run", "--seeds", str(seed), "--kinds", kinds]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    cells = [cell.strip() for cell in done.stdout.strip().splitlines()[-1].strip("|").split("|")]
    assert len(cells[2].split(", ")) == len(kinds.split(","))
    assert cells[6:8] == ["0", "0"]
