"""The demo job, whole: a file's rows through Kafka and Spark into a table during an upgrade.

`run_demo` leads: it starts the brokers, the Spark queries, the feeder and the director, watches
them until every acknowledged row has arrived, counts, and hands back the account.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from parley.client import Client, ProduceOptions
from parley.errors import ConfigError, JobError
from parley.pipelines import job
from parley.pipelines.account import Account, count_aggregates, count_table
from parley.pipelines.counting import count_files, table_batches, topic_records
from parley.pipelines.environments import EmbeddedEnvironment, Environment, OwnEnvironment
from parley.pipelines.feed import Feeder, Pace
from parley.pipelines.inputs import Dataset, open_input
from parley.pipelines.progress import Display, LiveDisplay, PlainDisplay, RateMeter, Snapshot
from parley.pipelines.queries.following import RowsDone
from parley.pipelines.scenario import Director, LeaderWatch

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

TARGET_SECONDS = 35
"""The embedded cluster is fed so long, whatever the input's size: upgrades take time."""

STALL_SECONDS = 120
"""When not a row has moved for as long, something is wrong that will not pass."""

_MARK = ".parley-demo"
_CLIENT_ID = "parley-demo"


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """What the demo is to do. No `input`: the flights; no brokers: its own."""

    input: Path | None = None
    key: tuple[str, ...] = ()
    partition_by: str | None = None
    bootstrap_servers: str | None = None
    output: Path = Path("demo-output")
    rows_per_second: float | None = None


def run_demo(options: DemoOptions) -> Account:
    """Run the job to its end and return the account, which may or may not balance.

    Raises ConfigError for options that cannot be, InputError for a bad line, NetworkError where no
    broker answers, JobError when a query fails, DiskFullError. KeyboardInterrupt passes through
    after everything was stopped in order.
    """
    began = time.monotonic()
    dataset = open_input(options.input, key=options.key, partition_by=options.partition_by)
    prepare_output(options.output)
    with ExitStack() as stack:
        display = stack.enter_context(choose_display())
        display.report(f"{dataset.row_count:,} rows in {dataset.path.name}")
        client, environment = _brokers(options, stack)
        plan = _plan(options, dataset, environment, client)
        display.report(
            f"brokers at {environment.bootstrap_servers}; topics {plan.topic} and "
            f"{plan.aggregates_topic}"
        )
        display.report("starting Spark")
        spark = stack.enter_context(job.spark_session(plan.log, options.output / "warehouse"))
        run = _Run(plan, environment, client, display, _pace(options, dataset), began)
        stack.callback(run.stop)
        run.start(*job.start_queries(spark, plan))
        try:
            run.watch()
        except KeyboardInterrupt:
            display.report(
                f"stopped by Ctrl-C; {run.state()}; stopping the queries and the brokers"
            )
            raise
        display.report("everything has arrived; counting what was written")
        account = _account(plan, environment, client, run)
    (options.output / "account.json").write_text(json.dumps(account.to_dict(), indent=2) + "\n")
    return account


def prepare_output(output: Path) -> None:
    """Make the output folder again. Raises ConfigError where another program wrote."""
    if output.exists():
        ours = output.is_dir() and ((output / _MARK).exists() or not any(output.iterdir()))
        if not ours:
            raise ConfigError(
                f'"{output}" holds something that the demo did not write; give another --output'
            )
        shutil.rmtree(output)
    output.mkdir(parents=True)
    (output / _MARK).touch()


