"""Outages of 0.5 to 120 s of one, two or all brokers: what becomes of reads and writes, beside
Spark's own connector.

    python -m tests.outage.run --spark-python .venv-spark42/bin/python --write docs/proof/outages.md
    python -m tests.outage.run --seconds 0.5,5 --brokers 3 --without-spark

Everything runs all the time: a client, a consumer and a producer of parley, a Spark application
with parley, one with Spark's own connector (it needs Java, Maven and PySpark 4.2). All options have
their defaults. Brokers are killed and come back with their data, at their old ports. Whatever was
done once since counts as outlived.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

from parley.client import LATEST, Client, Consumer, TopicPartition
from parley.devcluster import LocalCluster

ROOT = Path(__file__).parents[2]
BROKERS = 3
SECONDS = (0.5, 5.0, 30.0, 120.0)
WORKS = (
    "batch read",
    "stream",
    "write at least once",
    "exactly once",
    "client",
    "consumer",
    "producer",
)
PARLEY, OWN = "parley", "Spark's own"
WARM_UP_SECONDS, RECOVERY_SECONDS, BEFORE_SECONDS = 240.0, 200.0, 3.0
NOT_BEGUN = "(did not work before)"
TP = TopicPartition("in", 0)
BEGIN, END = "<!-- table: written by tests/outage/run.py -->\n", "<!-- end of table -->\n"
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0:-",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0:-",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


@dataclass
class Events:
    """What became of every attempt: (time, error or None) by (engine, work)."""

    found: dict[tuple[str, str], list[tuple[float, str | None]]] = field(default_factory=dict)

    def say(self, engine: str, work: str, at: float, error: str | None) -> None:
        """Take note of an attempt."""
        self.found.setdefault((engine, work), []).append((at, error))

    def since(self, key: tuple[str, str], moment: float) -> list[tuple[float, str | None]]:
        """Return what has come since."""
        return [event for event in list(self.found.get(key, ())) if event[0] >= moment]


def client_works(servers: str) -> dict[str, Callable[[], Iterator[None]]]:
    """Return what is done with parley alone; each step is one success."""

    def client() -> Iterator[None]:
        with Client(bootstrap_servers=servers) as one:
            while True:
                one.metadata(["in"])
                one.list_offsets({TP: LATEST})
                yield

    def consumer() -> Iterator[None]:
        with Consumer(bootstrap_servers=servers, auto_offset_reset="latest") as one:
            one.assign([TP])
            while True:
                one.getone()
                yield

    def producer() -> Iterator[None]:
        with Client(bootstrap_servers=servers) as one:
            while True:
                one.produce("in", pa.table({"value": ["x"]}), 0)
                yield

    return {"client": client, "consumer": consumer, "producer": producer}


def work_on(
    name: str, work: Callable[[], Iterator[None]], events: Events, over: threading.Event
) -> None:
    """Do a work until it is over; what fails is begun again."""
    while not over.is_set():
        try:
            for _ in work():
                events.say(PARLEY, name, time.time(), None)
                if over.wait(0.1):
                    return
        except Exception as error:
            events.say(PARLEY, name, time.time(), f"{type(error).__name__}: {error}")


def listen(engine: str, lines: IO[str], events: Events) -> None:
    """Take note of what a Spark application prints."""
    for line in lines:
        try:
            found = json.loads(line)
            events.say(engine, found["work"], found["at"], found["error"])
        except (ValueError, KeyError):
            print(f"{engine}: {line.rstrip()}", file=sys.stderr)


@contextmanager
def application(
    engine: str, python: str, servers: str, folder: Path, jars: Sequence[Path], events: Events
) -> Iterator[None]:
    """Run a Spark application beside the block."""
    name = {PARLEY: "parley", OWN: "kafka"}[engine]
    command = [
        python,
        str(ROOT / "tests" / "outage" / "job.py"),
        name,
        servers,
        str(folder),
        *_joined(jars),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": python}
    with (folder / "stderr").open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        listener = threading.Thread(target=listen, args=(engine, process.stdout, events))
        listener.start()
        try:
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
            listener.join()


def _joined(jars: Sequence[Path]) -> list[str]:
    return [",".join(map(str, jars))] if jars else []


def wait_for(
    keys: Sequence[tuple[str, str]], done: Callable[[tuple[str, str]], bool], seconds: float
) -> None:
    """Return when something holds of all these works, or when it takes too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all(map(done, keys)):
        time.sleep(0.2)


def outcome(events: list[tuple[float, str | None]], began: float, back: float) -> str:
    """Return what became of a work: whether it failed, and after how long;
    or how soon it went on.
    """
    for at, error in events:
        if error is not None:
            return f"fails after {at - began:.0f} s: {_short(error)}"
    after = [at for at, _ in events if at > back]
    return (
        f"goes on {after[0] - back:.1f} s later"
        if after
        else f"stands still for {RECOVERY_SECONDS:.0f} s"
    )


def _short(error: str) -> str:
    """Return the name of the error that a text of Spark or of Java contains."""
    words = error.replace(":", " ").replace("(", " ").replace("[", " ").split()
    names = [word.rpartition(".")[2] for word in words]
    naming = [
        name for name in names if name.endswith(("Exception", "Error", "TimedOut", "Unreachable"))
    ]
    generic = (
        "RuntimeError",
        "StreamingQueryException",
        "Py4JJavaError",
        "PythonException",
        "SparkException",
    )
    return next(
        (name for name in naming if name not in generic), naming[0] if naming else error[:60]
    )


Row = dict[tuple[str, str], str]


