"""Keys of the kinds `ingest` and `sql` as options of a streaming query. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from parley.client import ClientOptions, dotted_name, option_names
from parley.errors import ConfigError, nearest_hint
from parley.pipelines.checks import check_choice, check_number, size
from parley.pipelines.declared.keys import SQL
from parley.pipelines.queries import APPEND, DELTA, ICEBERG, ISOLATION, TOPIC, QueryOptions, Sink
from parley.registry import RegistryOptions
from parley.spark.options.schema_table import DEAD_LETTER, FAIL, NULL, REGISTRY_ROWS
from parley.types import Secret

Table = dict[str, object]
Texts = Mapping[str, str]
_OF_CLIENT = {field.name: dotted_name(field) for field in fields(ClientOptions)}
_LAKES = {"delta": (DELTA, "path", "storage"), "iceberg": (ICEBERG, "table", "catalog")}
_OF_TABLES = (
    "catalog", "storage", "partition_by", "evolve", "compact_every", "target_file_size"
)  # fmt: skip
_OF_TOPICS = ("to_key", "to_value", "delivery", "partitions")
_EVOLVE = {"refuse": "false", "add-columns": "true"}


class Surroundings(NamedTuple):
    """What a file has beside its flows."""

    name: str
    """Of the pipeline."""
    folder: Path
    """The file's."""
    state: Path
    clusters: Mapping[str, Texts]
    registries: Mapping[str, Texts]
    """Both as options of Spark's data source."""


def cluster_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return a cluster's settings as options of the data source.

    >>> cluster_texts({"bootstrap_servers": "a:9092"})
    {'kafka.bootstrap.servers': 'a:9092'}
    """
    names = option_names(ClientOptions)
    return {f"kafka.{_OF_CLIENT[names[name]]}": _text(value) for name, value in settings.items()}


def registry_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return a schema registry's settings as options of the data source.

    Raises ConfigError as `RegistryOptions`, and for what cannot be sent to Spark's workers.
    """
    options = RegistryOptions.from_config(settings)
    found = {"schemaRegistryUrl": options.url}
    for field in fields(RegistryOptions):
        value = getattr(options, field.name)
        if field.name == "url" or value == field.default:
            continue
        if field.name not in REGISTRY_ROWS:
            raise ConfigError(f"{field.name} cannot be given in a file")
        found[REGISTRY_ROWS[field.name].name] = _text(value)
    return found


def query_options(
    flow: str, kind: str, options: Table, clusters: tuple[str, str], around: Surroundings
) -> QueryOptions:
    """Return the query of a flow; `clusters` are those of its two sides."""
    source, target = clusters
    sink = _sink(options, around.clusters[target], around)
    watermark = options.pop("watermark", None)
    found = {
        "name": f"{around.name}-{flow}",
        "checkpoint": (around.state / flow / "v1" / "checkpoint").resolve(),
        "source": _source(options, around.clusters[source], around),
        "sink": sink,
        "sql": _sql(options, kind),
        "watermark": _watermark(watermark) if watermark is not None else None,
        "transform": options.pop("transform", None),
        "modules": around.folder,
        "trigger": options.pop("trigger", None),
        "output_mode": options.pop("output_mode", APPEND),
    }
    return QueryOptions(**found)  # type: ignore[arg-type]  # it checks each


def _sql(options: Table, kind: str) -> str:
    if kind == SQL:
        if "sql" not in options:
            raise ConfigError("sql is missing: what is to be selected from input?")
        return str(options.pop("sql"))
    where = options.pop("where", None)
    return f"select {options.pop('select', '*')} from input" + (f" where {where}" if where else "")


def _watermark(given: object) -> tuple[str, str]:
    assert isinstance(given, dict)  # checked when it was read
    if not all(isinstance(given.get(name), str) for name in ("column", "delay")):
        raise ConfigError('watermark is like { column = "timestamp", delay = "10 minutes" }')
    return given["column"], given["delay"]


# -- what is read ----------------------------------------------------------------------------------


def _source(options: Table, cluster: Texts, around: Surroundings) -> dict[str, str]:
    found = dict(cluster)
    topics = options.pop("topics", None)
    if isinstance(topics, list) and topics and all(isinstance(one, str) for one in topics):
        found["subscribe"] = ",".join(topics)
    elif isinstance(topics, str):
        found["subscribePattern"] = topics
    else:
        raise ConfigError("from names no topics: give a list, or a regular expression")
    found["startingOffsets"] = _text(options.pop("start", "earliest"))
    for key, name in (
        ("headers", "includeHeaders"),
        ("max_offsets_per_trigger", "maxOffsetsPerTrigger"),
        ("min_partitions", "minPartitions"),
        ("isolation_level", ISOLATION),
        ("envelope", "envelope"),
    ):
        if key in options:
            found[name] = _text(options.pop(key))
    if "max_bytes_per_trigger" in options:
        found["maxBytesPerTrigger"] = str(int(size(options.pop("max_bytes_per_trigger"))))
    loss = options.pop("on_data_loss", "fail")
    check_choice("on-data-loss", loss, "fail", "continue")
    found["failOnDataLoss"] = _text(loss == "fail")
    for part in ("value", "key"):
        _add_format(found, part, options.pop(f"from_{part}", None), around, "")
    _add_errors(found, options.pop("errors", None))
    return found


