"""A flow's test, run: embedded brokers and a registry in place of the file's, tables in a temporary
folder.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley.client import EARLIEST, LATEST, Client, FetchOptions, NewTopic, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError
from parley.pipelines.declared import keys
from parley.pipelines.declared.declaration import Declaration, Flow
from parley.pipelines.declared.reading import document_read, text_of
from parley.pipelines.declared.trials import Row, Trial, TrialResult, compare
from parley.pipelines.queries import AsyncQuery, QueryOptions, SharedSession
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import ColumnEncoder
from parley.spark.lakes.reading import delta_rows

Table = dict[str, Any]
PARTITIONS = 2
COMMITTED = FetchOptions(isolation_level="read_committed")
_FORMATS_OF_SCHEMAS = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


async def run_trial(declaration: Declaration, name: str, session: SharedSession) -> TrialResult:
    """Run a flow's test. Nothing outside of a temporary folder is touched.

    Raises ConfigError for a flow without a test, and for values that cannot be written.
    """
    trial = declaration.flows[name].trial
    if trial is None:
        raise ConfigError(f'{declaration.path}: the flow "{name}" has no [flow.{name}.test]')
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-test-")))
        stage = _Stage(declaration.path, name, trial, folder)
        await asyncio.to_thread(stage.open, stack)
        async with AsyncQuery(stage.options, session) as query:
            await query.run()
        found = await asyncio.to_thread(stage.found)
    return compare(name, trial.expect, found)


class _Stage:
    """The brokers, the registry and the folder of one test."""

    def __init__(self, path: Path, name: str, trial: Trial, folder: Path) -> None:
        self._path, self._name, self._trial, self._folder = path, name, trial, folder
        self._clusters: dict[str, LocalCluster] = {}
        self._table: Table = {}
        self._flow: Flow

    def open(self, stack: ExitStack) -> None:
        """Start what the flow needs, and write what is given."""
        text = text_of(self._path)
        document = tomllib.loads(text)
        self._table = document["flow"][self._name]
        source = self._table["from"]["cluster"]
        for cluster in dict.fromkeys((source, self._table["to"].get("cluster", source))):
            self._clusters[cluster] = stack.enter_context(LocalCluster(1, schema_registry=True))
        self._rewrite(document, source)
        found = document_read(text, self._path, document)
        self._flow = found.flows[self._name]
        self._write(source)

    @property
    def options(self) -> QueryOptions:
        """The query of the test."""
        assert isinstance(self._flow.options, QueryOptions)
        return self._flow.options

    def _rewrite(self, document: Table, source: str) -> None:
        """Put what runs here in the place of what the file names."""
        document["pipeline"]["state"] = str(self._folder / "state")
        document["flow"] = {self._name: self._table}
        registry = self._clusters[source].schema_registry.url
        document["registry"] = {one: {"url": registry} for one in document.get("registry", {})}
        document["cluster"] = {
            name: {"bootstrap.servers": cluster.bootstrap_servers}
            for name, cluster in self._clusters.items()
        }
        self._table |= {"trigger": "available-now"}
        self._table["from"] |= {"start": "earliest"}
        to = self._table["to"]
        if "topic" not in to:  # an Iceberg table has the same rows
            for key in ("iceberg", "catalog", "storage", "compact-every"):
                to.pop(key, None)
            to["delta"] = str(self._folder / "table")

    # -- what is given -----------------------------------------------------------------------------

    def _write(self, source: str) -> None:
        by_topic: dict[str, list[Row]] = {}
        for one in self._trial.given:
            by_topic.setdefault(str(one["topic"]), []).append(one)
        with Client(bootstrap_servers=self._clusters[source].bootstrap_servers) as client:
            client.create_topics([NewTopic(topic, PARTITIONS) for topic in by_topic])
            for topic, rows in by_topic.items():
                for table in self._encoded(topic, rows, source):
                    client.produce(topic, table)

    def _encoded(self, topic: str, rows: Sequence[Row], source: str) -> Iterator[pa.Table]:
        columns: dict[str, Any] = {
            part: self._column(topic, part, [one.get(part) for one in rows], source)
            for part in ("key", "value")
        }
        times = [keys.moment(one["timestamp"]) if "timestamp" in one else None for one in rows]
        for index, time in enumerate(times):  # a column of times has all or none
            picked = {name: column.slice(index, 1) for name, column in columns.items()}
            if time is not None:
                picked["timestamp"] = pa.array([time], pa.int64())
            if (partition := rows[index].get("partition")) is not None:
                picked["partition"] = pa.array([partition], pa.int32())
            yield pa.table(picked)

    def _column(self, topic: str, part: str, values: list[object], source: str) -> pa.Array:
        """Return the bytes of keys or values, as the flow reads them."""
        given = self._table["from"].get(part)
        if given is None:
            return pa.array([_bytes(one) for one in values], pa.binary())
        registry = SchemaRegistryClient(self._clusters[source].schema_registry.url)
        subject = given.get("subject", f"{topic}-{part}")
        framing = given.get("framing", "confluent")
        encoder = ColumnEncoder(
            registry,
            subject,
            self._schema(subject),
            value_format=given["format"],
            framing="confluent-prefix" if framing == "confluent" else framing,
            auto_register_schemas=True,
            message=given.get("message"),
        )
        encoded = encoder.encode(pa.table({"value": pa.array(values)}))
        return encoded.column("value").combine_chunks()

    def _schema(self, subject: str) -> Schema | None:
        name = self._trial.schemas.get(subject)
        if name is None:
            return None  # it is derived from the values
        file = self._path.parent / name
        try:
            return Schema(file.read_text(encoding="utf-8"), _FORMATS_OF_SCHEMAS[file.suffix])
        except (OSError, KeyError) as error:
            raise ConfigError(f"schemas: {file} cannot be used: {error!r}") from None

    # -- what came of it ---------------------------------------------------------------------------

    def found(self) -> list[Row]:
        """Return what the flow has written."""
        to = self._table["to"]
        if "delta" in to:
            return [{"row": row} for row in delta_rows(Path(to["delta"]))]
        cluster = self._clusters[to.get("cluster", self._table["from"]["cluster"])]
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            partitions = client.metadata((to["topic"],)).topics[to["topic"]].partitions
            ranges = {TopicPartition(to["topic"], one): (EARLIEST, LATEST) for one in partitions}
            rows = [
                row
                for found in client.fetch_many(ranges, COMMITTED, **self._decoding(to))
                for row in found.batch.to_pylist()
            ]
        plain = "registry" not in to.get("value", {})
        return [
            {
                "topic": to["topic"],
                "key": _plain(row["key"]),
                "value": _plain(row["value"]) if plain else row["value"],
            }
            for row in rows
        ]

    def _decoding(self, to: Mapping[str, Any]) -> dict[str, Any]:
        value = to.get("value", {})
        if "registry" not in value:
            return {}
        url = self._clusters[self._table["from"]["cluster"]].schema_registry.url
        return {"value_format": value["format"], "schema_registry_url": url}


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()


def _plain(value: bytes | None) -> object:
    """Return what bytes mean: JSON's objects, else a text."""
    if value is None:
        return None
    text = value.decode(errors="replace")
    try:
        return json.loads(text) if text.startswith(("{", "[")) else text
    except ValueError:
        return text
