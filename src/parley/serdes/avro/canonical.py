"""Avro's Parsing Canonical Form: what of a schema counts for reading, written in one way."""

from __future__ import annotations

import json

from parley.serdes.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from parley.serdes.fingerprint import rabin


def canonical_form(schema: AvroType) -> str:
    """Return the canonical form of a schema.

    >>> from parley.serdes.avro import parse_schema
    >>> canonical_form(parse_schema('{"type": "fixed", "size": 4, "name": "a", "doc": "x"}'))
    '{"name":"a","type":"fixed","size":4}'
    """
    return _form(schema, set())


def fingerprint(schema: AvroType) -> int:
    """Return the Rabin fingerprint of a schema, as single-object encoding names it."""
    return rabin(canonical_form(schema).encode())


def _form(schema: AvroType, seen: set[str]) -> str:
    if isinstance(schema, Primitive):
        return f'"{schema.kind}"'
    if isinstance(schema, Union):
        return f"[{','.join(_form(one, seen) for one in schema.branches)}]"
    if isinstance(schema, Array):
        return f'{{"type":"array","items":{_form(schema.items, seen)}}}'
    if isinstance(schema, Map):
        return f'{{"type":"map","values":{_form(schema.values, seen)}}}'
    if schema.name in seen:
        return f'"{schema.name}"'
    seen.add(schema.name)
    head = f'{{"name":"{schema.name}","type":"{schema.kind}"'
    if isinstance(schema, Fixed):
        return f'{head},"size":{schema.size}}}'
    if isinstance(schema, Enum):
        return f'{head},"symbols":{json.dumps(schema.symbols, separators=(",", ":"))}}}'
    return f"{head},{_fields(schema, seen)}}}"


def _fields(record: Record, seen: set[str]) -> str:
    listed = (f'{{"name":"{one.name}","type":{_form(one.type, seen)}}}' for one in record.fields)
    return f'"fields":[{",".join(listed)}]'
