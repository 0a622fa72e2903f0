"""Frames: header versions, the exceptions to them, and what real brokers answer to ApiVersions."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerProtocolAssignment,
    ControlledShutdownRequest,
    MetadataRequest,
    MetadataResponse,
    decode_request,
    decode_request_header,
    decode_response,
    decode_response_header,
    encode_request,
    encode_response,
    peek_request_header,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from parley.schema import ApiKey, load
from parley_laboratory.samples import SampleMaker


def test_header_versions_of_every_api() -> None:
    for key in ApiKey:
        for version in load(key).request.valid_versions.versions():
            flexible = load(key).request.is_flexible(version)
            shutdown = key is ApiKey.CONTROLLED_SHUTDOWN and version == 0
            assert request_header_version(key, version) == (0 if shutdown else 2 if flexible else 1)
            expected = 1 if flexible and key is not ApiKey.API_VERSIONS else 0
            assert response_header_version(key, version) == expected


# Bytes by hand from the protocol guide: key, version, correlation id, client id, tags.
@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (ApiVersionsRequest(), 0, "0012 0000 00000007 0002 6d65"),
        (
            ApiVersionsRequest(client_software_name="p", client_software_version="1"),
            3,
            "0012 0003 00000007 0002 6d65 00 0270 0231 00",
        ),
        (ControlledShutdownRequest(broker_id=5), 0, "0007 0000 00000007 00000005"),
        (ControlledShutdownRequest(broker_id=5), 1, "0007 0001 00000007 0002 6d65 00000005"),
        (MetadataRequest(topics=[]), 0, "0003 0000 00000007 0002 6d65 00000000"),
        (MetadataRequest(topics=None), 1, "0003 0001 00000007 0002 6d65 ffffffff"),
        (MetadataRequest(topics=None), 9, "0003 0009 00000007 0002 6d65 00 00 01 00 00 00"),
    ],
)
def test_requests_by_hand(request_: object, version: int, expected: str) -> None:
    frame = b"".join(encode_request(request_, version, 7, "me"))  # type: ignore[arg-type]
    assert frame == bytes.fromhex(expected)
    header, decoded = decode_request(frame)
    assert decoded == request_
    assert (header.api_key, header.api_version, header.correlation_id) == peek_request_header(frame)
    assert header.client_id == (None if header.api_key == 7 and version == 0 else "me")


@given(
    key=st.sampled_from(list(ApiKey)),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.sampled_from(["", "me", "é" * 200]),
    random=st.randoms(use_true_random=False),
)
def test_frames_round_trip(
    key: ApiKey, correlation_id: int, client_id: str | None, random: Random
) -> None:
    version = random.choice(load(key).request.valid_versions.versions())
    maker = SampleMaker(random, plain=True)
    request, response = (
        maker.message(request_class(key), version),
        maker.message(response_class(key), version),
    )
    frame = b"".join(encode_request(request, version, correlation_id, client_id))
    header, decoded = decode_request(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (
        key,
        version,
        correlation_id,
    )
    assert header.client_id == (client_id if request_header_version(key, version) else None)
    assert decoded == request
    assert decode_request(frame + b"junk")[1] == request
    if key is not ApiKey.API_VERSIONS:
        answer = b"".join(encode_response(response, version, correlation_id))
        assert decode_response(key, version, answer) == (correlation_id, response)
        with pytest.raises(RemoteProtocolError):
            decode_response(key, version, answer + b"\x00")


def test_headers_keep_their_tagged_fields() -> None:
    frame = bytes.fromhex("0003 0009 00000007 0002 6d65 01 05 01 aa 00 01 00 00 00")
    header, position = decode_request_header(frame)
    assert (header.unknown_tagged_fields, position) == ({5: b"\xaa"}, 16)
    answer = bytes.fromhex("00000007 01 05 01 aa")
    assert decode_response_header(ApiKey.METADATA, 9, answer) == (7, 8)


def test_body_can_be_read_in_another_version() -> None:
    """Kafka 0.9 reads Metadata of any version as v0."""
    frame = bytes.fromhex("0003 0063 00000007 0002 6d65 00000001 0001 74")
    with pytest.raises(
        RemoteProtocolError, match="MetadataRequest v99 was sent, but it has versions 0-13"
    ):
        decode_request(frame)
    frame = bytes.fromhex("0003 0001 00000007 0002 6d65 00000001 0001 74")
    header, decoded = decode_request(frame, as_version=0)
    assert (header.api_version, decoded.topics[0].name) == (1, "t")


@pytest.mark.parametrize(
    "frame",
    [b"", bytes(7), bytes.fromhex("0151 0000 00000001 ffff"), bytes.fromhex("0003000000000001")],
)
def test_bad_request_frames_raise_the_remote_error(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(frame)


def test_peek_needs_no_known_api() -> None:
    assert peek_request_header(bytes.fromhex("0151 0009 ffffffff")) == (337, 9, -1)


def test_only_requests_and_responses_make_frames() -> None:
    with pytest.raises(LocalProtocolError, match="not a request"):
        encode_request(MetadataResponse(), 0, 1, None)
    with pytest.raises(LocalProtocolError, match="not a response"):
        encode_response(MetadataRequest(), 0, 1)
    with pytest.raises(LocalProtocolError, match="not a request"):
        encode_request(ConsumerProtocolAssignment(), 0, 1, None)


# Answers of real brokers to a version they do not have.
def test_error_35_without_a_range_from_kafka_0_10_to_2_3() -> None:
    correlation_id, response = decode_response(
        ApiKey.API_VERSIONS, 4, bytes.fromhex("00000001 0023 00000000")
    )
    assert (correlation_id, response) == (1, ApiVersionsResponse(error_code=35))


@pytest.mark.parametrize("asked", [0, 3, 4])
def test_error_35_with_a_range_from_kafka_2_4_on(asked: int) -> None:
    _, response = decode_response(
        ApiKey.API_VERSIONS, asked, bytes.fromhex("00000001 0023 00000001 0012 0000 0003")
    )
    entry = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=3)
    assert response == ApiVersionsResponse(error_code=35, api_keys=[entry])


@pytest.mark.parametrize(
    "body",
    [
        "002a 00000000 00000000",  # v1 shape
        # v3 shape, as brokers from 2.4 on answer a bad client name (KIP-511)
        "002a 01 00000000 00",
        "002a 00000000",  # v0 shape
        "002a",  # nothing behind the code
        "002a ffffffffffff",  # rubbish behind the code
    ],
)
@pytest.mark.parametrize("asked", [0, 1, 3, 4])
def test_error_code_is_read_first_whatever_the_shape(asked: int, body: str) -> None:
    _, response = decode_response(
        ApiKey.API_VERSIONS, asked, bytes.fromhex("00000001") + bytes.fromhex(body)
    )
    assert response.error_code == 42


@pytest.mark.parametrize(
    "body", ["", "00", "0000", "0000 7fffffff", "0000 00000001 0012", "0000 00000000 00"]
)
def test_truncated_api_versions_without_error_raise_the_remote_error(body: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_response(ApiKey.API_VERSIONS, 0, bytes.fromhex("00000001") + bytes.fromhex(body))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_without_error_round_trips(version: int) -> None:
    message = ApiVersionsResponse(
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=337, min_version=1, max_version=2)],
        throttle_time_ms=9 if version else 0,
    )
    frame = b"".join(encode_response(message, version, -5))
    assert decode_response(ApiKey.API_VERSIONS, version, frame) == (-5, message)
