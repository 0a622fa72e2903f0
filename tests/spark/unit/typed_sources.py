"""Typed values as Spark asks for them, without Spark: a source, its columns, and its rows."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType, _parse_datatype_json_string

from parley.client import Client
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import ColumnEncoder
from parley.spark.source import ParleySource

CITY = {"type": "record", "name": "City", "fields": [
    {"name": "name", "type": "string"}, {"name": "people", "type": "long"}]}  # fmt: skip
LATER = {**CITY, "fields": [*CITY["fields"], {"name": "mayor", "type": "string", "default": "?"}]}
CITY_TYPE = pa.struct([("name", pa.string()), ("people", pa.int64())])


def cities(registry: SchemaRegistryClient, topic: str, schema: dict[str, Any]) -> list[bytes]:
    """Return messages of three cities, and have the schema registered."""
    encoder = ColumnEncoder(
        registry, f"{topic}-value", Schema(json.dumps(schema)), auto_register_schemas=True
    )
    rows = pa.array([{"name": f"c{one}", "people": one} for one in range(3)], CITY_TYPE)
    found: list[bytes] = encoder.encode_values(rows).array.to_pylist()
    return found


def put(client: Client, topic: str, values: list[bytes | None], **more: pa.Array) -> None:
    client.produce(topic, pa.table({"value": pa.array(values, pa.binary()), **more}))


def sent(schema: StructType) -> StructType:
    """As Spark sends columns from process to process."""
    return _parse_datatype_json_string(schema.json())


def people(kind: DataType, name: str = "people", *, nullable: bool = True) -> StructType:
    return StructType([StructField(name, kind, nullable)])


def loaded(
    options: dict[str, str], own: StructType | None = None
) -> tuple[ParleySource, StructType]:
    """Return a source and its columns, as Spark has them after `load()`."""
    source = ParleySource(options)
    schema = own if own is not None else source.schema()
    assert isinstance(schema, StructType)
    return pickle.loads(pickle.dumps(source)), sent(schema)


def read(options: dict[str, str], own: StructType | None = None) -> list[dict[str, Any]]:
    source, schema = loaded(options, own)
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    rows = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            assert to_arrow_schema(schema, timezone="UTC").equals(batch.schema)
            rows += batch.to_pylist()
    return rows


def values(options: dict[str, str], own: StructType | None = None) -> list[Any]:
    return [row["value"] for row in read(options, own)]
