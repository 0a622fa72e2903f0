"""Measure what a leader move costs: the time to the next
delivered record, refreshes, records lost or repeated.

Run by `benchmarks.run --only leader-moves`. The embedded cluster runs in a process of its own.
After each move one record is written by the client under test and read by a reader of the same
client; both times count from the move. parley and confluent-kafka take turns, on a cluster with
leader hints (4.3) and on one without (3.6).
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition as TheirPartition

from benchmarks.bench import Bench
from benchmarks.leader_moves_plot import draw
from benchmarks.moving_cluster import TOPIC
from parley.client import Client, FetchOptions, TopicPartition
from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.view import MetadataUpdate, PartitionMetadata, TopicUpdate
from parley.drafts.global_order import GlobalOrderCache, StampedUpdate
from parley.types import Node

HINTS, NO_HINTS = "4.3", "3.6"
MOVES = 60
CLIENTS = 2
"""One writes, one reads: both find out that the leader moved."""
ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "benchmarks" / "pictures" / "leader-moves.svg"
LOAD_SECONDS, PERIOD_MS, BATCH = 60, 200, 50
PROCESSES = 5
TP = TopicPartition(TOPIC, 0)


class Loaded(NamedTuple):
    """Leader moves under load: what went in, and what of it came out wrong."""

    moves: int
    sent: int
    lost: int
    duplicated: int
    reordered: int


class Measured(NamedTuple):
    """What came out; milliseconds from the move, by (client, role, release)."""

    delivered_ms: dict[tuple[str, str, str], list[float]]
    refreshes_per_move: dict[tuple[str, str], float]
    metadata_ms: dict[str, list[list[float]]]
    """What is done with a Metadata answer of 10,000 partitions → milliseconds of each
    process, call after call.
    """
    loaded: Loaded
    forced: dict[str, int]
    """Policy → refreshes that outdated answers forced, of HISTORY answers."""


def measure(bench: Bench) -> Measured:
    """Measure everything and draw the picture; there are always as many moves."""
    delivered: dict[tuple[str, str, str], list[float]] = {}
    refreshes: dict[tuple[str, str], float] = {}
    for release in (HINTS, NO_HINTS):
        for name, play in (("parley", play_parley), ("confluent-kafka", play_confluent)):
            with moving_cluster(release) as (bootstrap, send):
                written, read = play(bootstrap, send)
                delivered[name, "producer", release], delivered[name, "consumer", release] = (
                    written,
                    read,
                )
                refreshes[name, release] = send("requests")["metadata"] / CLIENTS / MOVES
    draw(delivered, PICTURE)
    return Measured(
        delivered, refreshes, measure_ten_thousand(), measure_load(), compare_policies()
    )


@contextmanager
def moving_cluster(release: str) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Yield the bootstrap servers of a cluster and a function that sends it a
    line and returns its answer.
    """
    command = [sys.executable, "-m", "benchmarks.moving_cluster", release]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def send(line: str) -> Any:
            process.stdin.write(line + "\n")
            return json.loads(process.stdout.readline())

        try:
            yield json.loads(process.stdout.readline())["bootstrap"], send
        finally:
            process.stdin.close()


Times = tuple[list[float], list[float]]


def play_parley(bootstrap: str, send: Callable[[str], Any]) -> Times:
    """Move, write and read, again and again; return the milliseconds until
    acknowledged, and until read.
    """
    arrived: dict[int, float] = {}
    news = threading.Condition()
    with (
        Client(bootstrap_servers=bootstrap) as writer,
        Client(bootstrap_servers=bootstrap) as reader,
    ):

        def read() -> None:
            seen = 0
            for batch in reader.fetch(TP, 0, MOVES + 1, FetchOptions(fetch_max_wait_ms=500)):
                with news:
                    arrived.update({seen + row: time.monotonic() for row in range(batch.num_rows)})
                    seen += batch.num_rows
                    news.notify_all()

        def write(number: int) -> float:
            writer.produce(TOPIC, pa.table({"value": [str(number)]}))
            return time.monotonic()

        return _play(send, read, write, arrived, news)


def play_confluent(bootstrap: str, send: Callable[[str], Any]) -> Times:
    """The same with confluent-kafka: idempotent, linger.ms=0, its other settings as they are."""
    arrived: dict[int, float] = {}
    news = threading.Condition()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "moves", "enable.auto.commit": False}
    )
    consumer.assign([TheirPartition(TOPIC, 0, 0)])

    def read() -> None:
        while len(arrived) <= MOVES:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                with news:
                    arrived[message.offset()] = time.monotonic()
                    news.notify_all()
        consumer.close()

    def write(number: int) -> float:
        producer.produce(TOPIC, str(number))
        producer.flush()
        return time.monotonic()

    return _play(send, read, write, arrived, news)


