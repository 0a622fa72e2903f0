"""What a part of the benchmark is given: the settings, one real broker,
filled topics, Spark sessions.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.report import Section
from parley.client import Client
from parley.testing.realbroker import RealCluster, jar_folder
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.process import temporary_folder

ROOT = Path(__file__).resolve().parents[1]
RELEASE = "3.9.1"
PARTITIONS = 4
CODECS = {"plain": "none", "lz4": "lz4", "zstd": "zstd"}
"""Topic, and name of its codec → the producer's compression.type."""
SOURCES = ("parley", "spark")
"""Both of a comparison, in the order of every table; "spark" is Spark's own connector."""

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory."""

CONNECTOR = (
    # ":-" leaves out what they depend on: Spark brings most of it.
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0:-",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0:-",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)

Found = TypeVar("Found")
Row = TypeVar("Row", bound=tuple[float, ...])


@dataclass(frozen=True)
class Part(Generic[Found]):
    """One part of the benchmark: what measures it, and what makes a section of what was found."""

    measure: Callable[[Bench], Found]
    report: Callable[[Found], Section]
    reads_topics: bool = False
    """Whether --records and --topics mean something to it."""

    def run(self, bench: Bench) -> Section:
        return self.report(self.measure(bench))


@dataclass
class Bench:
    """The settings of a run, and what its parts share; close it when they are done."""

    records: int
    """Per topic of the parts that read all columns."""
    rounds: int
    topics: tuple[str, ...]
    spark_python: str
    bootstrap: str | None = None
    """Of a broker that runs already; the topics that it has are taken as filled."""
    soak_gb: float = 20.0
    """Keys and values of the long stream."""
    logs_in_memory: bool = False
    """Whether the broker keeps its logs in MEMORY, so that no disk is measured."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _filled: set[str] = field(default_factory=set)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @cached_property
    def cluster(self) -> RealCluster:
        """One real broker, started when the first part asks for it, shared by all."""
        folder = temporary_folder(MEMORY) if self.logs_in_memory else None
        return self._stack.enter_context(RealCluster(RELEASE, data_dir=folder, quick_start=False))

    @cached_property
    def bootstrap_servers(self) -> str:
        """The address of the broker whose topics are read."""
        if self.bootstrap is None:
            return self.cluster.bootstrap_servers
        with Client(bootstrap_servers=self.bootstrap) as client:
            self._filled |= set(client.metadata(None).topics)
        return self.bootstrap

    def fill(self, topics: dict[str, str], *, records: int, partitions: int = PARTITIONS) -> None:
        """Create and fill topics (name → codec) with that many records each,
        unless an earlier part did.
        """
        address = self.bootstrap_servers
        missing = {topic: codec for topic, codec in topics.items() if topic not in self._filled}
        if not missing:
            return
        progress(f"filling {', '.join(missing)} with {records:,} records each")
        program = [
            str(ROOT / "benchmarks" / "java" / "FillTopic.java"),
            address,
            str(records),
            str(partitions),
        ]
        program += [f"{topic}={codec}" for topic, codec in missing.items()]
        command = java_command(f"{jar_folder(CONNECTOR)}/*", program, quick_start=False)
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode != 0:
            raise SystemExit(
                f"benchmarks: the topics could not be filled:\n{done.stdout}{done.stderr}"
            )
        self._filled |= set(missing)
        os.sync()  # or the first turns share the machine with gigabytes on their way to the disk

    def fill_all(self) -> None:
        """Fill the topics that were asked for, with all columns in mind."""
        self.fill({topic: CODECS[topic] for topic in self.topics}, records=self.records)

    def spark_job(
        self, job: str, topics: Sequence[str], *more: str, artifacts: Sequence[str] = CONNECTOR
    ) -> list[dict[str, Any]]:
        """Run benchmarks.jobs.<job> in a Spark session of its own, with these jars; return
        the facts that it said.
        """
        if not Path(self.spark_python).exists():
            raise SystemExit(
                f"benchmarks: {self.spark_python} is not there; make it with `python "
                "tools/set_up.py --env .venv-spark42 --spark 4.2.0`"
            )
        jars = ",".join(sorted(str(jar) for jar in jar_folder(artifacts).glob("*.jar")))
        command = [self.spark_python, "-m", f"benchmarks.jobs.{job}"]
        command += [
            "--bootstrap",
            self.bootstrap_servers,
            "--jars",
            jars,
            "--rounds",
            str(self.rounds),
        ]
        return run_json([*command, *more, "--topics", *topics])


def run_json(command: Sequence[str]) -> list[dict[str, Any]]:
    """Run a command in the repository's root, pass its lines on, and return those that are JSON."""
    found = []
    # As where parley is installed: pip compiles what it
    # installs, and Spark's processes import it again and again.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found.append(json.loads(line))
                if len(found) > 1 or "kind" in found[0]:
                    progress(line.strip())
    if process.returncode != 0 or not found:
        raise SystemExit(
            f"benchmarks: {' '.join(command[1:4])} failed with status {process.returncode}"
        )
    return found


def seconds_by(facts: Sequence[dict[str, Any]], *keys: str) -> dict[tuple[str, ...], list[float]]:
    """Return the seconds of each round by what was said of them, such as topic and source."""
    found: dict[tuple[str, ...], list[float]] = {}
    for fact in facts:
        if fact["kind"] == "speed":
            found.setdefault(tuple(fact[key] for key in keys), []).append(fact["seconds"])
    return found


def medians(runs: Sequence[Row]) -> Row:
    """Return the median of each field of several runs."""
    return type(runs[0])(*map(statistics.median, zip(*runs, strict=True)))


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
