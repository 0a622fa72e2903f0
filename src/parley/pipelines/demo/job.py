"""The demo's work as a file of `parley run`: a copy, a table, an aggregate, and a proof.

`copy` takes the topic from the old cluster to the new one. `table` decodes its Avro and writes a
Delta table; `aggregates` counts the rows by a column into a second topic, whole after each batch;
both are queries of Spark, exactly once. `proof` compares both clusters' topics.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.pipelines.demo.inputs import Dataset

COPY, TABLE, AGGREGATES, PROOF = "copy", "table", "aggregates", "proof"
"""The flows."""
_TRIGGER = "1 second"
_BATCHES, _BATCH_ROWS = 10, 5_000
"""Micro-batches are a tenth of the rows, or 5,000: no huge one after a slow start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlan:
    """What the flows read and write."""

    name: str
    dataset: Dataset
    source: str
    """Bootstrap servers of the old cluster, and below of the new one."""
    target: str
    registry: str
    """The schema registry's URL."""
    topic: str
    aggregates_topic: str
    output: Path

    @property
    def file(self) -> Path:
        """The pipeline's file."""
        return self.output / "pipeline.toml"

    @property
    def table(self) -> Path:
        """The folder of the Delta table."""
        return self.output / self.dataset.name

    @property
    def log(self) -> Path:
        """Everything that Spark and its workers say."""
        return self.output / "state" / self.name / "spark.log"


def write_file(plan: JobPlan) -> None:
    """Write the pipeline's file."""
    plan.file.write_text(pipeline_text(plan), encoding="utf-8")


def pipeline_text(plan: JobPlan) -> str:
    """Return the pipeline as TOML."""
    batch = max(_BATCH_ROWS, plan.dataset.row_count // _BATCHES)
    reading = (
        f'from = {{ cluster = "new", topics = [{_text(plan.topic)}], '
        f'value = {{ format = "avro", registry = "main" }}, max-offsets-per-trigger = {batch} }}'
    )
    by = plan.dataset.partition_field
    return f"""\
# Written by `parley demo`, and what it ran.
[pipeline]
name = {_text(plan.name)}
state = "state"

[cluster.old]
"bootstrap.servers" = {_text(plan.source)}

[cluster.new]
"bootstrap.servers" = {_text(plan.target)}

[registry.main]
url = {_text(plan.registry)}

[spark]
{_settings(_spark(plan.output / "warehouse"))}

[flow.{COPY}]
kind = "copy"
from = {{ cluster = "old", topics = [{_text(plan.topic)}] }}
to = {{ cluster = "new" }}

[flow.{TABLE}]
kind = "ingest"
{reading}
select = [
    "value.*",
    "partition as kafka_partition",
    "offset as kafka_offset",
    "timestamp as kafka_timestamp",
]
to = {{ delta = {_text(plan.dataset.name)}, partition-by = [{_text(by)}] }}
trigger = "{_TRIGGER}"

[flow.{AGGREGATES}]
kind = "sql"
{reading}
sql = {_text(_aggregates(plan.dataset))}
output-mode = "complete"
trigger = "{_TRIGGER}"

[flow.{AGGREGATES}.to]
topic = {_text(plan.aggregates_topic)}
key = "cast(`group` as string)"
value = {{ format = "json" }}
delivery = "exactly-once"

[flow.{PROOF}]
kind = "verify"
to = {{ flow = "{COPY}" }}
"""


def _aggregates(dataset: Dataset) -> str:
    """Return the query of one row per value of the column that the table is partitioned by."""
    average = ""
    if dataset.measure_field is not None:
        average = f"round(avg(`{dataset.measure_field}`), 3) as `average`, "
    by = f"`{dataset.partition_field}`"
    rows = "select value.*, partition as kafka_partition from input"
    return f"select {by} as `group`, {average}count(*) as `rows` from ({rows}) group by {by}"


def _spark(warehouse: Path) -> Mapping[str, str]:
    """Return a small local session's settings: loopback, no web page, few shuffle partitions."""
    return {
        "master": f"local[{min(4, os.cpu_count() or 1)}]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _settings(settings: Mapping[str, str]) -> str:
    return "\n".join(f"{_text(name)} = {_text(value)}" for name, value in settings.items())


def _text(value: str) -> str:
    """Return a text as TOML has it, which is as JSON does."""
    return json.dumps(value, ensure_ascii=False)