def scene(
    cluster: LocalCluster,
    away: int,
    seconds: float,
    keys: Sequence[tuple[str, str]],
    events: Events,
) -> Row:
    """Let brokers go and come back; return what became of every work."""
    moment = time.time()

    def ready(key: tuple[str, str]) -> bool:
        return sum(error is None for _, error in events.since(key, moment)) >= 2

    wait_for(keys, ready, WARM_UP_SECONDS)
    begun = [key for key in keys if ready(key)]
    for key in set(keys) - set(begun):
        errors = [error for _, error in events.since(key, moment) if error is not None]
        print(f"{key} did not work before: {errors[-1:]}", file=sys.stderr)
    time.sleep(BEFORE_SECONDS)  # metadata gets older than a second
    leader = cluster.leaders("in")[0][0]
    ids = sorted(range(1, BROKERS + 1), key=lambda broker_id: broker_id != leader)[:away]
    began = time.time()
    for broker_id in ids:
        cluster.kill_broker(broker_id)
    time.sleep(max(0.0, seconds - (time.time() - began)))
    for broker_id in ids:
        cluster.start_broker(broker_id)
    back = time.time()

    def over(key: tuple[str, str]) -> bool:
        return any(error is not None or at > back for at, error in events.since(key, began))

    wait_for(begun, over, RECOVERY_SECONDS)
    for key in begun:
        for _, error in events.since(key, began):
            if error is not None:
                print(f"{key}: {error[:2000]}", file=sys.stderr)
                break
    return {
        key: outcome(events.since(key, began), began, back) if key in begun else NOT_BEGUN
        for key in keys
    }


def table(rows: dict[tuple[float, int], Row], engines: Sequence[str]) -> str:
    """Return the rows as Markdown."""
    lines = [
        f"| away | brokers | by | {' | '.join(WORKS)} |",
        f"|---|---|---|{'---|' * len(WORKS)}",
    ]
    for (seconds, away), row in sorted(rows.items(), key=lambda found: (found[0][0], found[0][1])):
        for engine in engines:
            cells = [row.get((engine, work), "–") for work in WORKS]
            who = "all" if away == BROKERS else str(away)
            lines.append(f"| {seconds:g} s | {who} | {engine} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def worse(row: Row) -> list[str]:
    """Return the works in which parley fails and Spark's own connector does not."""
    compared = [
        work for engine, work in row if engine == OWN and row.get((PARLEY, work)) != NOT_BEGUN
    ]
    return [
        work for work in compared if not _outlived(row, PARLEY, work) and _outlived(row, OWN, work)
    ]


def _outlived(row: Row, engine: str, work: str) -> bool:
    return row.get((engine, work), "").startswith("goes on")


def write(page: Path, text: str) -> None:
    """Put the table into its page."""
    front, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{front}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def measure(arguments: argparse.Namespace) -> dict[tuple[float, int], Row]:
    """Run all scenes, one after the other, over one cluster."""
    events, over = Events(), threading.Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(
            LocalCluster(brokers=BROKERS, release="3.9", data_dir=folder / "data")
        )
        for topic in ("in", "out", "fixed"):
            cluster.create_topic(topic, partitions=1, replication_factor=BROKERS)
        servers = cluster.bootstrap_servers
        with Client(bootstrap_servers=servers) as client:
            client.produce("fixed", pa.table({"value": [str(number) for number in range(100)]}))
        works = client_works(servers)
        keys = [(PARLEY, name) for name in works]
        threads = [
            threading.Thread(target=work_on, args=(name, work, events, over))
            for name, work in works.items()
        ]
        for thread in threads:
            thread.start()
        stack.callback(lambda: [thread.join() for thread in threads])
        stack.callback(over.set)
        if not arguments.without_spark:
            for engine, python, jars in _engines(arguments):
                (folder / engine).mkdir()
                stack.enter_context(
                    application(engine, python, servers, folder / engine, jars, events)
                )
                keys += [(engine, work) for work in WORKS[: 4 if engine == PARLEY else 3]]
        rows = {}
        for seconds in arguments.seconds:
            for away in arguments.brokers:
                rows[seconds, away] = row = scene(cluster, away, seconds, keys, events)
                print(
                    f"{seconds:g} s, {away} away",
                    *(f"  {key}: {what}" for key, what in row.items()),
                    sep="\n",
                )
                sys.stdout.flush()
                if arguments.write is not None:
                    write(arguments.write, table(rows, _names(arguments)))
        return rows


def _engines(arguments: argparse.Namespace) -> list[tuple[str, str, Sequence[Path]]]:
    found: list[tuple[str, str, Sequence[Path]]] = [(PARLEY, sys.executable, ())]
    if arguments.spark_python is not None:
        from parley.testing.realbroker import jar_folder

        found.append(
            (OWN, arguments.spark_python, sorted(Path(jar_folder(CONNECTOR)).glob("*.jar")))
        )
    return found


def _names(arguments: argparse.Namespace) -> tuple[str, ...]:
    return (
        (PARLEY, OWN)
        if arguments.spark_python is not None and not arguments.without_spark
        else (PARLEY,)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=_numbers, default=SECONDS, help="lengths, e.g. 0.5,5,30,120"
    )
    parser.add_argument(
        "--brokers", type=_counts, default=(1, 2, 3), help="how many of three are away, e.g. 1,3"
    )
    parser.add_argument(
        "--spark-python", help="an environment with PySpark 4.2, for Spark's own connector"
    )
    parser.add_argument(
        "--without-spark", action="store_true", help="client, consumer and producer only"
    )
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    arguments = parser.parse_args()
    rows = measure(arguments)
    complaints = [
        f"{seconds:g} s, {away} away: {name}"
        for (seconds, away), row in rows.items()
        for name in worse(row)
    ]
    if any(engine == OWN for row in rows.values() for engine, _ in row):
        print("\n".join(complaints) or "parley outlives whatever Spark's own connector outlives")
    return bool(complaints)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