def _play(
    send: Callable[[str], Any],
    read: Callable[[], None],
    write: Callable[[int], float],
    arrived: dict[int, float],
    news: threading.Condition,
) -> Times:
    def wait_for(number: int) -> float:
        with news:
            if not news.wait_for(lambda: number in arrived, timeout=120):
                raise SystemExit(f"benchmarks: record {number} was not read after a leader move")
            return arrived[number]

    thread = threading.Thread(target=read)
    thread.start()
    write(0)
    wait_for(0)
    send("requests")
    written_ms, read_ms = [], []
    for number in range(1, MOVES + 1):
        at = send("move")["at"]
        written_ms.append((write(number) - at) * 1000)
        read_ms.append((wait_for(number) - at) * 1000)
        time.sleep(0.05)
    thread.join()
    return written_ms, read_ms


# -- under load ------------------------------------------------------------------------------------


def measure_load() -> Loaded:
    """Write and read while the leader moves every 200 ms for a minute; then
    account for each record.
    """
    moves = LOAD_SECONDS * 1000 // PERIOD_MS
    stop, seen, sent = threading.Event(), list[int](), 0
    with (
        moving_cluster(HINTS) as (bootstrap, send),
        Client(bootstrap_servers=bootstrap) as writer,
        Client(bootstrap_servers=bootstrap) as reader,
    ):

        def read() -> None:
            for batch in reader.fetch(TP, 0, options=FetchOptions(fetch_max_wait_ms=100)):
                found = [int(value) for value in batch.column("value").to_pylist()]
                seen.extend(value for value in found if value >= 0)
                if -1 in found:
                    return

        def move() -> None:
            send(f"moves {moves} {PERIOD_MS}")
            stop.set()

        threads = [threading.Thread(target=read), threading.Thread(target=move)]
        for thread in threads:
            thread.start()
        while not stop.is_set():
            writer.produce(TOPIC, pa.table({"value": [str(sent + i) for i in range(BATCH)]}))
            sent += BATCH
        writer.produce(TOPIC, pa.table({"value": ["-1"]}))
        for thread in threads:
            thread.join()
    in_order = sum(after < before for before, after in itertools.pairwise(seen))
    return Loaded(moves, sent, sent - len(set(seen)), len(seen) - len(set(seen)), in_order)


# -- metadata --------------------------------------------------------------------------------------


def measure_ten_thousand() -> dict[str, list[list[float]]]:
    """Measure a Metadata answer of 10,000 partitions in fresh interpreters, which have
    nothing else in their heaps.
    """
    command = [sys.executable, "-m", "benchmarks.ten_thousand"]
    runs = [json.loads(subprocess.check_output(command, cwd=ROOT)) for _ in range(PROCESSES)]
    return {what: [run[what] for run in runs] for what in runs[0]}


HISTORY, WIDE, INTERESTING = 300, 1_000, 10


def compare_policies() -> dict[str, int]:
    """Count the refreshes that outdated answers force on
    one history: three brokers, each some changes behind.

    One topic of 1,000 partitions; between two answers up to five leaders move, and the controller
    changes something that is no leader as often. A client asks any broker, and another one after an
    outdated answer.
    """
    rng = random.Random(232)
    parts, changes = [PartitionMetadata(index, 1, 0) for index in range(WIDE)], 0
    pictures = [_answer(parts, changes)]
    caches = {
        "one global order (the first draft)": GlobalOrderCache(),
        "leader epochs, a producer's interest in all": MetadataCache(),
        "leader epochs, a consumer's interest in 10": MetadataCache(),
    }
    caches["leader epochs, a consumer's interest in 10"].set_interest(
        TopicPartition("t", index) for index in range(INTERESTING)
    )
    forced = dict.fromkeys(caches, 0)
    behind = [0, 0, 0]
    for _ in range(HISTORY):
        for _ in range(rng.randrange(6)):
            moved = parts[rng.randrange(WIDE)]
            parts[moved.partition] = moved._replace(leader_epoch=moved.leader_epoch + 1)
            changes += 1
            pictures.append(_answer(parts, changes))
        for _ in range(rng.randrange(6)):
            changes += 1
            pictures.append(_answer(parts, changes))
        behind = [min(rng.choice((0, 0, 1, 3, 10)), len(pictures) - 1) for _ in behind]
        asked = [rng.randrange(3) for _ in range(10)]
        for name, cache in caches.items():
            for broker in asked:
                if not cache.apply(pictures[-1 - behind[broker]], full=True).outdated:
                    break
                forced[name] += 1
        pictures = pictures[-20:]
    return forced


def _answer(parts: list[PartitionMetadata], changes: int) -> MetadataUpdate:
    topic = TopicUpdate("t", 0, bytes(16), False, tuple(parts))
    return StampedUpdate(12, {1: Node(1, "h", 1)}, (topic,), 1, "c", order=(1, changes))
