"""A disk that is full in the middle of a commit: nothing half visible, and the query goes on later.

A limit of the process on the size of files stands for the disk: what is written beyond it fails, as
on a full disk, after a part is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .queries import Query, rows
from .readers import rows_of, versions_of

PROGRAM = """
    import resource, sys
    from pathlib import Path
    from tests_lakes.queries import Query, rows

    query = Query(Path(sys.argv[1]))
    messages = query.write(1, [rows(100, 5), rows(200, 5)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        query.commit(messages)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("size", [0, 1, 700])
def test_of_a_commit_on_a_full_disk_nothing_is_seen(tmp_path: Path, size: int) -> None:
    query = Query(tmp_path / "table")
    query.run(0, [rows(0, 5)])
    (tmp_path / "tests_lakes").symlink_to(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(query.table), str(size)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert "LakeError" in done.stdout, done.stderr
    assert "did not take batch 1" in done.stdout
    assert len(rows_of(query.table)) == 5
    assert query.run(1, [rows(100, 5), rows(200, 5)])
    assert len(rows_of(query.table)) == 15
    assert set(versions_of(query.table).values()) == {1}
