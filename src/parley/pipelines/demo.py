"""The demo job, whole: a file's rows as Avro into an old cluster, copied into a new one while both
are under way, decoded by Spark into a Delta table and an aggregate, compared and counted.

`run_demo` leads: it starts the brokers, the feeder, the directors and the pipeline, whose file
`job` writes, watches them until every acknowledged row has arrived, compares both clusters, counts,
and hands back the account.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from parley.client import ProduceOptions
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, JobError
from parley.pipelines import job
from parley.pipelines.account import Account, ProofFacts, count_aggregates, count_table
from parley.pipelines.counting import record_count, table_batches, table_text, topic_records
from parley.pipelines.declared import Pipeline, PlannedChange
from parley.pipelines.environments import EmbeddedEnvironment, Environment, OwnEnvironment
from parley.pipelines.feed import Encode, Feeder, Pace, row_type
from parley.pipelines.inputs import Dataset, open_input
from parley.pipelines.progress import Display, LiveDisplay, PlainDisplay, RateMeter, Snapshot
from parley.pipelines.rights import RIGHTS
from parley.pipelines.scenario import (
    NEW_RELEASES,
    OLD_RELEASES,
    Director,
    LeaderWatch,
    last_days,
    rolling_upgrade,
)
from parley.registry import SchemaRegistryClient
from parley.serdes.encoder import ColumnEncoder

TARGET_SECONDS = 30
"""The embedded clusters are fed so long, whatever the input's size: upgrades take time."""

STALL_SECONDS = 120
"""When not a row has moved for as long, something is wrong that will not pass."""

OLD, NEW = "old", "new"
_MARK = ".parley-demo"


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """What the demo is to do. No `input`: the flights; no `source` or `target`: brokers of its own,
    else bootstrap servers.
    """

    input: Path | None = None
    key: tuple[str, ...] = ()
    partition_by: str | None = None
    source: str | None = None
    target: str | None = None
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
        sides = _sides(options, stack)
        plan = _plan(options, dataset, sides, stack)
        encode = _encoder(plan)
        display.report(
            f"old brokers at {plan.source}, new ones at {plan.target}, schemas at {plan.registry}"
        )
        display.report(f"planning {plan.file}, and starting Spark")
        pipeline = stack.enter_context(Pipeline.from_file(plan.file))
        _show_plan(pipeline.plan(), display)
        run = _Run(plan, sides, encode, pipeline, display, _pace(options, dataset), began)
        stack.callback(run.stop)
        run.start()
        try:
            run.watch()
        except KeyboardInterrupt:
            display.report(
                f"stopped by Ctrl-C; {run.state()}; stopping the pipeline and the brokers"
            )
            raise
        run.stop()
        display.report("everything has arrived; comparing both clusters")
        proof = _proof(pipeline)
        display.report("counting what was written")
        account = _account(plan, sides, run, proof)
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


def _sides(options: DemoOptions, stack: ExitStack) -> tuple[Environment, Environment]:
    """Return the old cluster and the new one: embedded, or those that are named."""
    old = _environment(
        options.source, lambda: EmbeddedEnvironment(OLD, OLD_RELEASES, last_days()), OLD, stack
    )
    new = _environment(
        options.target,
        lambda: EmbeddedEnvironment(NEW, NEW_RELEASES, rolling_upgrade()),
        NEW,
        stack,
    )
    return old, new


def _environment(
    servers: str | None, embedded: Callable[[], Environment], name: str, stack: ExitStack
) -> Environment:
    found = embedded() if servers is None else OwnEnvironment(name, servers)
    return stack.enter_context(closing(found))


def _plan(
    options: DemoOptions,
    dataset: Dataset,
    sides: tuple[Environment, Environment],
    stack: ExitStack,
) -> job.JobPlan:
    """Create the topic and write the pipeline's file; on brokers that are not ours under names that
    nobody uses.
    """
    old, new = sides
    ours = options.source is None and options.target is None
    suffix = "" if ours else f"-{secrets.token_hex(3)}"
    registry = old.registry or new.registry
    if registry is None:
        registry = stack.enter_context(LocalCluster(1, schema_registry=True)).schema_registry.url
    plan = job.JobPlan(
        name=f"demo{suffix}",
        dataset=dataset,
        source=old.bootstrap_servers,
        target=new.bootstrap_servers,
        registry=registry,
        topic=f"{dataset.name}{suffix}",
        aggregates_topic=f"{dataset.name}-by-{dataset.partition_field}{suffix}",
        output=options.output,
    )
    old.create_topic(plan.topic)
    job.write_file(plan)
    return plan


