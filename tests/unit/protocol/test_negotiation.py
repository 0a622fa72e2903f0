"""Negotiation rules V1 to V6 of the project's notes, each by its number.

Where a broker's bytes matter they are written out by hand, from measurements of real brokers: a
decoder of our own could share a mistake with the encoder.
"""

from __future__ import annotations

import re
import struct

import pytest

from parley.errors import (
    BrokerError,
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from parley.messages import (
    MetadataRequest,
)
from parley.protocol import (
    ClientProtocol,
    Negotiated,
    State,
)
from parley.schema import ApiKey
from parley.versions import VersionRange

from .clients import (
    BOTH,
    NEWEST,
    api_versions,
    closed_by,
    error_35,
    events,
    framed,
    ready,
    sent,
    started,
    versions_sent,
)


def test_the_first_request_is_byte_for_byte_what_kafka_expects() -> None:
    client = started(client_id="me", software_name="parley", software_version="1.0")
    assert NEWEST == 4
    (request,) = sent(client)
    header = b"\x00\x12\x00\x04\x00\x00\x00\x00\x00\x02me\x00"
    assert request == header + b"\x07parley\x041.0\x00"


def test_v01_the_newest_version_is_asked_first() -> None:
    client = started()
    assert versions_sent(client) == [(18, NEWEST, 0)]
    client.receive_data(api_versions(0, NEWEST, BOTH))
    (event,) = events(client)
    assert isinstance(event, Negotiated)
    assert event.inferred is False
    assert event.versions.ranges == {key: VersionRange(*pair) for key, pair in BOTH.items()}
    assert client.versions is event.versions
    assert client.state is State.READY


@pytest.mark.parametrize(
    ("offered", "then"), [((0, 3), 3), ((0, 2), 2), ((0, 0), 0), (None, 0), ((1, 3), 3)]
)
def test_v01_error_35_lowers_on_the_same_connection(
    offered: tuple[int, int] | None, then: int
) -> None:
    client = started()
    sent(client)
    client.receive_data(error_35(0, offered))
    assert events(client) == []
    assert versions_sent(client) == [(18, then, 1)]
    client.receive_data(api_versions(1, then, {18: (0, then), 3: (0, 5)}))
    (event,) = events(client)
    assert event.versions.choose(ApiKey.METADATA) == 5


def test_v01_a_broker_that_lies_cannot_keep_the_client_asking() -> None:
    client = started()
    attempts = []
    while client.state is not State.CLOSED:
        ((_, version, correlation_id),) = versions_sent(client)
        attempts.append(version)
        client.receive_data(error_35(correlation_id, (0, 4)))  # "I speak what I have just refused"
        found = events(client)
    assert attempts == [4, 3, 2, 1, 0]
    assert isinstance(found[0].error, UnsupportedVersionError)


@pytest.mark.parametrize("offered", [(5, 9), (-1, -1), (3, 1), (32767, 32767)])
def test_v01_a_range_that_makes_no_sense_or_is_too_new(offered: tuple[int, int]) -> None:
    client = started()
    sent(client)
    client.receive_data(error_35(0, offered))
    found = events(client)
    if offered[0] > NEWEST:
        error = found[0].error
        assert isinstance(error, UnsupportedVersionError)
        assert (error.client_range, error.broker_range, error.local) == (
            (0, NEWEST),
            offered,
            False,
        )
        assert versions_sent(client) == []
    else:
        assert versions_sent(client) == [(18, 0, 1)]


@pytest.mark.parametrize("code", [-1, 1, 8, 33, 42, 56, 58, 32767])
def test_v02_any_other_error_ends_the_connection(code: int) -> None:
    client = started()
    sent(client)
    client.receive_data(framed(struct.pack(">ihi", 0, code, 0)))
    error = closed_by(client)
    assert isinstance(error, BrokerError)
    assert (error.code, error.api, error.version) == (code, "ApiVersions", NEWEST)
    assert client.data_to_send() == []


def test_v02_error_35_to_version_0_ends_the_connection() -> None:
    client = started(version_limits={18: VersionRange(0, 0)})
    assert versions_sent(client) == [(18, 0, 0)]
    client.receive_data(error_35(0, None))
    error = closed_by(client)
    assert isinstance(error, UnsupportedVersionError)
    assert "pin its release" in str(error)


def test_v03_the_error_code_counts_whatever_follows_it() -> None:
    client = started()
    sent(client)
    # error 35 in no shape at all
    client.receive_data(framed(struct.pack(">ih", 0, 35) + b"\xff\x01\x02"))
    assert events(client) == []
    assert versions_sent(client) == [(18, 0, 1)]


def test_v03_the_response_header_has_no_tags_even_for_flexible_versions() -> None:
    client = started()
    sent(client)
    # v4: correlation id, error 0, two entries (compact length 3), throttle 0, no tagged fields
    entries = struct.pack(">hhh", 18, 0, 4) + b"\0" + struct.pack(">hhh", 3, 0, 13) + b"\0"
    client.receive_data(
        framed(struct.pack(">ih", 0, 0) + b"\x03" + entries + struct.pack(">i", 0) + b"\0")
    )
    (event,) = events(client)
    assert event.versions.ranges == {18: VersionRange(0, 4), 3: VersionRange(0, 13)}


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0", b"\0\0\x05", b"\0\0\xff\xff\xff\xff\x7f"])
def test_v03_an_answer_that_does_not_decode_ends_the_connection(body: bytes) -> None:
    client = started()
    sent(client)
    client.receive_data(framed(struct.pack(">i", 0) + body))
    assert isinstance(closed_by(client), RemoteProtocolError)


@pytest.mark.parametrize(
    "ranges",
    [{18: (0, 4), 3: (5, 2)}, {18: (0, 4), 3: (-1, 2)}],
    ids=["upside down", "negative"],
)
def test_v03_ranges_that_are_none_end_the_connection(ranges: dict[int, tuple[int, int]]) -> None:
    client = started()
    sent(client)
    client.receive_data(api_versions(0, NEWEST, ranges))
    assert isinstance(closed_by(client), RemoteProtocolError)


def test_v03_repeated_and_absurdly_many_keys_end_the_connection() -> None:
    for count, key in ((2, 3), (100_000, None)):
        client = started(version_limits={18: VersionRange(0, 0)})
        sent(client)
        entries = b"".join(
            struct.pack(">hhh", index % 30_000 if key is None else key, 0, 1)
            for index in range(count)
        )
        client.receive_data(framed(struct.pack(">ihi", 0, 0, count) + entries))
        assert isinstance(closed_by(client), RemoteProtocolError)


@pytest.mark.parametrize("received", [b"", b"\0\0", b"\0\0\0\x20\0\0\0"])
def test_v04_a_connection_closed_instead_of_an_answer_names_both_causes(received: bytes) -> None:
    client = started()
    sent(client)
    client.receive_data(received)
    assert events(client) == []
    client.receive_eof()
    error = closed_by(client)
    assert isinstance(error, NetworkError)
    assert error.stage == "versions"
    assert re.search("TLS or SASL.*older than 0.10", str(error))


def test_v05_the_canary_answered_first_means_an_old_broker() -> None:
    client = started(probe_old_brokers=True)
    assert versions_sent(client) == [(18, NEWEST, 0), (16, 0, 1)]
    client.receive_data(framed(struct.pack(">ihi", 1, 0, 0)))  # ListGroups v0: no error, no groups
    (event,) = events(client)
    assert isinstance(event, Negotiated)
    assert event.inferred is True
    assert event.versions.choose(ApiKey.PRODUCE) == 1
    assert event.versions.choose(ApiKey.METADATA) == 0
    assert event.versions.usable(ApiKey.CREATE_TOPICS) is None
    assert client.in_flight == 0
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1)
    assert versions_sent(client) == [(3, 0, 2)]


