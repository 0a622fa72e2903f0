"""Whole numbers of JSON texts, in columns of integers."""

from __future__ import annotations

import json

import pytest

from parley.serdes.json_schema.reading import JsonGroupDecoder
from parley.serdes.json_schema.shapes import parse_shape
from parley.types import Json

from .test_json import decoded


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("9007199254740993.0", 2**53 + 1), ("-9007199254740993.00", -(2**53) - 1),
        ("9007199254740993000e-3", 2**53 + 1), ("9223372036854775807.0", 2**63 - 1),
        ("0e999", 0), ("1e18", 10**18),
        ("9007199254740993.25", "only rounds to 900719925474099"),
        ("1.00000000000000000001", "only rounds to 1.0"), ("9223372036854775808.0", "does not fit"),
        ("1e99999999999999999999", "inf (float)"), ("0." + "0" * 400 + "1", "only rounds to 0.0"),
    ],
)  # fmt: skip
def test_whole_numbers_have_all_their_digits(text: str, wanted: int | str, compiled: bool) -> None:
    """JSON Schema calls 1.0 an integer; a float of Python or JavaScript ends after 2^53."""
    described: Json = {"properties": {"i": {"type": "integer"}}}
    message = f'{{"i":{text}}}'.encode()
    if compiled:
        found = decoded(described, message)
        faults = [one.why for one in found.faults.values()]
        array = found.array
    else:
        group = JsonGroupDecoder(parse_shape(json.dumps(described))).decode([message])
        array, faults = group.array, [*group.faults.values()]
    if isinstance(wanted, int):
        assert (array.to_pylist(), faults) == ([{"i": wanted}], [])
    else:
        assert [wanted in one for one in faults] == [True]
