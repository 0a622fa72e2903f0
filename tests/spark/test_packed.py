"""An archive that travels with the job, as docs/how-to/deploy.md has it: no machine has parley."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import time
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parley
import pyspark_parley
from parley.client import EARLIEST, LATEST, Client, FetchOptions, TopicPartition
from parley.devcluster import LocalCluster
from parley.host import spark_environment

from .standalone import HOME, JVM, PATIENCE_SECONDS, Standalone

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * PATIENCE_SECONDS)]

ROWS, ROWS_A_BATCH = 400, 40
LIBRARIES = ("pyarrow", "cramjam", "crc32c")
"""What parley requires."""
JOB = """
    import json, sys
    from pyspark.sql import SparkSession
    import parley.spark

    servers, topic, folder = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    parley.spark.register(spark)
    rows = (
        spark.readStream.format("parley").option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic).option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", {rows_a_batch}).load()
    )
    query = (
        rows.selectExpr("value", f"'{{topic}}.copy' AS topic").writeStream.format("parley")
        .option("kafka.bootstrap.servers", servers).option("delivery", "exactly-once")
        .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    print("RESULT", parley.__file__)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed environment with parley. The one that was packed is gone."""
    folder = tmp_path_factory.mktemp("packed")
    jobs = folder / "jobs"
    venv.create(jobs, symlinks=True)
    (packages,) = jobs.glob("lib/python*/site-packages")
    for package in (parley, pyspark_parley):
        place = Path(package.__file__)
        if place.name == "__init__.py":
            shutil.copytree(place.parent, packages / place.parent.name)
        else:
            shutil.copy(place, packages)
    for name in LIBRARIES:
        for file in distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), packages / file)
    packed = folder / "jobs.tar.gz"
    command = [sys.executable, "-m", "venv_pack", "--prefix", str(jobs), "--output", str(packed)]
    subprocess.run([*command, "--compress-level", "1"], check=True, capture_output=True)
    shutil.rmtree(jobs)
    return packed


@pytest.fixture
def environment(tmp_path: Path, archive: Path) -> dict[str, str]:
    """What master, workers and driver are started with: nothing of this interpreter."""
    found = {name: text for name, text in os.environ.items() if not name.startswith("PY")}
    found |= {
        "JAVA_HOME": spark_environment({})["JAVA_HOME"],
        "PATH": "/usr/bin:/bin",
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": "./environment/bin/python",
    }
    (tmp_path / "environment").mkdir()
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "environment", filter="fully_trusted")
    return found


@pytest.fixture
def standalone(tmp_path: Path, environment: dict[str, str]) -> Iterator[Standalone]:
    with Standalone(tmp_path / "standalone", environment) as found:
        yield found


def settings(archive: Path) -> dict[str, str]:
    return {
        "spark.archives": f"{archive}#environment",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
    }


def test_a_packed_environment_writes_exactly_once_while_a_worker_dies(
    cluster: LocalCluster,
    client: Client,
    topic: Any,
    tmp_path: Path,
    archive: Path,
    environment: dict[str, str],
    standalone: Standalone,
) -> None:
    name = topic(partitions=4)
    topic("copy", partitions=2)
    client.produce(name, pa.table({"value": [str(n) for n in range(ROWS)]}))
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB.format(rows_a_batch=ROWS_A_BATCH)))
    submit = [str(HOME / "bin" / "spark-submit"), "--master", standalone.address]
    for setting, value in settings(archive).items():
        submit += ["--conf", f"{setting}={value}"]
    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(
            [*submit, "job.py", cluster.bootstrap_servers, name, str(tmp_path)],
            stdout=subprocess.PIPE, stderr=log, env=environment, cwd=tmp_path,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        commits = tmp_path / "checkpoint" / "commits"
        while len(list(commits.glob("[0-9]*"))) < 2:
            assert job.poll() is None, (tmp_path / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-3000:]
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(0.1)
        standalone.kill_worker()
        batches = len(list(commits.glob("[0-9]*")))
        assert batches < ROWS // ROWS_A_BATCH, "the job was over before the worker died"
        out, _ = job.communicate(timeout=PATIENCE_SECONDS)
    finally:
        job.kill()
    assert job.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    (place,) = (line.split()[1] for line in out.decode().splitlines() if "RESULT" in line)
    assert (tmp_path / place).is_relative_to(tmp_path / "environment")
    copied = client.fetch_many(
        {TopicPartition(f"{name}.copy", at): (EARLIEST, LATEST) for at in range(2)},
        FetchOptions(isolation_level="read_committed"),
    )
    values = [int(text) for found in copied for text in found.batch.column("value").to_pylist()]
    assert sorted(values) == list(range(ROWS))


def doctor(
    environment: dict[str, str], folder: Path, *words: str
) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code, and what `parley doctor --spark` says of Spark. The program runs here,
    where parley is; Spark's workers do not see that.
    """
    done = subprocess.run(
        [sys.executable, "-m", "parley", "doctor", "--format", "json", "--spark", *words],
        capture_output=True, text=True, check=False, cwd=folder, timeout=PATIENCE_SECONDS,
        env=environment,
    )  # fmt: skip
    rows = json.loads(done.stdout)["rows"]
    return done.returncode, {row["check"]: row for row in rows if row["check"].startswith("spark")}


def test_the_doctor_compares_executor_and_planner(
    tmp_path: Path, archive: Path, environment: dict[str, str], standalone: Standalone
) -> None:
    words = ["--master", standalone.address]
    for setting, value in settings(archive).items():
        words += ["--conf", f"{setting}={value}"]
    code, found = doctor(environment, tmp_path, *words)
    assert code == 0, found
    assert found["spark task"]["status"] == "ok"
    assert standalone.address in found["spark task"]["found"]
    planner, executor = found["spark planner"], found["spark executor"]
    assert planner["status"] == executor["status"] == "ok"
    assert f"({tmp_path}/environment/bin/python)" in planner["found"]
    assert f"({standalone.folder}/work-" in executor["found"]


def test_the_doctor_names_workers_without_parley(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    bare = f"{tmp_path}/bare/bin/python"
    code, found = doctor(environment | {"PYSPARK_PYTHON": bare}, tmp_path)
    assert code == 1
    assert found["spark task"]["status"] == "ok"
    for check in ("spark planner", "spark executor"):
        assert found[check]["status"] == "broken"
        assert f"({bare}), pyarrow not installed, parley not installed" in found[check]["found"]
