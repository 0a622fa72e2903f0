"""S1, S2: the driver or a worker dies at points spread
over a whole run, from topic to topic on embedded brokers.

Read and written by the code that Spark calls, in its order, with its offset log and its commit log;
only the engine is played here. What is killed closes its sockets and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from parley.arrow import spark_schema
from parley.client import Client
from parley.devcluster import LocalCluster
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.read import asking as asking_module, task as reading_module
from parley.spark.read.ranges import OffsetRange
from parley.spark.read.reader import RangePartition
from parley.spark.stream import driver as driver_module
from parley.spark.stream.reader import StreamReader

from .mortal import Life, client_of
from .sinks import Sink
from .world import Killed

POINTS = 20
ROWS, PER_BATCH = 48, 20


@dataclass
class Engine:
    """Spark as far as this matters: a checkpoint, micro-batches, tasks that are tried again."""

    servers: str
    source: str
    target: str
    patch: pytest.MonkeyPatch
    log: dict[int, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    ranges: dict[int, list[OffsetRange]] = field(default_factory=dict)
    rows: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    lives: int = 0

    def run(self, driver: Life, worker: Life) -> None:
        """Run the query to its end, with a new driver and worker wherever one has died."""
        while True:
            self.lives += 1
            assert self.lives < 5
            try:
                with client_of(self.servers, driver) as client:
                    return self._live(client, driver, worker)
            except Killed:
                driver = Life()
                worker = Life() if worker.dead else worker

    def _live(self, client: Any, driver: Life, worker: Life) -> None:
        for module in (asking_module, driver_module):
            self.patch.setattr(module, "client_for", lambda options: client)
        query, sink = self._query(), Sink(client, self.target, prefix=self.target)
        planner, committer = sink.driver(), sink.driver()
        while True:
            number = len(self.commits)
            if number not in self.log:
                start = self.log[number - 1][1] if number else query.initialOffset()
                end = query.latestOffset(start, ReadMaxRows(PER_BATCH))
                if end == start:
                    return
                driver.tick()
                self.log[number] = (start, end)
            driver.tick()
            plan = planner.plan()
            parts = query.partitions(*self.log[number])
            found = [part.value for part in parts]
            assert self.ranges.setdefault(number, found) == found  # the same again
            messages = []
            for slot, part in enumerate(parts):
                message, worker = self._task(plan, number, slot, part, driver, worker)
                messages.append(message)
            committer.commit(messages)
            driver.tick()
            self.commits.add(number)
            driver.tick()

    def _task(
        self, plan: Any, number: int, slot: int, part: RangePartition, driver: Life, worker: Life
    ) -> Any:
        for _ in range(4):  # spark.task.maxFailures
            try:
                with client_of(self.servers, worker) as client:
                    self.patch.setattr(reading_module, "client_for", lambda options: client)
                    batches = list(self._query().read(part))
                    rows = [
                        value.decode()
                        for batch in batches
                        for value in batch.column("value").to_pylist()
                    ]
                    assert self.rows.setdefault((number, slot), rows) == rows  # the same again
                    return Sink(client, self.target, prefix=self.target).task(
                        plan, number, slot, rows
                    ), worker
            except Killed:
                if worker is driver:
                    raise
                worker = Life()
        raise AssertionError("the task failed too often")

    def _query(self) -> StreamReader:
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "kafka.fetch.max.wait.ms": "20",
        }
        return StreamReader(read_source_options(given, Use.STREAM_READ), spark_schema())


@pytest.fixture
def play(
    cluster: LocalCluster,
    client: Client,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, Life, Life], None]:
    """Run the query into a topic of its own, and account for every row."""
    source = topic("in", partitions=2)
    rows = [str(n) for n in range(ROWS)]
    for partition in (0, 1):
        client.produce(source, pa.table({"value": rows[partition::2]}), partition=partition)

    def run(name: str, driver: Life, worker: Life) -> None:
        target = topic(name, partitions=2)
        engine = Engine(cluster.bootstrap_servers, source, target, monkeypatch)
        engine.run(driver, worker)
        # waits until nothing is open
        assert Sink(client, target, prefix=target).committed() == sorted(rows)

    return run


def test_s01_a_driver_that_dies_at_any_of_20_points_writes_every_row_once(play: Any) -> None:
    whole = Life()
    play("whole", whole, whole)
    for point in range(POINTS):
        life = Life(1 + point * whole.step // POINTS, after=point % 2 == 1)
        play(f"at{point}", life, life)
        assert life.dead


def test_s02_a_worker_that_dies_inside_its_tasks_is_replaced(play: Any) -> None:
    whole = Life()
    play("whole", Life(), whole)
    for point in range(POINTS // 4):
        life = Life(1 + point * whole.step // (POINTS // 4), after=point % 2 == 1)
        play(f"at{point}", Life(), life)
        assert life.dead
