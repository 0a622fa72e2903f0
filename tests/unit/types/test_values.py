"""Plain values: topic ids as Java prints them, secrets that stay secret."""

from __future__ import annotations

import pickle
import uuid

import pytest
from hypothesis import given, strategies as st

from parley.errors import ConfigError
from parley.types import (
    ZERO_UUID,
    Node,
    OffsetAndMetadata,
    Secret,
    TopicPartition,
    format_uuid,
    parse_uuid,
)


@pytest.mark.parametrize(
    ("text", "hexadecimal"),
    [
        # The ids of KIP-516 and KIP-500 as Java's Uuid
        # prints them: URL-safe base64 of the 16 bytes.
        ("AAAAAAAAAAAAAAAAAAAAAA", "00000000000000000000000000000000"),
        ("AAAAAAAAAAAAAAAAAAAAAQ", "00000000000000000000000000000001"),
        ("MkU3OEVBNTcwNTJENDM2Qg", "32453738454135373035324434333642"),
        ("_____________________w", "ffffffffffffffffffffffffffffffff"),
    ],
)
def test_a_topic_id_has_kafkas_text_form(text: str, hexadecimal: str) -> None:
    assert format_uuid(bytes.fromhex(hexadecimal)) == text
    assert parse_uuid(text) == bytes.fromhex(hexadecimal)


@given(st.uuids())
def test_topic_ids_come_back(topic_id: uuid.UUID) -> None:
    text = format_uuid(topic_id.bytes)
    assert len(text) == 22
    assert parse_uuid(text) == topic_id.bytes


@pytest.mark.parametrize(
    "text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "not an id, surely not one"]
)
def test_what_is_no_topic_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a topic id"):
        parse_uuid(text)


def test_zero_means_none() -> None:
    assert bytes(16) == ZERO_UUID


def test_a_secret_never_shows_and_can_be_had() -> None:
    secret = Secret("hunter2")
    shown = f"{secret} {secret!r} {[secret]} {vars(type(secret)).keys()}"
    assert "hunter2" not in shown
    assert secret.reveal() == "hunter2"
    assert Secret(secret) == secret != Secret("other")
    assert len({secret, Secret("hunter2")}) == 1
    assert pickle.loads(pickle.dumps(secret)).reveal() == "hunter2"


def test_addresses_of_ipv6_hosts_have_brackets() -> None:
    assert Node(1, "::1", 9092).address == "[::1]:9092"
    assert Node(1, "a", 9092).address == "a:9092"


def test_a_partition_reads_as_kafka_writes_it() -> None:
    assert str(TopicPartition("t", 3)) == "t-3"
    assert OffsetAndMetadata(5) == OffsetAndMetadata(5, "", -1)
