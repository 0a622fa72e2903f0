"""An Iceberg table whose writer is killed at moments that its files give away, and on a full disk:
without Spark, so that it happens often.
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

from ...support import GENEROUS_S
from .iceberg_queries import IcebergQuery, catalog, load
from .iceberg_readers import numbers_of, parquet_of, rows_of
from .queries import rows

WRITES = """
    import sys
    from pathlib import Path
    from tests_lakes.iceberg_queries import IcebergQuery
    from tests_lakes.queries import rows

    folder = Path(sys.argv[1])
    query = IcebergQuery(folder)
    commits = folder / "commits"  # as Spark keeps them: written when the sink has committed
    commits.mkdir(exist_ok=True)
    while True:
        batch = len(list(commits.iterdir()))
        query.run(batch, [rows(batch * 10, 3), rows(batch * 10 + 5, 2)])
        (commits / str(batch)).touch()
"""
FILLS_THE_DISK = """
    import resource, sys
    from pathlib import Path
    from tests_lakes.iceberg_queries import IcebergQuery
    from tests_lakes.queries import rows

    query = IcebergQuery(Path(sys.argv[1]))
    messages = query.write(1, [rows(100, 5), rows(200, 5)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        query.commit(messages)
    except Exception as error:
        print(type(error).__name__, error)
"""


def _start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    modules = folder / "modules"
    modules.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (modules / "tests_lakes").symlink_to(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(modules), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder), *arguments]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kills", [pytest.param(20, marks=pytest.mark.kills), pytest.param(200, marks=pytest.mark.long)]
)
def test_rows_are_there_once_however_often_the_writer_is_killed(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    catalog(tmp_path)
    table = tmp_path / "warehouse" / "lake" / "flights"
    watched = {
        "files are written": (table / "data", "*.parquet"),
        "a commit is begun": (table / "metadata", "*.avro"),
        "metadata are written": (table / "metadata", "*.json"),
        "Spark has committed": (tmp_path / "commits", "*"),
    }
    killed: Counter[str] = Counter()
    for _ in range(kills):
        moment = rng.choice(list(watched))
        place, pattern = watched[moment]
        before, wanted = len(list(place.glob(pattern))), rng.randint(1, 5)
        process = _start(tmp_path, WRITES)
        begun = time.monotonic()
        while len(list(place.glob(pattern))) < before + wanted and process.poll() is None:
            assert time.monotonic() < begun + GENEROUS_S, "no progress"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.0005)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.choice((0.0, 0.0, rng.uniform(0, 0.02))))
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate()
        killed[moment] += 1
    done = len(list((tmp_path / "commits").iterdir()))
    batches = max(numbers_of(tmp_path).values()) + 1
    assert batches - done in (0, 1)
    expected = [
        row for batch in range(batches) for row in [*rows(batch * 10, 3), *rows(batch * 10 + 5, 2)]
    ]
    assert rows_of(tmp_path) == sorted(expected, key=str)
    read = load(tmp_path).scan().to_arrow()
    assert sorted(read.column("n").to_pylist()) == sorted(row["n"] for row in expected)
    print(
        dict(killed), f"{batches} batches, {len(parquet_of(tmp_path))} files, {read.num_rows} rows"
    )


@pytest.mark.parametrize(
    "size",
    [pytest.param(0, marks=pytest.mark.matrix), 1, pytest.param(1500, marks=pytest.mark.matrix)],
)
def test_of_a_commit_on_a_full_disk_nothing_is_seen(tmp_path: Path, size: int) -> None:
    """A limit on the size of files stands for the disk: what is beyond it fails."""
    query = IcebergQuery(tmp_path)
    query.run(0, [rows(0, 5)])
    out, err = _start(tmp_path, FILLS_THE_DISK, str(size)).communicate(timeout=GENEROUS_S)
    assert "LakeError" in out, err
    assert "did not take batch 1" in out
    assert len(rows_of(tmp_path)) == 5
    assert query.run(1, [rows(100, 5), rows(200, 5)])
    assert len(rows_of(tmp_path)) == 15
    assert set(numbers_of(tmp_path).values()) == {1}
