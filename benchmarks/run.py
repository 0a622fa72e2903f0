"""Run the benchmarks and write benchmarks/RESULTS.md: `make bench`, or `python -m benchmarks.run`.

One real Kafka 3.9.1 broker, topics of 4 partitions filled by a Java producer (plain, lz4, zstd), and
on two cores, side by side in one run, alternating:

- spark:    Spark batch read to noop and an aggregation, parley against Spark's own connector
- clients:  the Arrow client against confluent-kafka, aiokafka and kafka-python
- leader-moves: the time to the next record after a leader move, against confluent-kafka; writes a picture
- memory:   the peak memory of a Python worker that reads, for a small and a large topic
- startup:  `import parley`; an embedded cluster of three brokers
- negotiation: an old broker recognised, round trips, 1,000 brokers asked

`--only PART ...` measures these and leaves the rest of RESULTS.md as it was.

Needs mvn, Java 17, and for the Spark parts an environment with pyspark 4.2.0 (--spark-python).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import leader_moves, negotiation
from benchmarks.report import merge_reports, write_report
from parley.records import kernel_info
from parley.testing.realbroker import RealCluster, available, jar_folder

ROOT = Path(__file__).resolve().parents[1]
RELEASE = "3.9.1"
PARTITIONS = 4
RECORD_BYTES = 106
CODECS = {"plain": "none", "lz4": "lz4", "zstd": "zstd"}
PARTS = ("startup", "negotiation", "leader-moves", "clients", "memory", "spark")
WITH_BROKER = {"clients", "memory", "spark"}
"""What reads the topics of the real broker."""
SMALL_TOPIC = "small"

CLIENTS = {
    # name → share of the topic's records that it reads: the slow ones would only take longer, not go slower.
    "parley_arrow": 1.0,
    "confluent_tuned": 1.0,
    "confluent": 0.25,
    "aiokafka_getmany": 0.125,
    "kafka_python_poll": 0.125,
}

CONNECTOR = (
    # ":-" leaves out what they depend on: Spark brings most of it.
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0:-",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0:-",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


@dataclass
class Results:
    """Everything that was measured; seconds by what was run."""

    records: int
    rounds: int
    spark: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    """(topic, job, source) → seconds of each round."""
    clients: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)
    """(topic, client) → rows, seconds and peak_rss_mb of each round."""
    memory: dict[str, float] = field(default_factory=dict)
    """topic → peak MB of a reading worker."""
    startup: dict[str, float] = field(default_factory=dict)
    """what → median seconds."""
    negotiation: negotiation.Measured | None = None
    leader_moves: leader_moves.Measured | None = None


def main() -> int:
    arguments = parse()
    refuse_what_would_mislead()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)  # inherited by the broker, by Spark and by every client
    results = Results(records=arguments.records, rounds=arguments.rounds)
    if "startup" in arguments.parts:
        results.startup = {what: measure_startup(what, arguments.rounds) for what in ("import", "cluster")}
    if "negotiation" in arguments.parts:
        results.negotiation = negotiation.measure(arguments.rounds)
        progress(f"negotiation: {results.negotiation}")
    if "leader-moves" in arguments.parts:
        results.leader_moves = leader_moves.measure()
    if WITH_BROKER & set(arguments.parts):
        with RealCluster(RELEASE, quick_start=False, properties={"log.retention.ms": "-1"}) as cluster:
            measure_with_broker(cluster, arguments, results)
    text = write_report(results, command=command_line(arguments), cores=len(cores))
    if arguments.output:
        output = Path(arguments.output)
        if set(arguments.parts) != set(PARTS) and output.exists():
            text = merge_reports(output.read_text(), text)
        output.write_text(text)
    print(text)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000, help="per topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts (default: %(default)s)")
    parser.add_argument("--topics", nargs="+", choices=CODECS, default=list(CODECS))
    parser.add_argument(
        "--only", "--parts", dest="parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
        help=f"of {', '.join(PARTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--spark-python", default=str(ROOT / ".venv-spark42" / "bin" / "python"))
    parser.add_argument("--output", default=str(ROOT / "benchmarks" / "RESULTS.md"), help='"" writes no file')
    return parser.parse_args()


def command_line(arguments: argparse.Namespace) -> str:
    """Return the command to be named in the results; where files lie on this machine is left out."""
    read = f" --records {arguments.records} --topics {' '.join(arguments.topics)}"
    return (
        f"python -m benchmarks.run --rounds {arguments.rounds} --only {' '.join(arguments.parts)}"
        f"{read if WITH_BROKER & set(arguments.parts) else ''}"
    )


def refuse_what_would_mislead() -> None:
    """Exit where no broker can be had or where the slow kernel would be measured."""
    reason = available()
    if reason is not None:
        raise SystemExit(f"benchmarks: {reason}")
    if not kernel_info().native:
        raise SystemExit("benchmarks: the native kernel is not there; install cargo and run `make setup` first")


def measure_with_broker(cluster: RealCluster, arguments: argparse.Namespace, results: Results) -> None:
    small = max(arguments.records // 10, 1)
    progress(f"filling {len(arguments.topics)} topics with {arguments.records:,} records each")
    fill(cluster, arguments.records, {topic: CODECS[topic] for topic in arguments.topics})
    if "clients" in arguments.parts:
        measure_clients(cluster, arguments, results)
    if "memory" in arguments.parts:
        fill(cluster, small, {SMALL_TOPIC: "none"})
        topics = [SMALL_TOPIC, *arguments.topics]
        for fact in spark_session(cluster, arguments, topics, "memory"):
            results.memory[fact["topic"]] = fact["peak_rss_mb"]
    if "spark" in arguments.parts:
        for fact in spark_session(cluster, arguments, arguments.topics, "speed"):
            if fact["kind"] == "speed":
                key = (fact["topic"], fact["job"], fact["source"])
                results.spark.setdefault(key, []).append(fact["seconds"])


def fill(cluster: RealCluster, records: int, topics: dict[str, str]) -> None:
    program = str(ROOT / "benchmarks" / "java" / "FillTopic.java")
    pairs = [f"{topic}={codec}" for topic, codec in topics.items()]
    done = cluster.run_java(
        [program, cluster.bootstrap_servers, str(records), str(PARTITIONS), *pairs], timeout_seconds=1800
    )
    if done.returncode != 0:
        raise SystemExit(f"benchmarks: the topics could not be filled:\n{done.stdout}{done.stderr}{cluster.logs()}")


def measure_clients(cluster: RealCluster, arguments: argparse.Namespace, results: Results) -> None:
    """Run the clients in turn, round after round; the first round warms the page cache and is not counted."""
    for topic in arguments.topics:
        for turn in range(arguments.rounds + 1):
            for client, share in CLIENTS.items():
                records = int(arguments.records * share)
                module = f"benchmarks.contestants.{client}"
                command = [sys.executable, "-m", module, cluster.bootstrap_servers, topic, str(PARTITIONS)]
                (fact,) = run_json([*command, str(records)])
                progress(f"{topic} {client}: {fact['rows'] / fact['seconds']:,.0f} records/s")
                if turn > 0:
                    results.clients.setdefault((topic, client), []).append(fact)


def spark_session(
    cluster: RealCluster, arguments: argparse.Namespace, topics: Sequence[str], only: str
) -> list[dict[str, Any]]:
    if not Path(arguments.spark_python).exists():
        raise SystemExit(
            f"benchmarks: {arguments.spark_python} is not there; make it with"
            " `python tools/set_up.py --env .venv-spark42 --spark 4.2.0`"
        )
    jars = ",".join(sorted(str(jar) for jar in jar_folder(CONNECTOR).glob("*.jar")))
    command = [arguments.spark_python, "-m", "benchmarks.spark_session", "--bootstrap", cluster.bootstrap_servers]
    command += ["--jars", jars, "--rounds", str(arguments.rounds), "--only", only, "--topics", *topics]
    return run_json(command)


def measure_startup(what: str, rounds: int) -> float:
    """Return the median seconds of several fresh interpreters; the first one fills caches and is not counted."""
    command = [sys.executable, "-m", "benchmarks.startup", what]
    seconds = [float(run_json(command)[0]["seconds"]) for _ in range(rounds + 1)]
    progress(f"{what}: {seconds}")
    return statistics.median(seconds[1:])


def run_json(command: Sequence[str]) -> list[dict[str, Any]]:
    """Run a command in the repository's root, pass its lines on, and return those that are JSON."""
    found = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found.append(json.loads(line))
                if len(found) > 1 or "kind" in found[0]:
                    progress(line.strip())
    if process.returncode != 0 or not found:
        raise SystemExit(f"benchmarks: {' '.join(command[1:4])} failed with status {process.returncode}")
    return found


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
