"""Keys of the kinds `ingest` and `sql` as options of a streaming query. Pure."""

from __future__ import annotations

from parley.errors import ConfigError
from parley.pipelines.checks import check_choice, check_number, size
from parley.pipelines.declared.keys import SQL
from parley.pipelines.declared.state import checkpoint_of
from parley.pipelines.declared.surroundings import (
    CATALOG,
    STORAGE,
    Surroundings,
    Table,
    Texts,
    as_text,
    lake_settings,
    place_of,
)
from parley.pipelines.queries import APPEND, DELTA, ICEBERG, ISOLATION, TOPIC, QueryOptions, Sink
from parley.spark.options.schema_table import DEAD_LETTER, FAIL, NULL

_LAKES = {"delta": (DELTA, "path", STORAGE), "iceberg": (ICEBERG, "table", CATALOG)}
_OF_TABLES = (
    "catalog", "storage", "partition_by", "evolve", "compact_every", "target_file_size"
)  # fmt: skip
_OF_TOPICS = ("to_key", "to_value", "delivery", "partitions")
_EVOLVE = {"refuse": "false", "add-columns": "true"}


def query_options(
    flow: str, kind: str, options: Table, clusters: tuple[str, str], around: Surroundings
) -> QueryOptions:
    """Return the query of a flow; `clusters` are those of its two sides."""
    source, target = clusters
    sink = _sink(options, around.clusters[target], around)
    watermark = options.pop("watermark", None)
    found = {
        "name": f"{around.name}-{flow}",
        "checkpoint": checkpoint_of(around.state, flow),
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
    found["startingOffsets"] = as_text(options.pop("start", "earliest"))
    for key, name in (
        ("headers", "includeHeaders"),
        ("max_offsets_per_trigger", "maxOffsetsPerTrigger"),
        ("min_partitions", "minPartitions"),
        ("isolation_level", ISOLATION),
        ("envelope", "envelope"),
    ):
        if key in options:
            found[name] = as_text(options.pop(key))
    if "max_bytes_per_trigger" in options:
        found["maxBytesPerTrigger"] = str(int(size(options.pop("max_bytes_per_trigger"))))
    loss = options.pop("on_data_loss", "fail")
    check_choice("on-data-loss", loss, "fail", "continue")
    found["failOnDataLoss"] = as_text(loss == "fail")
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
        texts = around.registry(registry).texts
        if found.get("schemaRegistryUrl", texts["schemaRegistryUrl"]) != texts["schemaRegistryUrl"]:
            raise ConfigError("keys and values are of two registries: one is asked")
        found |= texts
    elif plain:
        table.setdefault("framing", plain)
    if table.pop("register", False):
        found["registerSchemas"] = "true"
    if "schema" in table:
        table["schema"] = around.schema(table["schema"])
    for name, value in table.items():
        found[f"{part}{name.capitalize()}"] = value


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
        found["deadLetterLimit"] = as_text(given["max_per_task"])


# -- what is written -------------------------------------------------------------------------------


def _sink(options: Table, cluster: Texts, around: Surroundings) -> Sink:
    place = place_of(options, "to")
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
    catalog, settings = lake_settings(lake, options)
    found = {name: around.table(lake, str(options.pop(lake)))}
    if catalog is not None:
        found["catalog"] = catalog
    found |= {f"{prefix}.{one}": value for one, value in settings.items()}
    by = options.pop("partition_by", None)
    if by is not None:
        found["partitionBy"] = str(by)
    evolve = options.pop("evolve", "refuse")
    check_choice("evolve", evolve, *_EVOLVE)
    if _EVOLVE[str(evolve)] == "true":
        found["mergeSchema"] = "true"
    if "compact_every" in options:
        found["compactEvery"] = as_text(options.pop("compact_every"))
    if "target_file_size" in options:
        found["targetFileSize"] = str(int(size(options.pop("target_file_size"))))
    return Sink(format=form, options=found)


def _refuse(options: Table, others: tuple[str, ...], what: str) -> None:
    for name in others:
        if name in options:
            key = name.removeprefix("to_").replace("_", "-")
            raise ConfigError(f"to has {key}, which is for {what}")
