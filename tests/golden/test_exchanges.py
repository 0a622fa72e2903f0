"""Requests and answers of real brokers, byte for byte: decoded, encoded again, cut off and mangled.

`tools/capture_golden.py exchanges` captured them; each request was answered as expected by the
real broker. Where Java and Maven are there, Kafka's own classes say what every field holds.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from parley.errors import RemoteProtocolError
from parley.messages import (
    MessageStruct,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from parley.schema import ApiKey, Field
from parley.types import format_uuid
from parley_laboratory.golden import GoldenExchange, read_exchanges

from ..support import GENEROUS_S

HERE = Path(__file__).parent
RELEASES = ("0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0")
MAIN = {release: read_exchanges(HERE / "exchanges" / release) for release in RELEASES}
SERVICES = {
    release: read_exchanges(HERE / "exchanges" / f"{release}-services") for release in RELEASES
}
"""Groups, transactions and administration; MAIN has what records are moved with."""
EXCHANGES = {release: MAIN[release] + SERVICES[release] for release in RELEASES}
ALL = [
    pytest.param(
        exchange, id=f"{release}-{exchange.api_name.lower()}-v{exchange.version}-{exchange.title}"
    )
    for release, exchanges in EXCHANGES.items()
    for exchange in exchanges
]
CONTROLLERS_ORDERS = {4, 5, 6, 7}
"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown: no client sends them."""
PREVIEWS = {*range(76, 80), *range(83, 88)}
"""Share groups: 3.9 has a preview of them, and the same version numbers
came to mean something else.
"""
UNADVERTISED = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""Answered since 3.7, although advertised only where a metrics plug-in is set up."""


def joined(segments: Sequence[bytes | memoryview]) -> bytes:
    return b"".join(bytes(segment) for segment in segments)


@pytest.mark.parametrize("release", RELEASES)
def test_every_version_that_the_release_advertises_is_there(release: str) -> None:
    answer = read_response(EXCHANGES[release][0])[1]  # ApiVersions v0
    advertised = {
        entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys
    }
    expected = {(key, 0) for key in UNADVERTISED if release in ("3.9.1", "4.3.0")}
    for key in set(advertised) - CONTROLLERS_ORDERS:
        low, high = advertised.get(key, (0, -1))
        if key == ApiKey.PRODUCE and release.startswith("4."):
            low = 3  # 0-2 are advertised, but close the connection (KAFKA-18659)
        expected |= {(int(key), version) for version in range(low, high + 1)}
    assert {(exchange.api_key, exchange.version) for exchange in EXCHANGES[release]} == expected


@pytest.mark.parametrize("exchange", ALL)
def test_request_is_read_and_written_exactly(exchange: GoldenExchange) -> None:
    header, message = decode_request(memoryview(exchange.request))
    assert (header.api_key, header.api_version, header.client_id) == (
        exchange.api_key,
        exchange.version,
        "golden",
    )
    again = encode_request(message, exchange.version, header.correlation_id, header.client_id)
    assert joined(again) == exchange.request


@pytest.mark.parametrize("exchange", ALL)
def test_response_is_read_and_written_exactly(exchange: GoldenExchange) -> None:
    correlation_id, message = decode_response(
        exchange.api_key, exchange.version, memoryview(exchange.response)
    )
    assert correlation_id == decode_request(memoryview(exchange.request))[0].correlation_id
    assert not unknown_tags(message)
    assert joined(encode_response(message, exchange.version, correlation_id)) == exchange.response


@pytest.mark.parametrize("release", RELEASES)
def test_cut_off_frames_are_the_peers_fault(release: str) -> None:
    """Nothing but RemoteProtocolError, wherever a frame ends; one exchange
    of each API and version.
    """
    chosen = {(e.api_key, e.version): e for e in EXCHANGES[release]}
    for exchange in chosen.values():
        step = max(1, len(exchange.response) // 60)
        for size in range(0, len(exchange.response), step):
            with pytest.raises(RemoteProtocolError):
                decode_response(
                    exchange.api_key, exchange.version, memoryview(exchange.response)[:size]
                )
        step = max(1, len(exchange.request) // 60)
        for size in range(0, len(exchange.request), step):
            with pytest.raises(RemoteProtocolError):
                decode_request(memoryview(exchange.request)[:size])


def unknown_tags(message: Any) -> list[int]:
    """Return the tags of fields that parley has no definition of, however deep they lie."""
    if isinstance(message, list):
        return [tag for item in message for tag in unknown_tags(item)]
    if isinstance(message, MessageStruct):
        inner = [
            tag for field in message.FIELDS for tag in unknown_tags(getattr(message, field.name))
        ]
        return [*message.unknown_tagged_fields, *inner]
    return []


@pytest.mark.real
@pytest.mark.parametrize("release", [pytest.param("3.9.1", marks=pytest.mark.matrix), "4.3.0"])
def test_java_reads_the_same(release: str) -> None:
    """Kafka's own classes of both releases agree with
    every field that parley reads, and leave no byte over.

    3.9.1 has the old versions and 4.3.0 the new ones; together they have all.
    """
    frames = [
        (exchange, kind)
        for exchanges in EXCHANGES.values()
        for exchange in exchanges
        for kind in KINDS
    ]
    compared = set()
    for (exchange, kind), line in zip(frames, java_reads(release, frames), strict=True):
        if line != "-" and not (release == "3.9.1" and exchange.api_key in PREVIEWS):
            correlation_id, left, text = line.split(" ", 2)
            header, message = KINDS[kind](exchange)
            assert (int(correlation_id), int(left)) == (header, 0)
            text = text.replace("clientMetricsResources", "configResources")  # its name before 4.1
            assert json.loads(text) == as_json(message, exchange.version), (
                f"{exchange.api_name} v{exchange.version}"
            )
            compared.add((exchange.api_key, exchange.version))
    served = {(e.api_key, e.version) for e in EXCHANGES[release]}
    assert served <= compared


def read_request(exchange: GoldenExchange) -> tuple[int, Any]:
    header, message = decode_request(memoryview(exchange.request))
    return header.correlation_id, message


def read_response(exchange: GoldenExchange) -> tuple[int, Any]:
    return decode_response(exchange.api_key, exchange.version, memoryview(exchange.response))


KINDS = {"request": read_request, "response": read_response}


def java_reads(release: str, frames: Sequence[tuple[GoldenExchange, str]]) -> list[str]:
    """Return what tools/java/GoldenRead.java prints for each frame."""
    from parley.testing.realbroker import class_path
    from parley.testing.realbroker.java import java_command
    from parley.testing.realbroker.releases import broker_artifacts

    lines = "".join(
        f"{kind} {e.api_key} {e.version} {getattr(e, kind).hex()}\n" for e, kind in frames
    )
    program = str(HERE.parents[1] / "tools" / "java" / "GoldenRead.java")
    command = java_command(class_path(broker_artifacts(release)), [program])
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=GENEROUS_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def as_json(message: MessageStruct, version: int) -> dict[str, Any]:
    """Return a message as Kafka's JSON converters write it in this version."""
    found: dict[str, Any] = {}
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if version not in field.versions:
            continue
        if field.tag is not None and value == getattr(type(message)(), field.name):
            continue
        name = field.kafka_name[0].lower() + field.kafka_name[1:]
        if field.type == "records":
            found[f"{name}SizeInBytes"] = None if value is None else len(value)
        else:
            found[name] = json_value(field, value, version)
    return found


def json_value(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [json_value(field, item, version) for item in value]
    if isinstance(value, MessageStruct):
        return as_json(value, version)
    if field.type == "uuid":
        return format_uuid(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes | memoryview) else value
