"""Framings: bytes that other serializers wrote, hostile bytes, and what they look like instead."""

from __future__ import annotations

import pickle
import tracemalloc
import zlib
from uuid import UUID

import pytest
from confluent_kafka.schema_registry.common.serde import SchemaId as TheirId
from hypothesis import given, settings, strategies as st

from parley.errors import ConfigError, FramingError, RemoteProtocolError
from parley.serdes import (
    FRAMINGS,
    ApicurioHeaders,
    ApicurioPrefix,
    Confluent,
    ConfluentHeader,
    ConfluentPrefix,
    ContentId,
    Fingerprint,
    Framing,
    GlobalId,
    Glue,
    GlueVersion,
    SchemaGuid,
    SchemaId,
    SchemaRef,
    SingleObject,
    framing,
)
from parley.serdes.fingerprint import rabin
from parley.serdes.frames import guid_text, parse_guid

GUID = bytes(range(1, 17))
ids = st.integers(0, 2**32 - 1)
ways = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=100)

ALL: list[tuple[Framing, SchemaRef]] = [
    (Confluent(), SchemaId(7)),
    (Confluent(protobuf=True), SchemaId(2**32 - 1)),
    (Confluent(), SchemaGuid(GUID)),
    (ConfluentPrefix(protobuf=True), SchemaId(1)),
    (ConfluentHeader(), SchemaGuid(GUID)),
    (ConfluentHeader(protobuf=True), SchemaGuid(GUID)),
    (ApicurioPrefix(), GlobalId(2**64 - 1)),
    (ApicurioPrefix(content_ids=True), ContentId(3)),
    (ApicurioHeaders(), GlobalId(5)),
    (ApicurioHeaders(), ContentId(5)),
    (Glue(), GlueVersion(GUID)),
    (Glue(compress=True), GlueVersion(GUID)),
    (SingleObject(), Fingerprint(0x7275D51A3F395C8F)),
]


@pytest.mark.parametrize(("how", "schema"), ALL, ids=str)
@settings(max_examples=30)
@given(is_key=st.booleans(), payload=st.binary())
def test_what_is_written_is_read(
    how: Framing, schema: SchemaRef, is_key: bool, payload: bytes
) -> None:
    frame = how.write(payload, schema, is_key=is_key)
    found = how.read(frame.value, frame.headers, is_key=is_key)
    assert (found.schema, bytes(found.payload)) == (schema, payload)


@given(number=ids, way=ways, payload=st.binary())
def test_the_prefix_is_that_of_confluents_serializers(
    number: int, way: list[int], payload: bytes
) -> None:
    avro = TheirId("AVRO", number).id_to_bytes() + payload
    assert ConfluentPrefix().write(payload, SchemaId(number)).value == avro
    found = Confluent().read(avro)
    assert (found.schema, bytes(found.payload), found.message_indexes) == (
        SchemaId(number),
        payload,
        None,
    )
    proto = TheirId("PROTOBUF", number, message_indexes=way).id_to_bytes() + payload
    ours = Confluent(protobuf=True)
    assert ours.write(payload, SchemaId(number), message_indexes=way).value == proto
    found = ours.read(proto)
    assert (found.schema, bytes(found.payload), found.message_indexes) == (
        SchemaId(number),
        payload,
        tuple(way),
    )


@given(raw=st.binary(min_size=16, max_size=16), way=ways)
def test_the_header_is_that_of_confluents_serializers(raw: bytes, way: list[int]) -> None:
    theirs = TheirId("PROTOBUF", 1, str(UUID(bytes=raw)), way).guid_to_bytes()
    ours = ConfluentHeader(protobuf=True)
    frame = ours.write(b"data", SchemaGuid(raw), message_indexes=way)
    assert frame.headers == (("__value_schema_id", theirs),)
    found = Confluent(protobuf=True).read(b"data", [("other", b""), *frame.headers])
    assert (found.schema, found.message_indexes) == (SchemaGuid(raw), tuple(way))
    assert guid_text(raw) == str(UUID(bytes=raw))
    assert parse_guid(str(UUID(bytes=raw))) == raw


def test_the_header_comes_before_the_prefix_and_a_keys_header_is_no_values() -> None:
    headers = [("__value_schema_id", b"\x01" + GUID), ("__key_schema_id", b"\x00\x00\x00\x00\x09")]
    data = b"\x00\x00\x00\x00\x07x"
    assert Confluent().read(data, headers).schema == SchemaGuid(GUID)
    assert bytes(Confluent().read(data, headers).payload) == data
    assert Confluent().read(data, headers, is_key=True).schema == SchemaId(9)
    assert Confluent().read(data, headers[1:]).schema == SchemaId(7)
    assert Confluent().read(data, [("__value_schema_id", None)]).schema == SchemaId(7)


