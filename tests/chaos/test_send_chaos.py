"""Records sent through moves, kills, cuts and cancellations, at embedded and at real brokers; and
an account that says what is wrong.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from parley.client import RecordMetadata

from .send_account import COLUMNS, Account, Reports, settle

ROOT = Path(__file__).parents[2]


def cells_of(*arguments: str) -> dict[str, str]:
    """Run one seed; return the line of the table by its columns."""
    command = [sys.executable, "-m", "tests.chaos.send", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    cells = done.stdout.strip().splitlines()[-1].strip("|").split("|")
    return dict(zip(COLUMNS, (cell.strip() for cell in cells), strict=True))


@pytest.mark.kills
def test_each_record_sent_to_embedded_brokers_has_its_true_outcome() -> None:
    cells = cells_of("--seeds", "1", "--cancellations", "500", "--kills", "2")
    assert cells["brokers"] == "embedded"
    assert int(cells["acknowledged"]) > 500
    assert int(cells["connections cut"]) > 0


@pytest.mark.real
@pytest.mark.kills
def test_each_record_sent_to_real_brokers_has_its_true_outcome() -> None:
    cells = cells_of("--seeds", "4", "--cancellations", "500", "--kills", "2")
    assert cells["brokers"] == "real 4.3.0"
    assert int(cells["acknowledged"]) > 500
    assert int(cells["connections cut"]) > 0


def settled(log: dict[int, int], **reported: set[int]) -> Account:
    offsets = {number: offset for offset, number in log.items()}
    acknowledged = {
        number: RecordMetadata("t", 0, offsets.get(number, 99), 0)
        for number in reported.pop("acknowledged", {2, 4})
    }
    account = Account(1, "")
    settle(account, Reports(acknowledged=acknowledged, **reported), [log], writers=2)
    return account


def test_the_account_says_what_is_wrong() -> None:
    assert settled({0: 2, 1: 4}).good
    assert settled({0: 2, 1: 3, 2: 4}, in_doubt={3}).good
    assert settled({0: 3, 1: 2, 2: 4}, in_doubt={3}).good  # another sender's
    assert settled({0: 2}).lost == 1
    assert settled({0: 2, 1: 4, 2: 4}).duplicated == 1
    assert settled({0: 4, 1: 2}).reordered == 1
    assert settled({0: 2, 1: 3, 2: 4}, failed={3}).against == 1
    assert settled({0: 2, 1: 3, 2: 4}, not_taken={3}).against == 1
    assert settled({0: 2, 1: 4}, missing={3}).not_reported == 1
    moved = Account(1, "")
    reports = Reports(acknowledged={2: RecordMetadata("t", 0, 1, 0)})
    settle(moved, reports, [{0: 2, 1: 4}], writers=2)
    assert moved.elsewhere == 1
    assert not moved.good
