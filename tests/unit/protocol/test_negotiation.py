"""Negotiation rules V1 to V8, V10 and V12 of the project's notes, each by its number.

Where a broker's bytes matter they are written out by hand, from measurements of real brokers: a
decoder of our own could share a mistake with the encoder.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from parley.errors import (
    BrokerError,
    KafkaError,
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from parley.messages import (
    ApiVersionsResponse,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    encode_response,
    peek_request_header,
)
from parley.protocol import (
    CLIENT_THROTTLES_FROM,
    NEED_DATA,
    ClientProtocol,
    ClientSettings,
    Closed,
    Negotiated,
    ResponseReceived,
    State,
    clean_software_name,
    client_throttle_ms,
)
from parley.schema import ApiKey
from parley.versions import CLIENT_RANGES, VersionRange

NEWEST = CLIENT_RANGES[ApiKey.API_VERSIONS].max
BOTH = {18: (0, 4), 3: (0, 12), 0: (0, 11), 1: (4, 17)}


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def sent(client: ClientProtocol) -> list[bytes]:
    """Return the requests that are waiting to be sent, without their sizes."""
    stream, found = b"".join(client.data_to_send()), []
    while stream:
        size = int.from_bytes(stream[:4], "big")
        found.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return found


def versions_sent(client: ClientProtocol) -> list[tuple[int, int, int]]:
    return [peek_request_header(request) for request in sent(client)]


def events(client: ClientProtocol) -> list[Any]:
    found = []
    while (event := client.next_event()) is not NEED_DATA:
        found.append(event)
    return found


def error_35(correlation_id: int, offered: tuple[int, int] | None) -> bytes:
    """The answer to an unknown ApiVersions version: 10 bytes up to 2.3, 16 bytes from 2.4 on."""
    if offered is None:
        return framed(struct.pack(">ihi", correlation_id, 35, 0))
    return framed(struct.pack(">ihihhh", correlation_id, 35, 1, 18, *offered))


def api_versions(correlation_id: int, version: int, ranges: dict[int, tuple[int, int]]) -> bytes:
    entries = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in ranges.items()
    ]
    segments = encode_response(ApiVersionsResponse(api_keys=entries), version, correlation_id)
    return framed(b"".join(bytes(segment) for segment in segments))


def started(**settings: Any) -> ClientProtocol:
    client = ClientProtocol(ClientSettings(**settings))
    client.start(0)
    return client


def ready(ranges: dict[int, tuple[int, int]] | None = None, **settings: Any) -> ClientProtocol:
    client = started(**settings)
    sent(client)
    client.receive_data(api_versions(0, NEWEST, BOTH if ranges is None else ranges))
    (event,) = events(client)
    assert isinstance(event, Negotiated)
    return client


def closed_by(client: ClientProtocol) -> KafkaError | None:
    (event,) = events(client)
    assert isinstance(event, Closed)
    assert client.state is State.CLOSED
    return event.error


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


@pytest.mark.parametrize(("offered", "then"), [((0, 3), 3), ((0, 2), 2), ((0, 0), 0), (None, 0), ((1, 3), 3)])
def test_v01_error_35_lowers_on_the_same_connection(offered: tuple[int, int] | None, then: int) -> None:
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
        assert (error.client_range, error.broker_range, error.local) == ((0, NEWEST), offered, False)
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
    client.receive_data(framed(struct.pack(">ih", 0, 35) + b"\xff\x01\x02"))  # error 35 in no shape at all
    assert events(client) == []
    assert versions_sent(client) == [(18, 0, 1)]


def test_v03_the_response_header_has_no_tags_even_for_flexible_versions() -> None:
    client = started()
    sent(client)
    # v4: correlation id, error 0, two entries (compact length 3), throttle 0, no tagged fields
    entries = struct.pack(">hhh", 18, 0, 4) + b"\0" + struct.pack(">hhh", 3, 0, 13) + b"\0"
    client.receive_data(framed(struct.pack(">ih", 0, 0) + b"\x03" + entries + struct.pack(">i", 0) + b"\0"))
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
        entries = b"".join(struct.pack(">hhh", index % 30_000 if key is None else key, 0, 1) for index in range(count))
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
        client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1) if events(client) else None
        client.receive_data(canary)
    found = events(client)
    assert all(isinstance(event, Negotiated) for event in found)
    assert client.state is State.READY
    assert client.versions is not None
    assert client.in_flight == (0 if early else 1)


def test_v05_the_canary_behind_a_refused_version_is_no_verdict() -> None:
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
    # Another connection to the same broker asks again, and may be told something else.
    assert ready({18: (0, 4), 3: (0, 1)}).versions.choose(ApiKey.METADATA) == 1  # type: ignore[union-attr]


def test_v07_unknown_keys_are_kept() -> None:
    client = ready({18: (0, 4), 337: (0, 7)})
    assert client.versions is not None
    assert client.versions.ranges[337] == VersionRange(0, 7)
    with pytest.raises(UnsupportedVersionError, match=re.escape("UNKNOWN(337)")):
        client.versions.choose(337)


def test_v07_an_empty_list_supports_nothing() -> None:
    client = ready({})
    with pytest.raises(UnsupportedVersionError) as caught:
        client.send_request(MetadataRequest(), now_ms=0, timeout_ms=1)
    assert caught.value.broker_range is None
    assert sent(client) == []


@pytest.mark.parametrize(
    ("theirs", "allowed", "chosen"),
    [
        ((0, 12), None, 12),
        ((0, 99), None, CLIENT_RANGES[3].max),
        ((4, 9), None, 9),
        ((0, 12), VersionRange(1, 7), 7),
        ((5, 12), VersionRange(1, 5), 5),
        ((5, 12), VersionRange(0, 4), None),
        ((0, 3), VersionRange(4, 9), None),
        ((90, 99), None, None),
    ],
)
def test_v08_the_version_is_the_maximum_of_what_all_allow(
    theirs: tuple[int, int], allowed: VersionRange | None, chosen: int | None
) -> None:
    client = ready({18: (0, 4), 3: theirs})
    message = MetadataRequest(topics=[])
    if chosen is not None:
        client.send_request(message, now_ms=0, timeout_ms=1, allowed=allowed)
        assert versions_sent(client) == [(3, chosen, 1)]
        return
    with pytest.raises(UnsupportedVersionError) as caught:
        client.send_request(message, now_ms=0, timeout_ms=1, allowed=allowed)
    error = caught.value
    assert (error.api, error.broker_range, error.local) == ("Metadata", theirs, True)
    assert sent(client) == []
    assert client.in_flight == 0
    assert client.state is State.READY


def test_v08_limits_of_the_application_narrow_the_choice() -> None:
    client = ready({18: (0, 4), 3: (0, 12)}, version_limits={3: VersionRange(2, 6)})
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1)
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1, allowed=VersionRange(0, 3))
    assert [version for _, version, _ in versions_sent(client)] == [6, 3]
    with pytest.raises(LocalProtocolError, match="version_limits"):
        client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1, allowed=VersionRange(7, 9))


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("parley", "parley"),
        ("my app/1.0", "my-app-1.0"),
        ("-x-", "x"),
        ("..", "unknown"),
        ("", "unknown"),
        ("ünïcode", "n-code"),
        ("a\n\0b", "a-b"),
    ],
)
def test_v10_the_software_name_is_one_that_no_broker_refuses(given: str, clean: str) -> None:
    assert clean_software_name(given) == clean
    assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", clean)
    client = started(software_name=given, software_version=given)
    assert sent(client)[0].count(clean.encode()) >= 2


@pytest.mark.parametrize(("version", "waits"), [(5, 0), (6, 750), (12, 750)])
def test_v12_only_brokers_that_do_not_wait_themselves_make_the_client_wait(version: int, waits: int) -> None:
    client = ready({18: (0, 4), 3: (version, version)})
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1)
    sent(client)
    answer = encode_response(MetadataResponse(throttle_time_ms=750), version, 1)
    client.receive_data(framed(b"".join(bytes(segment) for segment in answer)))
    (event,) = events(client)
    assert isinstance(event, ResponseReceived)
    assert event.throttle_ms == waits


def test_v12_the_table_is_kafkas() -> None:
    # Spot checks against shouldClientThrottle in kafka-clients 3.9.1, read from its byte code.
    known = {0: 6, 1: 8, 2: 3, 3: 6, 8: 4, 9: 4, 10: 2, 11: 3, 18: 2, 19: 3, 22: 1, 42: 1, 44: 0, 51: 0, 75: 0}
    assert {key: CLIENT_THROTTLES_FROM[key] for key in known} == known
    assert 23 not in CLIENT_THROTTLES_FROM  # OffsetForLeaderEpoch never asks the client to wait
    assert len(CLIENT_THROTTLES_FROM) == 46
    assert client_throttle_ms(3, 9, MetadataResponse(throttle_time_ms=-5)) == 0


def test_must_not_use_versions_are_never_chosen() -> None:
    client = ready({18: (0, 4), 0: (0, 12), 1: (4, 17)})
    with pytest.raises(UnsupportedVersionError):
        client.send_request(ProduceRequest(), now_ms=0, timeout_ms=1, allowed=VersionRange(0, 2))
    client.send_request(FetchRequest(), now_ms=0, timeout_ms=1, allowed=VersionRange(0, 11))
    assert [version for _, version, _ in versions_sent(client)] == [11]