def test_glue_data_is_decompressed_up_to_a_limit() -> None:
    bomb = b"\x03\x05" + GUID + zlib.compress(bytes(20_000_000), 9)
    tracemalloc.start()
    try:
        with pytest.raises(FramingError, match=r"more than 1000000 bytes.*raise max_bytes"):
            Glue(max_bytes=1_000_000).read(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    fits = b"\x03\x05" + GUID + zlib.compress(b"x" * 100)
    assert bytes(Glue(max_bytes=100).read(fits).payload) == b"x" * 100
    for cut in (fits[:-1], fits + b"y", fits[:25]):
        with pytest.raises(FramingError, match="cannot be decompressed"):
            Glue().read(cut)


@pytest.mark.parametrize("how", [one for one, _ in ALL], ids=str)
@given(
    data=st.binary(max_size=300),
    header=st.none() | st.binary(max_size=300),
    start=st.sampled_from([b"", b"\x00", b"\x01", b"\x03\x05", b"\xc3\x01", b"\x00" * 5]),
)
def test_any_bytes_are_read_or_refused(
    how: Framing, data: bytes, header: bytes | None, start: bytes
) -> None:
    whole = start + data
    headers = [] if header is None else [("__value_schema_id", start + header)]
    found, error = None, None
    try:
        found = how.read(whole, headers)
    except FramingError as raised:
        error = raised
    if found is not None:
        assert isinstance(how, Glue) or whole.endswith(bytes(found.payload))
        return
    assert isinstance(error, RemoteProtocolError)
    assert error.framing in FRAMINGS
    assert len(str(error)) < 400
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (b"\x02\x00", None),
        (b"\xfe\xff\xff\xff\x0f", "2147483647 is no number of indexes"),
        (b"\x01", "-1 is no number of indexes"),
        (b"\x02\x01", "-1 is no index"),
        (b"\xff\xff\xff\xff\xff\xff", "varint"),
        (b"", "cut off"),
        (b"\xd0\x01" + bytes(104), "104 is no number of indexes"),
    ],
)
def test_message_indexes_that_can_be_none(start: bytes, why: str | None) -> None:
    data = b"\x00\x00\x00\x00\x01" + start
    if why is None:
        assert Confluent(protobuf=True).read(data).message_indexes == (0,)
    else:
        with pytest.raises(FramingError, match=why):
            Confluent(protobuf=True).read(data)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("confluent", b"", "empty message"),
        ("confluent", b'{"a": 1}', 'looks like JSON.*"none"'),
        ("confluent", b"\xc3\x01" + bytes(8), 'framing "single-object"'),
        ("confluent", b"\x03\x00" + bytes(16), 'framing "glue"'),
        ("glue", b"\x00\x00\x00\x00\x01abc", 'framing "confluent"'),
        ("single-object", b"\x00\x00\x00\x00\x01abc", 'framing "confluent"'),
        ("apicurio", b"\x00\x00\x00\x00\x01abc", "8 bytes are expected.*confluent"),
        ("confluent-header", b"\x00\x00\x00\x00\x01", "no header __value_schema_id.*confluent"),
        ("confluent", b"hello", "begins with the bytes 68 65 6c 6c 6f"),
    ],
)
def test_an_error_says_what_the_message_looks_like(name: str, data: bytes, why: str) -> None:
    with pytest.raises(FramingError, match=why) as caught:
        framing(name).read(data)
    assert caught.value.framing.startswith(name)


def test_nothing_is_copied() -> None:
    data = bytearray(b"\x00\x00\x00\x00\x07data")
    payload = Confluent().read(memoryview(data)).payload
    data[5:] = b"DATA"
    assert bytes(payload) == b"DATA"


def test_a_schema_of_another_kind_is_refused_and_unknown_names_too() -> None:
    with pytest.raises(ConfigError, match="by SchemaId; global id 7 is given"):
        ConfluentPrefix().write(b"", GlobalId(7))
    with pytest.raises(ConfigError, match="no schema is given"):
        Glue().write(b"")
    with pytest.raises(ConfigError, match="no place for message_indexes"):
        Confluent().write(b"", SchemaId(1), message_indexes=[1])
    with pytest.raises(ConfigError, match=r"message_indexes=\(-1,\)"):
        Confluent(protobuf=True).write(b"", SchemaId(1), message_indexes=[-1])
    with pytest.raises(ConfigError, match='Did you mean "confluent"'):
        framing("conflent")
    for wrong in (-1, 2**32, True, "7"):
        with pytest.raises(ConfigError, match="is no id"):
            SchemaId(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is no GUID"):
        parse_guid("x" * 32)
    assert SchemaId(7) != GlobalId(7)


def test_fingerprints_are_avros() -> None:
    # the examples of Avro's own test data
    assert rabin(b'"null"') == 0x63DD24E7CC258F8A
    assert rabin(b'"int"') == 0x7275D51A3F395C8F
    assert rabin(b'"string"') == 0x8F014872634503C7
