"""What JSON Schemas say about columns where several of their parts say something."""

from __future__ import annotations

import json

import jsonschema
import pyarrow as pa
import pytest

from parley.errors import SchemaError
from parley.serdes import Serializer
from parley.types import Json

from .test_json import decoded, encoder, schema

TEXT, WHOLE = pa.string(), pa.int64()
ID: Json = {"id": {"type": "integer"}}
ANY_OF_TWO: Json = {
    "type": "object", "properties": {"id": {"type": "integer"}, "a": {"type": "string"}},
    "anyOf": [{"required": ["id"]}, {"properties": {"a": {"const": "x"}}, "required": ["a"]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("described", "kind", "document"),
    [
        ({"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, TEXT, "a"),
        ({"type": "integer", "oneOf": [{"maximum": 3}, {"minimum": 9}]}, WHOLE, 2),
        ({"type": "string", "anyOf": [{"format": "date"}, {"type": "string"}]}, TEXT, "2026-11-03"),
        ({"type": ["string", "null"],
          "anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
         pa.date32(), "2026-11-03"),
        ({"type": "number", "allOf": [{"type": "integer"}, {"minimum": 1}]}, WHOLE, 5),
        ({"type": "array", "items": {"type": "string"},
          "anyOf": [{"type": "array", "minItems": 1}, {"type": "array"}]}, pa.list_(TEXT), ["a"]),
        ({"type": "object", "additionalProperties": {"type": "string"},
          "anyOf": [{"required": ["a"]}, {"properties": {"b": {"pattern": "x"}}}]},
         pa.map_(TEXT, TEXT), {"a": "y"}),
        (ANY_OF_TWO, pa.struct([("id", WHOLE), ("a", TEXT)]), {"id": 1, "a": "x"}),
        ({"properties": ID, "oneOf": [{"type": "null"}, {"properties": {"a": {"type": "string"}}}]},
         pa.struct([("id", WHOLE), ("a", TEXT)]), {"id": 1, "a": "x"}),
        ({"allOf": [{"properties": {"a": {"type": "string"}}},
                    {"properties": {"a": {"maxLength": 3}}}]},
         pa.struct([("a", TEXT)]), {"a": "x"}),
        ({"properties": {"tags": {"type": "array", "items": {"type": "string"}}},
          "oneOf": [{"required": ["tags"], "oneOf": [{"minProperties": 1}, {"maxProperties": 0}]},
                    {"not": {"required": ["tags"]}}]},
         pa.struct([("tags", pa.list_(TEXT))]), {"tags": ["a"]}),
    ],
)  # fmt: skip
def test_alternatives_do_not_hide_the_type_beside_them(
    described: Json, kind: pa.DataType, document: Json
) -> None:
    jsonschema.validate(document, described)
    found = decoded(described, document)
    assert (found.faults, found.array.type) == ({}, kind)
    assert '"' not in str(found.array.to_pylist()), "a text as JSON has it"
    (back,) = encoder(described).encode_values(found.array).array.to_pylist()
    assert json.loads(back) == document
    write = Serializer(None, schema=schema(described), value_format="json", framing="none")
    message = write(document)
    assert message is not None
    assert json.loads(message) == document


@pytest.mark.parametrize(
    "alternatives",
    [
        [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}],
        [{"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, {"required": ["id"]}],
        [{"type": ["object", "string"], "properties": {"a": {}}}, {"required": ["id"]}],
    ],
)
def test_alternatives_that_name_more_keep_the_whole_text(alternatives: Json) -> None:
    described: Json = {"type": "object", "properties": ID, "oneOf": alternatives}
    found = decoded(described, {"id": 1, "a": "x"})
    assert found.array.to_pylist() == ['{"id":1,"a":"x"}']


def test_a_property_that_may_be_null_is_written_as_null() -> None:
    inner: Json = {"properties": ID, "oneOf": [{"type": "null"}, {"type": "object"}]}
    described: Json = {"properties": {"in": inner}, "required": ["in"]}
    found = encoder(described).encode_values(decoded(described, {"in": None}).array)
    assert found.array.to_pylist() == [b'{"in":null}']


def test_references_name_anchors_and_may_be_encoded() -> None:
    described: Json = {
        "properties": {
            "anchor": {"$ref": "#addr"}, "dynamic": {"$ref": "#dyn"}, "id": {"$ref": "#by-id"},
            "encoded": {"$ref": "#/$defs/my%20def"}, "as_it_is": {"$ref": "#/$defs/a%20b"},
            "place": {"$ref": "#/$defs/list/oneOf/0"},
        },
        "$defs": {
            "x": {"$anchor": "addr", "type": "integer"},
            "y": {"$dynamicAnchor": "dyn", "type": "boolean"},
            "z": {"$id": "#by-id", "type": "number"},
            "my def": {"type": "integer"}, "a%20b": {"type": "boolean"},
            "list": {"oneOf": [{"type": "number"}]},
        },
    }  # fmt: skip
    kinds = [WHOLE, pa.bool_(), pa.float64(), WHOLE, pa.bool_(), pa.float64()]
    assert [one.type for one in decoded(described).array.type] == kinds
    for gone in ("#gone", "#/$defs/list/oneOf/1", "#/$defs/list/oneOf/" + "9" * 5_000):
        with pytest.raises(SchemaError, match="which is not there"):
            decoded({**described, "properties": {"a": {"$ref": gone}}})
