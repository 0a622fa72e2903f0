"""Avro schemas against two other implementations: fastavro's canonical form, and the resolution
that Avro's own Python package checks.
"""

from __future__ import annotations

import json
import time

import fastavro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as their_parse
from hypothesis import given, settings

from parley.errors import SchemaError
from parley.serdes.avro import (
    Array,
    Enum,
    Fixed,
    Primitive,
    Record,
    Union,
    canonical_form,
    fingerprint,
    incompatibilities,
    parse_schema,
)
from parley.types import Json

from .avro_cases import schemas


@settings(max_examples=30)
@given(schemas())
def test_the_canonical_form_is_fastavros(schema: Json) -> None:
    parsed = parse_schema(json.dumps(schema))
    theirs = fastavro.schema.to_parsing_canonical_form(schema)
    assert canonical_form(parsed) == theirs
    rabin = fastavro.schema.fingerprint(theirs, "CRC-64-AVRO")
    assert fingerprint(parsed).to_bytes(8, "little").hex() == rabin
    assert canonical_form(parse_schema(theirs)) == theirs


@settings(max_examples=60)
@given(schemas(), schemas())
def test_resolution_is_that_of_avros_own_package(reader: Json, writer: Json) -> None:
    checked = ReaderWriterCompatibilityChecker().get_compatibility(
        their_parse(json.dumps(reader)), their_parse(json.dumps(writer))
    )
    theirs = checked.compatibility is SchemaCompatibilityType.compatible
    found = incompatibilities(parse_schema(json.dumps(reader)), parse_schema(json.dumps(writer)))
    assert (not found) is theirs, (found, checked.incompatibilities)
    assert not incompatibilities(parse_schema(json.dumps(reader)), parse_schema(json.dumps(reader)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON"),
        ("7", "7 is no type"),
        ("{}", "without a type"),
        ('"Nothing"', 'no type "Nothing"'),
        ('{"type": "record", "name": "R"}', "no list of fields"),
        ('{"type": "record", "name": "1", "fields": []}', '"1" is no name'),
        ('{"type": "record", "fields": []}', "without a name"),
        ('{"type": "enum", "name": "E", "symbols": ["a", "a"]}', "a symbol twice"),
        ('{"type": "enum", "name": "E", "symbols": ["a"], "default": "b"}', "is no symbol"),
        ('{"type": "fixed", "name": "F", "size": -1}', "no size"),
        ('{"type": "array"}', "array without items"),
        ('["int", "int"]', "twice"),
        ('["int", ["null"]]', "union within a union"),
        ('{"type": "fixed", "name": "int", "size": 1}', "used twice"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        parse_schema(text)


def test_errors_name_the_field() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "int", "default": ""}]}
    outer = {"type": "record", "name": "O", "fields": [{"name": "a", "type": inner}]}
    with pytest.raises(SchemaError, match=r"^a\.b: the default \"\" does not fit") as caught:
        parse_schema(json.dumps(outer))
    assert caught.value.path == "a.b"


def test_names_namespaces_references_and_records_within_themselves() -> None:
    city = '{"type": "fixed", "name": "City", "namespace": "geo", "size": 3}'
    node = parse_schema(
        '{"type": "record", "name": "geo.Node", "fields": ['
        '{"name": "next", "type": ["null", "Node"]}, {"name": "city", "type": "City"},'
        '{"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},'
        '{"name": "odd", "type": {"type": "string", "logicalType": "date"}}]}',
        [city],
    )
    assert isinstance(node, Record)
    following, where, when, odd = (one.type for one in node.fields)
    assert isinstance(following, Union)
    assert following.branches[1] is node
    assert isinstance(where, Fixed)
    assert where.name == "geo.City"
    assert isinstance(when, Primitive)
    assert when.logical is not None
    assert isinstance(odd, Primitive)
    assert odd.logical is None, "a logical type that does not fit is ignored"
    assert not incompatibilities(node, node)


def test_aliases_and_defaults_let_readers_go_on() -> None:
    old = parse_schema('{"type": "enum", "name": "Old", "symbols": ["A", "B"]}')
    new = parse_schema(
        '{"type": "enum", "name": "New", "aliases": ["Old"], "symbols": ["A"], "default": "A"}'
    )
    assert isinstance(new, Enum)
    assert not incompatibilities(new, old)
    assert [one.kind for one in incompatibilities(old, new)] == ["NAME_MISMATCH"]


def test_deep_and_wide_schemas_are_bounded() -> None:
    deep = '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000
    with pytest.raises(SchemaError, match=r"nested deeper|no JSON"):
        parse_schema(deep)
    kept = parse_schema('{"type":"array","items":' * 90 + '"int"' + "}" * 90)
    assert isinstance(kept, Array)
    fields = ",".join(f'{{"name": "f{i}", "type": "int"}}' for i in range(1_000))
    users = ",".join(f'{{"name": "u{i}", "type": "Wide"}}' for i in range(1_000))
    reader = parse_schema(
        f'{{"type": "record", "name": "Top", "fields": [{{"name": "w", "type": {{"type": "record",'
        f'"name": "Wide", "fields": [{fields}]}}}},{users}]}}'
    )
    writer = parse_schema(
        '{"type": "record", "name": "Top", "fields": [{"name": "w", "type": {"type": "record",'
        f'"name": "Wide", "fields": []}}}},{users}]}}'
    )
    began = time.process_time()
    assert len(incompatibilities(reader, writer)) == 100
    assert time.process_time() - began < 10
