"""The records of `__consumer_offsets` against those that real brokers of each release wrote
(tools/golden_groups.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley.devcluster.handlers import SERVED
from parley.devcluster.release.profile import make_profile
from parley.devcluster.state.groups.records import KINDS, GroupRecord, Written, decode, encode
from parley.errors import RemoteProtocolError
from parley.messages import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

FOLDER = Path(__file__).parent / "groups"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def golden(release: str) -> list[Written]:
    lines = (FOLDER / f"{release}.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [(line["key"], line["value"]) for line in map(json.loads, lines)]
    return [
        Written(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
        for key, value in pairs
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_wrote_is_read_and_written_the_same(release: str) -> None:
    rules = make_profile(release, SERVED).records
    for written in golden(release):
        record = decode(*written)
        assert record is not None
        assert encode(record, rules) == written


def test_every_kind_and_every_version_of_a_value_was_seen() -> None:
    """But for regular expressions, which are below."""
    seen = {
        (one.key[:2].hex(), one.value[:2].hex())
        for release in RELEASES
        for one in golden(release)
        if one.value is not None
    }
    assert {int(key, 16) for key, _ in seen} == KINDS.keys() - {0, 16}
    assert {version for key, version in seen if key == "0001"} == {"0001", "0003", "0004"}
    assert {version for key, version in seen if key == "0002"} == {"0000", "0001", "0002", "0003"}


def test_a_regular_expression() -> None:
    key = ConsumerGroupRegularExpressionKey(group_id="k5", regular_expression="t[12]")
    value = ConsumerGroupRegularExpressionValue(topics=["t1"], version=7, timestamp=9)
    written = encode(GroupRecord(key, value))
    assert written.key.hex() == "001000026b350005745b31325d"  # measured
    assert decode(*written) == GroupRecord(key, value)


def test_a_member_of_the_classic_protocol_in_a_group_of_the_other() -> None:
    found = {
        record.value.classic_member_metadata is not None
        for written in golden("4.3.0")
        if (record := decode(*written)) is not None
        and isinstance(record.value, ConsumerGroupMemberMetadataValue)
    }
    assert found == {False, True}


def test_an_offset_with_a_time_of_its_own_is_written_as_of_old() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=5, commit_timestamp=1, expire_timestamp=2)
    assert encode(GroupRecord(key, value)).value == bytes.fromhex(
        "0001 0000000000000005 0000 0000000000000001 0000000000000002"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"\0\0"),
        (b"\0", None),
        (b"\0\1\0\1", None),
        (b"\0\2\0\1g", b"\0"),
        (b"\0\2\0\1g", b"\0\x63"),
        (b"\0\2\0\1g", b"\xff\xff"),
        (b"\0\2\0\1g", b"\0\3\0\0"),
        (b"\0\2\0\1g!", None),
    ],
)
def test_bytes_that_are_no_record(key: bytes, value: bytes | None) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(key, value)


def test_records_of_other_kinds_are_left_alone() -> None:
    assert decode(b"\0\x11\0\1g", b"\0\0") is None
