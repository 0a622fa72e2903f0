"""Batches of many writers and framings: with the compiled decoder as without it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pyarrow as pa
import pytest

from parley.serdes import ColumnDecoder, Schema, SchemaId, native
from parley.serdes.decoder import DecodedValues
from parley.types import Json

from .test_avro_decoder import CITY, Source, binary, encoded, framed, schema
from .test_avro_native import hold_equal

compiled = pytest.mark.skipif(
    native.why_reference is not None, reason=f"no compiled decoder: {native.why_reference}"
)


def both(decoder: ColumnDecoder, messages: pa.Array, **more: object) -> DecodedValues:
    """Hold a decoder to itself with every message framed and read in Python."""
    found = decoder.decode_values(messages, **more)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "why_reference", "asked for")
        pure = ColumnDecoder(decoder.source, decoder.schema, **decoder.options)  # type: ignore[attr-defined]
        hold_equal(found, pure.decode_values(messages, **more))  # type: ignore[arg-type]
    return found


class Kept(ColumnDecoder):
    """Remembers what it was made of."""

    def __init__(self, source: Source, schema: Schema, **options: object) -> None:
        super().__init__(source, schema, **options)  # type: ignore[arg-type]
        self.source, self.schema, self.options = source, schema, options


@compiled
def test_writers_that_alternate_fill_the_same_columns() -> None:
    newer = {**CITY, "fields": [{"name": "mayor", "type": "string"}, *CITY["fields"]]}  # type: ignore[misc]
    node: Json = {
        "type": "record",
        "name": "City",
        "fields": [*CITY["fields"], {"name": "twin", "type": ["null", "City"]}],
    }  # type: ignore[misc]
    odd: Json = {"type": "record", "name": "City", "fields": [{"name": "name", "type": "int"}]}
    known = {1: CITY, 2: newer, 3: node, 4: odd}
    source = Source({SchemaId(number): schema(one) for number, one in known.items()})
    rows = {
        1: encoded(CITY, {"name": "Oslo", "people": 1}),
        2: encoded(newer, {"mayor": "x", "name": "Bonn", "people": 2}),
        3: encoded(node, {"name": "Rom", "people": 3, "twin": None}),
        4: b"\x02",
        9: b"",
    }
    good = [framed(number, datum) for number, datum in rows.items()]
    bad = [good[0] + b"x", good[1][:-1], good[2][:-1], b"\x00\x00", b"\x01" + good[0], b""]
    messages = binary(*itertools.islice(itertools.cycle([*good, None, *bad, *good]), 200))
    decoder = Kept(source, schema(CITY))
    found = both(decoder, messages)
    assert found.array.field("name").to_pylist()[:3] == ["Oslo", "Bonn", "Rom"]
    assert {one.code for one in found.faults.values()} == {"framing", "schema", "datum"}
    both(decoder, messages.slice(7, 100))
    both(decoder, messages.slice(3, 0))
    both(decoder, binary())
    both(decoder, messages.cast(pa.large_binary()))


@compiled
@pytest.mark.parametrize(
    "framing", ["confluent", "confluent-prefix", "apicurio", "single-object", "none"]
)
def test_every_framing_says_the_same_of_every_beginning(framing: str) -> None:
    prefixes = [
        b"", b"\0", b"\0\0\0\0\1", b"\0\0\0\0\0\0\0\0\1", b"\xc3\x01", b"\1", b"{", b"\0\0\0\1",
        b"\xc3\x01" + b"\0" * 8, b"\x03\0" + b"\0" * 16,
    ]  # fmt: skip
    datum = encoded(CITY, {"name": "Oslo", "people": 1})
    messages = binary(*(one + end for one in prefixes for end in (b"", datum, datum + b"\0")))
    source = Source({SchemaId(1): schema(CITY)})
    both(Kept(source, schema(CITY), framing=framing), messages)


@compiled
def test_a_header_that_names_the_schema_comes_before_the_prefix() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    datum = encoded(CITY, {"name": "Oslo", "people": 1})
    source = Source({SchemaId(1): schema(CITY)})
    said = [{"key": "__value_schema_id", "value": b"\0\0\0\0\1"}]
    for headers in ([said, None], [[{"key": "other", "value": b"x"}], []], [None, None]):
        found = both(
            Kept(source, schema(CITY)), binary(datum, framed(1, datum)),
            headers=pa.array(headers, kind),
        )  # fmt: skip
        assert found.array[1].as_py() == {"name": "Oslo", "people": 1}


@pytest.mark.parametrize("why", ["asked for", "missing", "of another release"])
def test_without_the_compiled_decoder_all_goes_on(why: str) -> None:
    if why == "of another release" and native.why_reference is not None:
        pytest.skip("there is no compiled decoder to be of another release")
    hidden = {
        "asked for": "",
        "missing": "sys.modules['parley.serdes._native'] = None",
        "of another release": "import parley.serdes._native as n; n.CONTRACT = 0",
    }
    program = f"""
import sys
{hidden[why]}
import pyarrow as pa
from parley.serdes import ColumnDecoder, Schema, native
decoder = ColumnDecoder(None, Schema('"int"'), framing="none")
found = decoder.decode_values(pa.array([b"\\x02"], pa.binary()))
print(found.array.to_pylist(), native.why_reference)
"""
    environment = {**os.environ, "PARLEY_PURE": "1" if why == "asked for" else ""}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.startswith("[1] ")
    said = {"asked for": "PARLEY_PURE", "missing": "not installed", "of another release": "another"}
    assert said[why] in done.stdout