def _add_format(
    found: dict[str, str], part: str, given: object, around: Surroundings, plain: str
) -> None:
    """Add how keys or values are decoded or encoded; `plain` is the framing without a registry."""
    if given is None:
        return
    assert isinstance(given, dict)  # checked when it was read
    table = dict(given)
    registry = table.pop("registry", None)
    if "format" not in table:
        raise ConfigError(f"{part} has no format: avro, json or protobuf")
    if registry is not None:
        if registry not in around.registries:
            hint = nearest_hint(str(registry), list(around.registries))
            raise ConfigError(f"registry={registry!r} is not declared: [registry.NAME].{hint}")
        texts = around.registries[registry]
        if found.get("schemaRegistryUrl", texts["schemaRegistryUrl"]) != texts["schemaRegistryUrl"]:
            raise ConfigError("keys and values are of two registries: one is asked")
        found |= texts
    elif plain:
        table.setdefault("framing", plain)
    if table.pop("register", False):
        found["registerSchemas"] = "true"
    for name, value in table.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else _text(value)
        found[f"{part}{name.capitalize()}"] = text


def _add_errors(found: dict[str, str], given: object) -> None:
    if given is None:
        return
    assert isinstance(given, dict)  # checked when it was read
    mode = given.get("mode", DEAD_LETTER if "topic" in given else FAIL)
    check_choice("mode", mode, FAIL, NULL, DEAD_LETTER)
    found["onSchemaError"] = mode
    if "topic" in given:
        found["deadLetterTopic"] = str(given["topic"])
    if "max_per_task" in given:
        check_number("max-per-task", given["max_per_task"], 0)
        found["deadLetterLimit"] = _text(given["max_per_task"])


# -- what is written -------------------------------------------------------------------------------


def _sink(options: Table, cluster: Texts, around: Surroundings) -> Sink:
    places = [name for name in ("topic", *_LAKES) if name in options]
    if len(places) != 1:
        raise ConfigError(
            f"to has {' and '.join(places) or 'no place'}: give one of topic, delta and iceberg"
        )
    (place,) = places
    if place != "topic":
        return _table(place, options, around)
    _refuse(options, _OF_TABLES, "tables")
    found = {**cluster, "topic": str(options.pop("topic"))}
    if "delivery" in options:
        found["delivery"] = str(options.pop("delivery"))
    _add_format(found, "value", options.pop("to_value", None), around, "none")
    partitions = options.pop("partitions", -1)
    if partitions != -1:
        check_number("partitions", partitions, 1)
    key = options.pop("to_key", None)
    return Sink(format=TOPIC, options=found, key=key, partitions=partitions)  # type: ignore[arg-type]


def _table(lake: str, options: Table, around: Surroundings) -> Sink:
    _refuse(options, _OF_TOPICS, "topics")
    form, name, prefix = _LAKES[lake]
    where = str(options.pop(lake))
    found = {name: str(around.folder / where) if lake == "delta" and _is_folder(where) else where}
    for key in ("storage", "catalog"):
        table = options.pop(key, None)
        if key == "catalog" and isinstance(table, str):
            found["catalog"] = table
        elif isinstance(table, dict) and key == prefix:
            found |= {f"{prefix}.{one}": _text(value) for one, value in table.items()}
        elif table is not None:
            raise ConfigError(f"{key}={table!r} is not for {lake}: give {prefix} = {{ ... }}")
    by = options.pop("partition_by", None)
    if by is not None:
        found["partitionBy"] = ",".join(by) if isinstance(by, list) else _text(by)
    evolve = options.pop("evolve", "refuse")
    check_choice("evolve", evolve, *_EVOLVE)
    if _EVOLVE[str(evolve)] == "true":
        found["mergeSchema"] = "true"
    if "compact_every" in options:
        found["compactEvery"] = _text(options.pop("compact_every"))
    if "target_file_size" in options:
        found["targetFileSize"] = str(int(size(options.pop("target_file_size"))))
    return Sink(format=form, options=found)


def _refuse(options: Table, others: tuple[str, ...], what: str) -> None:
    for name in others:
        if name in options:
            key = name.removeprefix("to_").replace("_", "-")
            raise ConfigError(f"to has {key}, which is for {what}")


def _is_folder(path: str) -> bool:
    return "://" not in path


def _text(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    return str(value).lower() if isinstance(value, bool) else str(value)
