"""Speed of typed values alone, on one core: million messages per second, beside other libraries.

    python benchmarks/schemas.py [--rows 100000] [--repeat 5] [--json]

Avro messages have ten fields (a long, three strings of which one may be null, a double, an int, a
boolean, a timestamp, an array of two strings, a record of two), in Confluent's frames; JSON has the
same fields. Rates are per second of processor time, the best of the repeats. What is slow gets a
tenth of the rows.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Sequence

import fastavro
import pyarrow as pa
import pyarrow.json

from parley.serdes import (
    ColumnDecoder,
    ColumnEncoder,
    NamedSchema,
    Schema,
    SchemaId,
    SchemaRef,
    native,
)
from parley.types import Json

FIELDS: list[Json] = [
    {"name": "id", "type": "long"},
    {"name": "user", "type": "string"},
    {"name": "city", "type": "string"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "amount", "type": "double"},
    {"name": "count", "type": "int"},
    {"name": "paid", "type": "boolean"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {
        "name": "place",
        "type": {
            "type": "record",
            "name": "Place",
            "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "double"}],
        },
    },
]
ORDER: Json = {"type": "record", "name": "Order", "fields": FIELDS}
OLDER: Json = {"type": "record", "name": "Order", "fields": [FIELDS[1], FIELDS[0], *FIELDS[2:]]}
JSON_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "user": {"type": "string"},
        "city": {"type": "string"},
        "note": {"type": ["null", "string"]},
        "amount": {"type": "number"},
        "count": {"type": "integer", "connect.type": "int32"},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
        },
    },
}


class Known:
    """A registry in memory."""

    def __init__(self, schemas: dict[SchemaRef, Schema]) -> None:
        self._schemas = schemas

    def get_schema_for(self, ref: SchemaRef) -> Schema:
        return self._schemas[ref]

    def get_references(self, schema: Schema) -> Sequence[NamedSchema]:
        return ()


def row(number: int) -> dict[str, object]:
    return {
        "id": number * 7919,
        "user": f"user-{number % 5000}",
        "city": ("Oslo", "Kraków", "Lisboa", "Wien")[number % 4],
        "note": None if number % 3 else f"note {number}",
        "amount": number / 7,
        "count": number % 100,
        "paid": number % 2 == 0,
        "at": 1_790_000_000_000 + number,
        "tags": ["new", f"t{number % 10}"],
        "place": {"x": number / 3, "y": -number / 9},
    }


def framed(number: int, described: Json, rows: Sequence[dict[str, object]]) -> list[bytes]:
    parsed = fastavro.parse_schema(described)
    found = []
    for one in rows:
        out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, one)
        found.append(out.getvalue())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [row(number) for number in range(arguments.rows)]
    found = {
        name: best(arguments.repeat, work) / 1e6
        for name, work in {**avro(rows), **json_texts(rows)}.items()
    }
    if arguments.json:
        print(json.dumps({"compiled": native.why_reference is None, "rates": found}))
        return
    print(f"decoder: {native.why_reference or 'compiled'}; {arguments.rows} messages")
    for name, rate in found.items():
        print(f"{name:<58}{rate:8.3f}")


def avro(rows: Sequence[dict[str, object]]) -> dict[str, Callable[[], int]]:
    new, old = framed(1, ORDER, rows), framed(2, OLDER, rows)
    mixed = [pair[index % 2] for index, pair in enumerate(zip(new, old, strict=True))]
    source = Known({SchemaId(1): Schema(json.dumps(ORDER)), SchemaId(2): Schema(json.dumps(OLDER))})
    reader = Schema(json.dumps(ORDER))
    whole = ColumnDecoder(source, reader)
    two = ColumnDecoder(source, reader, columns=["id", "amount"])
    one_id, two_ids = pa.array(new, pa.binary()), pa.array(mixed, pa.binary())
    few = new[: max(1, len(new) // 10)]
    parsed = fastavro.parse_schema(ORDER)

    def with_fastavro() -> int:
        found = [fastavro.schemaless_reader(io.BytesIO(one[5:]), parsed, None) for one in few]
        return pa.RecordBatch.from_pylist(found).num_rows

    def encode_with_fastavro() -> int:
        return len(framed(1, ORDER, rows[: len(few)]))

    writing = ColumnEncoder(None, schema=reader, ref=SchemaId(1))
    column = whole.decode_values(one_id).array
    return {
        "avro encoded: 10 fields": lambda: len(writing.encode_values(column).array),
        "avro encoded: fastavro": encode_with_fastavro,
        "avro: 10 fields": lambda: decoded(whole, one_id),
        "avro: 10 fields, two ids that alternate": lambda: decoded(whole, two_ids),
        "avro: 2 of 10 fields": lambda: decoded(two, one_id),
        "avro: fastavro, then RecordBatch.from_pylist": with_fastavro,
    }


def json_texts(rows: Sequence[dict[str, object]]) -> dict[str, Callable[[], int]]:
    texts = [json.dumps({**one, "at": "2026-11-03T04:05:06.789Z"}).encode() for one in rows]
    reader = Schema(json.dumps(JSON_SCHEMA), "JSON")
    whole = ColumnDecoder(None, reader, value_format="json", framing="none")
    two = ColumnDecoder(None, reader, value_format="json", framing="none", columns=["id", "amount"])
    column = pa.array(texts, pa.binary())
    few = texts[: max(1, len(texts) // 10)]

    def with_json() -> int:
        return pa.RecordBatch.from_pylist([json.loads(one) for one in few]).num_rows

    def with_pyarrow() -> int:
        options = pyarrow.json.ReadOptions(use_threads=False)
        found: int = pyarrow.json.read_json(io.BytesIO(b"\n".join(texts)), options).num_rows
        return found

    writing = ColumnEncoder(None, schema=reader, value_format="json", framing="none")
    columns = whole.decode_values(column).array

    def encode_with_json() -> int:
        found = columns.slice(0, len(few)).to_pylist()
        return len([json.dumps(one, separators=(",", ":"), default=str).encode() for one in found])

    return {
        "json encoded: 10 fields": lambda: len(writing.encode_values(columns).array),
        "json encoded: to_pylist, then json.dumps": encode_with_json,
        "json: 10 fields": lambda: decoded(whole, column),
        "json: 2 of 10 fields": lambda: decoded(two, column),
        "json: pyarrow.json, messages joined by newlines": with_pyarrow,
        "json: json.loads, then RecordBatch.from_pylist": with_json,
    }


def decoded(decoder: ColumnDecoder, messages: pa.Array) -> int:
    found = decoder.decode_values(messages)
    assert not found.faults
    return len(found.array)


def best(repeat: int, work: Callable[[], int]) -> float:
    found = 0.0
    for _ in range(repeat):
        start = time.process_time()
        rows = work()
        found = max(found, rows / (time.process_time() - start))
    return found


if __name__ == "__main__":
    main()
