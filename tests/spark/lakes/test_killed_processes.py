"""kill -9 of the process that writes and commits, at moments that its files give away: without
Spark, so that it dies often.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ...support import GENEROUS_S
from .queries import rows
from .readers import files_of, rows_of, versions_of

PROGRAM = """
    import sys
    from pathlib import Path
    from tests_lakes.queries import Query, rows

    folder = Path(sys.argv[1])
    query = Query(folder / "table", options={"compactEvery": "5"})
    commits = folder / "commits"  # as Spark keeps them: written when the sink has committed
    commits.mkdir(exist_ok=True)
    while not (folder / "stop").exists():
        batch = len(list(commits.iterdir()))
        messages = query.write(batch, [rows(batch * 10, 3), rows(batch * 10 + 5, 2)])
        query.commit(messages)
        query.lake().compact_after(messages[0].what)
        (commits / str(batch)).touch()
"""


def _start(folder: Path) -> subprocess.Popen[bytes]:
    modules = folder / "modules"
    modules.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (modules / "tests_lakes").symlink_to(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(modules), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kills", [pytest.param(20, marks=pytest.mark.kills), pytest.param(200, marks=pytest.mark.long)]
)
def test_rows_are_there_once_however_often_the_writer_is_killed(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    table, log = tmp_path / "table", tmp_path / "table" / "_delta_log"
    watched = {
        "files are written": (table, "*.parquet"),
        "a commit is begun": (log, "*"),
        "a batch is committed": (log, "[0-9]*.json"),
        "Spark has committed": (tmp_path / "commits", "*"),
    }
    killed: Counter[str] = Counter()
    for _ in range(kills):
        moment = rng.choice(list(watched))
        place, pattern = watched[moment]
        before, wanted = len(list(place.glob(pattern))), rng.randint(1, 5)
        process = _start(tmp_path)
        begun = time.monotonic()
        while len(list(place.glob(pattern))) < before + wanted and process.poll() is None:
            assert time.monotonic() < begun + GENEROUS_S, "no progress"
            _wait(process, 0.0005)
        _wait(process, rng.choice((0.0, 0.0, rng.uniform(0, 0.02))))
        assert process.poll() is None, process.communicate()[1].decode()
        process.kill()
        process.communicate()
        killed[moment] += 1
    (tmp_path / "stop").touch()
    done = len(list((tmp_path / "commits").iterdir()))
    batches = max(versions_of(table).values()) + 1
    assert batches - done in (0, 1)
    expected = [
        row for batch in range(batches) for row in [*rows(batch * 10, 3), *rows(batch * 10 + 5, 2)]
    ]
    assert rows_of(table) == sorted(expected, key=str)
    read = DeltaTable(table).to_pyarrow_table()
    assert sorted(read.column("n").to_pylist()) == sorted(row["n"] for row in expected)
    print(dict(killed), f"{batches} batches, {len(files_of(table))} files, {read.num_rows} rows")