def _pace(options: DemoOptions, dataset: Dataset) -> Pace:
    if options.rows_per_second is not None:
        return Pace(options.rows_per_second)
    return Pace(dataset.row_count / TARGET_SECONDS if options.source is None else 0)


def _encoder(plan: job.JobPlan) -> Encode:
    """Register the rows' schema; return what makes Avro of rows."""
    registry = SchemaRegistryClient(plan.registry)
    made = ColumnEncoder(registry, f"{plan.topic}-value", None, auto_register_schemas=True)
    made.prepare(row_type(plan.dataset))

    def encode(rows: pa.StructArray) -> pa.Array:
        return made.encode_values(rows).array

    return encode


def _show_plan(plan: Iterable[PlannedChange], display: Display) -> None:
    """Show what the pipeline will do. Raises ConfigError where something stands in the way."""
    for change in plan:
        place = f" {change.topic}" if change.topic else ""
        text = f"{change.flow}: {change.change}{place}, {change.what}"
        if change.stops:
            raise ConfigError(text)
        if change.change != RIGHTS:
            display.report(text)


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


class _Run:
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
        self._records: dict[str, int] = {}
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
        return self._records.get(job.COPY, 0)

    def state(self) -> str:
        """Return how far it has come, in words."""
        return (
            f"{self.feeder.ledger.rows:,} rows were acknowledged, {self.copied:,} copied, "
            f"{self._records.get(job.TABLE, 0):,} are in {self._plan.table}, "
            f"{self._records.get(job.AGGREGATES, 0):,} are aggregated"
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
        return all(self._records.get(name, 0) >= self._to_arrive for name in flows)

    def _is_warm(self) -> bool:
        """Return whether both queries have done a batch: what happens to brokers is to happen to
        them.
        """
        return all(self._records.get(name, 0) > 0 for name in (job.TABLE, job.AGGREGATES))

    def _fraction(self) -> float:
        return self.feeder.ledger.rows / self._plan.dataset.row_count

    def _show(self) -> None:
        seconds = time.monotonic() - self._began
        rows_in_table = self._records.get(job.TABLE, 0)
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


def _proof(pipeline: Pipeline) -> ProofFacts:
    """Compare what was copied with what it became."""
    began = time.monotonic()
    found = pipeline.verify([job.PROOF])[job.PROOF]
    different = found.first_difference
    return ProofFacts(
        records=sum(one.left_records for one in found.partitions),
        partitions=len(found.partitions),
        seconds=time.monotonic() - began,
        difference=None if different is None else str(different),
    )


def _account(
    plan: job.JobPlan, sides: tuple[Environment, Environment], run: _Run, proof: ProofFacts
) -> Account:
    """Count what was written and state it."""
    for one in run.leaders.values():
        one.look()
    _, new = sides
    ledger = run.feeder.ledger
    rows = table_batches(plan.table, plan.dataset, run.encode)
    return Account(
        source=str(plan.dataset.path),
        rows_in=plan.dataset.row_count,
        rows_acknowledged=ledger.rows,
        idempotent=ledger.idempotent,
        rows_copied=run.copied,
        proof=proof,
        table=count_table(rows, ledger.checksums),
        aggregates=count_aggregates(topic_records(new.client, plan.aggregates_topic)),
        leader_moves={name: one.moves for name, one in run.leaders.items()},
        brokers=tuple(fact for one in sides for fact in one.broker_facts()),
        seconds=run.seconds,
        output={
            "table": f"{plan.table} ({table_text(plan.table)})",
            "topics": f"{plan.topic}, {plan.aggregates_topic}",
            "pipeline": f"{plan.file}, which is what `parley run` takes",
            "account": str(plan.output / "account.json"),
            "log": str(plan.log),
        },
    )