@contextmanager
def choose_display() -> Iterator[Display]:
    """Show a live panel on a terminal, plain lines elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    display: Display
    if console.is_terminal and not console.is_dumb_terminal:
        display = LiveDisplay(console, time.monotonic)
    else:
        display = PlainDisplay(sys.stderr, time.monotonic)
    with display:
        yield display


def _brokers(options: DemoOptions, stack: ExitStack) -> tuple[Client, Environment]:
    """Start the embedded cluster, or reach the named brokers; return a client for either."""
    if options.bootstrap_servers is None:
        embedded = EmbeddedEnvironment()
        stack.callback(embedded.close)
        client = Client(bootstrap_servers=embedded.bootstrap_servers, client_id=_CLIENT_ID)
        return stack.enter_context(client), embedded
    client = stack.enter_context(
        Client(bootstrap_servers=options.bootstrap_servers, client_id=_CLIENT_ID)
    )
    return client, OwnEnvironment(options.bootstrap_servers, client)


def _plan(
    options: DemoOptions, dataset: Dataset, environment: Environment, client: Client
) -> job.JobPlan:
    """Name and create the topics; on brokers that are not ours under names that nobody uses."""
    suffix = f"-{secrets.token_hex(3)}" if options.bootstrap_servers is not None else ""
    topic = f"{dataset.name}{suffix}"
    aggregates = f"{dataset.name}-by-{dataset.partition_column}".replace(" ", "-") + suffix
    environment.create_topics(client, [topic, aggregates])
    return job.JobPlan(
        dataset=dataset,
        bootstrap_servers=environment.bootstrap_servers,
        topic=topic,
        aggregates_topic=aggregates,
        output=options.output,
    )


def _pace(options: DemoOptions, dataset: Dataset) -> Pace:
    if options.rows_per_second is not None:
        return Pace(options.rows_per_second)
    return Pace(dataset.row_count / TARGET_SECONDS if options.bootstrap_servers is None else 0)


class _Run:
    """The moving parts of one run, and the loop that watches them."""

    def __init__(
        self,
        plan: job.JobPlan,
        environment: Environment,
        client: Client,
        display: Display,
        pace: Pace,
        began: float,
    ) -> None:
        self._plan = plan
        self._began = began
        self._environment = environment
        self._display = display
        send = partial(client.produce, plan.topic, options=ProduceOptions(compression_type="lz4"))
        self.feeder = Feeder(plan.dataset, send, pace=pace, headers=environment.takes_headers())
        self.leaders = LeaderWatch(partial(environment.leaders, plan.topic))
        self._director: Director | None = environment.director(
            plan.topic, self._fraction, display.report
        )
        self._queries: tuple[StreamingQuery, ...] = ()
        self._rows_done: tuple[RowsDone, ...] = ()
        self._rate = RateMeter()
        self._start = time.monotonic()
        self._tick = threading.Event()
        self.seconds = 0.0

    def start(self, *queries: StreamingQuery) -> None:
        """Set everything in motion."""
        self._queries = queries
        self._rows_done = tuple(RowsDone(query) for query in queries)
        self._display.report("two streaming queries run; the rows begin to flow")
        self._start = time.monotonic()
        self.feeder.start()
        if self._director is not None:
            self._director.start()

    def watch(self) -> None:
        """Show the state until both queries have all rows. Raises what ended a part early."""
        last_move, moved_at = (-1, -1), time.monotonic()
        while True:
            for thread in (self.feeder, self._director):
                if thread is not None and thread.error is not None:
                    raise thread.error
            for query in self._queries:
                job.check_running(query, self._plan)
            done = [rows.count() for rows in self._rows_done]
            self._show(done[0])
            if self._arrived(done):
                self.seconds = time.monotonic() - self._start
                return
            if (self.feeder.ledger.rows, sum(done)) != last_move:
                last_move, moved_at = (self.feeder.ledger.rows, sum(done)), time.monotonic()
            elif time.monotonic() - moved_at > STALL_SECONDS:
                raise JobError(
                    f"no row has moved for {STALL_SECONDS} s: {self.state()}, "
                    f"{done[1]:,} are aggregated (the log of Spark is {self._plan.log})"
                )
            self._tick.wait(0.25)

    def state(self) -> str:
        """Return how far it has come, in words."""
        done = self._rows_done[0].count() if self._rows_done else 0
        return (
            f"{self.feeder.ledger.rows:,} rows were acknowledged, {done:,} are in "
            f"{self._plan.table}"
        )

    def stop(self) -> None:
        """Stop the feeder, the director and the queries, in this order; safe at any time."""
        for thread in (self.feeder, self._director):
            if thread is not None and thread.is_alive():
                thread.stop()
                thread.join(timeout=30)
        for query in self._queries:
            query.stop()

    def _arrived(self, done: list[int]) -> bool:
        upgraded = self._director is None or self._director.finished
        return self.feeder.finished and upgraded and min(done) >= self.feeder.ledger.rows

    def _fraction(self) -> float:
        return self.feeder.ledger.rows / self._plan.dataset.row_count

    def _show(self, rows_in_table: int) -> None:
        seconds = time.monotonic() - self._began
        leaders = self.leaders.look()
        self._display.show(
            Snapshot(
                seconds=seconds,
                rows_total=self._plan.dataset.row_count,
                rows_acknowledged=self.feeder.ledger.rows,
                rows_in_table=rows_in_table,
                rate=self._rate.rate(seconds, rows_in_table),
                brokers=self._environment.broker_rows(),
                leaders={partition: leader for partition, (leader, _) in leaders.items()},
                leader_moves=self.leaders.moves,
            )
        )


def _account(plan: job.JobPlan, environment: Environment, client: Client, run: _Run) -> Account:
    """Count what was written and state it."""
    run.leaders.look()
    table = count_table(table_batches(plan.table), run.feeder.ledger.checksums)
    aggregates = count_aggregates(topic_records(client, plan.aggregates_topic))
    return Account(
        source=str(plan.dataset.path),
        rows_in=plan.dataset.row_count,
        rows_acknowledged=run.feeder.ledger.rows,
        idempotent=run.feeder.ledger.idempotent,
        table=table,
        aggregates=aggregates,
        leader_moves=run.leaders.moves,
        brokers=environment.broker_facts(),
        seconds=run.seconds,
        output={
            "table": f"{plan.table} ({count_files(plan.table)} Parquet files, by "
            f"{plan.dataset.partition_column})",
            "topics": f"{plan.topic}, {plan.aggregates_topic}",
            "account": str(plan.output / "account.json"),
            "log": str(plan.log),
        },
    )
