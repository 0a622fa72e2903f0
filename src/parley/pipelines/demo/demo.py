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
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from parley.devcluster import LocalCluster
from parley.errors import ConfigError
from parley.pipelines.declared import Pipeline, PlannedChange
from parley.pipelines.demo import job
from parley.pipelines.demo.account import Account, ProofFacts, count_aggregates, count_table
from parley.pipelines.demo.counting import table_batches, table_text, topic_records
from parley.pipelines.demo.environments import EmbeddedEnvironment, Environment, OwnEnvironment
from parley.pipelines.demo.feed import Encode, Pace, row_type
from parley.pipelines.demo.inputs import Dataset, open_input
from parley.pipelines.demo.progress import Display, LiveDisplay, PlainDisplay
from parley.pipelines.demo.running import Run
from parley.pipelines.demo.scenario import (
    NEW_RELEASES,
    OLD_RELEASES,
    Step,
    last_days,
    rolling_upgrade,
)
from parley.pipelines.rights import RIGHTS
from parley.registry import SchemaRegistryClient
from parley.serdes.encoder import ColumnEncoder

TARGET_SECONDS = 25
"""The embedded clusters are fed so long, whatever the input's size: upgrades take time."""

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
        run = Run(plan, sides, encode, pipeline, display, _pace(options, dataset), began)
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
    old = _environment(OLD, options.source, OLD_RELEASES, last_days())
    stack.callback(old.close)
    new = _environment(NEW, options.target, NEW_RELEASES, rolling_upgrade())
    stack.callback(new.close)
    return old, new


def _environment(
    name: str, servers: str | None, releases: Mapping[int, str], steps: Sequence[Step]
) -> Environment:
    if servers is not None:
        return OwnEnvironment(name, servers)
    return EmbeddedEnvironment(name, releases, steps)


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
    plan: job.JobPlan, sides: tuple[Environment, Environment], run: Run, proof: ProofFacts
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
