"""One run of the demo: its threads, and the loop that watches them."""

from __future__ import annotations

import threading
import time
from functools import partial

from parley.client import ProduceOptions
from parley.errors import JobError
from parley.pipelines.declared import Pipeline
from parley.pipelines.demo import job
from parley.pipelines.demo.counting import record_count
from parley.pipelines.demo.environments import Environment
from parley.pipelines.demo.feed import Encode, Feeder, Pace
from parley.pipelines.demo.progress import Display, RateMeter, Snapshot
from parley.pipelines.demo.scenario import Director, LeaderWatch

STALL_SECONDS = 120
"""When not a row has moved for as long, something is wrong that will not pass."""


class _Work(threading.Thread):
    """Runs the pipeline. `error` holds what ended it early, if so."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(name="parley-demo-pipeline", daemon=True)
        self.error: BaseException | None = None
        self._pipeline = pipeline

    def run(self) -> None:
        try:
            self._pipeline.run()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """Let the flows end in order."""
        self._pipeline.stop()


class Run:
    """The moving parts of one run, and the loop that watches them."""

    def __init__(
        self,
        plan: job.JobPlan,
        sides: tuple[Environment, Environment],
        encode: Encode,
        pipeline: Pipeline,
        display: Display,
        pace: Pace,
        began: float,
    ) -> None:
        self._plan, self._sides, self._began = plan, sides, began
        self._pipeline, self._display = pipeline, display
        self.encode = encode
        old, _ = sides
        send = partial(
            old.client.produce, plan.topic, options=ProduceOptions(compression_type="lz4")
        )
        self.feeder = Feeder(
            plan.dataset,
            self.encode,
            send,
            pace=pace,
            may_go_on=lambda: self._warm_at is not None,
            headers=old.takes_headers(),
        )
        self.leaders = {one.name: LeaderWatch(partial(one.leaders, plan.topic)) for one in sides}
        found = [one.director(plan.topic, self._fraction, display.report) for one in sides]
        self._directors: list[Director] = [one for one in found if one is not None]
        self._work = _Work(pipeline)
        self._records = pipeline.records()
        self._to_arrive: int | None = None
        self._rate = RateMeter()
        self._warm_at: float | None = None
        self._tick = threading.Event()
        self.seconds = 0.0

    @property
    def _threads(self) -> list[Feeder | Director | _Work]:
        return [self.feeder, *self._directors, self._work]

    def start(self) -> None:
        """Set everything in motion."""
        self._display.report("the pipeline runs; its first rows warm Spark up")
        for thread in reversed(self._threads):
            thread.start()

    def watch(self) -> None:
        """Show the state until all flows have all rows. Raises what ended a part early."""
        last_move, moved_at = -1, time.monotonic()
        while True:
            for thread in self._threads:
                if thread.error is not None:
                    raise thread.error
            self._records = self._pipeline.records()
            self._show()
            if self._warm_at is None and self._is_warm():
                self._display.report("Spark is warm; the rows begin to flow")
                self._warm_at = time.monotonic()
            if self._warm_at is not None and self._arrived():
                self.seconds = time.monotonic() - self._warm_at
                return
            moved = self.feeder.ledger.rows + sum(self._records.values())
            if moved != last_move:
                last_move, moved_at = moved, time.monotonic()
            elif time.monotonic() - moved_at > STALL_SECONDS:
                raise JobError(
                    f"no row has moved for {STALL_SECONDS} s: {self.state()} "
                    f"(the log of Spark is {self._plan.log})"
                )
            self._tick.wait(0.25)

    @property
    def copied(self) -> int:
        """Records that the new cluster has."""
        return self._records[job.COPY]

    def state(self) -> str:
        """Return how far it has come, in words."""
        return (
            f"{self.feeder.ledger.rows:,} rows were acknowledged, {self.copied:,} copied, "
            f"{self._records[job.TABLE]:,} are in {self._plan.table}, "
            f"{self._records[job.AGGREGATES]:,} are aggregated"
        )

    def stop(self) -> None:
        """Stop the feeder, the directors and the pipeline, in this order; safe at any time."""
        for thread in self._threads:
            if thread.is_alive():
                thread.stop()
                thread.join()

    def _arrived(self) -> bool:
        """Return whether all is where it should be. Below 0.11 a broker may have a row twice."""
        if not (self.feeder.finished and all(one.finished for one in self._directors)):
            return False
        if self._to_arrive is None:
            self._to_arrive = record_count(self._sides[0].client, self._plan.topic)
        flows = (job.COPY, job.TABLE, job.AGGREGATES)
        return all(self._records[name] >= self._to_arrive for name in flows)

    def _is_warm(self) -> bool:
        """Return whether both queries have done a batch: what happens to brokers is to happen to
        them.
        """
        return all(self._records[name] > 0 for name in (job.TABLE, job.AGGREGATES))

    def _fraction(self) -> float:
        return self.feeder.ledger.rows / self._plan.dataset.row_count

    def _show(self) -> None:
        seconds = time.monotonic() - self._began
        rows_in_table = self._records[job.TABLE]
        for one in self.leaders.values():
            one.look()
        rows = (row for one in self._sides for row in one.broker_rows(self._plan.topic))
        self._display.show(
            Snapshot(
                seconds=seconds,
                rows_total=self._plan.dataset.row_count,
                rows_acknowledged=self.feeder.ledger.rows,
                rows_copied=self.copied,
                rows_in_table=rows_in_table,
                rate=self._rate.rate(seconds, rows_in_table),
                brokers=tuple(rows),
                leader_moves=sum(one.moves for one in self.leaders.values()),
            )
        )
