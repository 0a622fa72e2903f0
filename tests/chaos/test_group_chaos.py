"""A group through kills and a pause, at real brokers and at embedded ones; and an account that says
what is wrong.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .group_account import Account, settle_copies, settle_reads
from .group_diary import Line
from .offsets_topic import Commit, History

ROOT = Path(__file__).parents[2]


def cells_of(*arguments: str) -> list[str]:
    """Run one seed; return the line of the table."""
    command = [sys.executable, "-m", "tests.chaos.groups", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return [cell.strip() for cell in done.stdout.strip().splitlines()[-1].strip("|").split("|")]


@pytest.mark.real
@pytest.mark.kills
def test_every_record_reaches_a_group_whose_member_and_coordinator_are_lost() -> None:
    cells = cells_of("--seeds", "5", "--kinds", "pause,coordinator")
    assert cells[1:3] == ["real 4.3.0", "consumer"]
    assert int(cells[10]) > 0  # who was paused tried to commit
    assert cells[11:14] == ["0", "0", "0"]


@pytest.mark.kills
def test_a_group_copies_each_record_once_though_members_die_or_stand_still() -> None:
    cells = cells_of("--seeds", "1", "--kinds", "member,pause,leader")
    assert cells[1:3] == ["embedded", "cooperative"]
    assert cells[6:8] == ["0", "0"]


DIARY: list[Line] = [
    {"did": "read", "at": 1.0, "records": {"0": [(0, 70), (1, 71)]}},
    {"did": "commits", "at": 2.0, "number": 1, "offsets": {"0": 2}},
    {"did": "committed", "at": 2.1, "number": 1},
]
ID, OTHER = "m0-1/1/an-id", "m0-1/1/another-id"


def settled(
    *commits: tuple[int, str],
    acked: tuple[int, ...] = (70, 71),
    diary: list[Line] = DIARY,
    owners: tuple[str, ...] = ("an-id",),
) -> Account:
    members = frozenset({"an-id", "third-id"})
    made = [Commit(0, offset, tag, members, frozenset(owners)) for offset, tag in commits]
    account = Account(1, "", "", "read", records=len(acked))
    settle_reads(account, {"m0-1": diary}, acked, History(made, 1))
    return account


def test_the_account_of_a_group_that_reads_says_what_is_wrong() -> None:
    assert settled((2, ID)).good
    assert settled((2, ID), owners=()).good
    assert settled((2, ID), acked=(70, 71, 72)).lost == 1
    assert settled((2, ID), owners=("third-id",)).fenced == 1
    assert settled((2, OTHER), owners=()).fenced == 1
    assert settled((2, ID), (1, ID)).went_back == 1
    assert settled((3, ID)).ahead == 1
    assert settled((1, ID)).vanished == 1
    assert settled((2, ID), diary=[*DIARY, *DIARY]).again == 2


def test_the_account_of_a_group_that_copies_says_what_is_wrong() -> None:
    for copies, wrong in [([7, 8], (0, 0)), ([7], (1, 0)), ([7, 8, 8], (0, 1))]:
        account = Account(1, "", "", "copy", records=2)
        settle_copies(account, {"m0-1": [{"did": "committed", "at": 1.0}]}, (7, 8), Counter(copies))
        assert (account.lost, account.again) == wrong
        assert account.good == (wrong == (0, 0))
