"""What follows from negotiated versions: rules V7, V8, V10 and V12, each by its number."""

from __future__ import annotations

import re

import pytest

from parley.errors import (
    LocalProtocolError,
    UnsupportedVersionError,
)
from parley.messages import (
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    encode_response,
)
from parley.protocol import (
    CLIENT_THROTTLES_FROM,
    ResponseReceived,
    State,
    clean_software_name,
    client_throttle_ms,
)
from parley.versions import CLIENT_RANGES, VersionRange

from .clients import (
    events,
    framed,
    ready,
    sent,
    started,
    versions_sent,
)


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
    client.send_request(
        MetadataRequest(topics=[]), now_ms=0, timeout_ms=1, allowed=VersionRange(0, 3)
    )
    assert [version for _, version, _ in versions_sent(client)] == [6, 3]
    with pytest.raises(LocalProtocolError, match="version_limits"):
        client.send_request(
            MetadataRequest(topics=[]), now_ms=0, timeout_ms=1, allowed=VersionRange(7, 9)
        )


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
def test_v12_only_brokers_that_do_not_wait_themselves_make_the_client_wait(
    version: int, waits: int
) -> None:
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
    known = {
        0: 6,
        1: 8,
        2: 3,
        3: 6,
        8: 4,
        9: 4,
        10: 2,
        11: 3,
        18: 2,
        19: 3,
        22: 1,
        42: 1,
        44: 0,
        51: 0,
        75: 0,
    }
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