def test_v05_the_canary_is_byte_for_byte_list_groups_v0() -> None:
    client = started(probe_old_brokers=True, client_id="me")
    assert sent(client)[1] == b"\x00\x10\x00\x00\x00\x00\x00\x01\x00\x02me"


@pytest.mark.parametrize("early", [False, True])
def test_v05_a_newer_broker_answers_both_and_the_canary_is_forgotten(early: bool) -> None:
    client = started(probe_old_brokers=True)
    sent(client)
    answer, canary = api_versions(0, NEWEST, BOTH), framed(struct.pack(">ihi", 1, 0, 0))
    if early:
        client.receive_data(answer + canary)
    else:
        client.receive_data(answer)
        client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1) if events(
            client
        ) else None
        client.receive_data(canary)
    found = events(client)
    assert all(isinstance(event, Negotiated) for event in found)
    assert client.state is State.READY
    assert client.versions is not None
    assert client.in_flight == (0 if early else 1)


def test_v05_the_canary_behind_a_refused_version_decides_nothing() -> None:
    client = started(probe_old_brokers=True)
    sent(client)
    client.receive_data(error_35(0, None) + framed(struct.pack(">ihi", 1, 0, 0)))
    assert events(client) == []
    assert versions_sent(client) == [(18, 0, 2)]
    client.receive_data(api_versions(2, 0, {18: (0, 0), 3: (0, 1)}))
    (event,) = events(client)
    assert event.inferred is False


def test_v05_silence_expires_at_the_setup_deadline() -> None:
    client = ClientProtocol()
    client.start(1000, 300)
    assert client.next_deadline_ms() == 1300
    assert client.expired(1299) == []
    assert client.expired(1300) == [0]


def test_v05_a_pinned_release_is_believed_and_nothing_is_asked() -> None:
    client = started(pinned_release="0.9.0.1", probe_old_brokers=True)
    (event,) = events(client)
    assert isinstance(event, Negotiated)
    assert event.inferred is True
    assert sent(client) == []
    assert started(pinned_release="2.4").next_event().versions.choose(ApiKey.METADATA) == 9  # type: ignore[union-attr]


def test_v06_versions_are_forgotten_with_the_connection() -> None:
    client = ready()
    client.receive_eof()
    assert closed_by(client) is not None
    assert client.versions is None
    with pytest.raises(LocalProtocolError, match="closed"):
        client.send_request(MetadataRequest(), now_ms=0, timeout_ms=1)
    # Another connection to the same broker asks again, and may get another answer.
    assert ready({18: (0, 4), 3: (0, 1)}).versions.choose(ApiKey.METADATA) == 1  # type: ignore[union-attr]
