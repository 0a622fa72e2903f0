"""The same bytes to a real broker and to the embedded
one of its release: answered, silent or closed alike.

- every row of the table of malformed and odd requests, byte for byte where the
  answer is an error of ApiVersions;
- every API in every advertised version, asked for things that do not exist: the same errors in the
  same places, ids, texts and times masked.

What differs and stays so is in KNOWN, with its reason; a difference that is gone must leave the
table.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from parley.devcluster import LocalCluster
from parley.messages import decode_response, encode_request, request_class
from parley.net import parse_address
from parley.schema import ApiKey
from parley.versions import Release, release
from parley_laboratory.compare import differences, transient
from parley_laboratory.minimal import minimal_request

from ..support import GENEROUS_S

PATIENCE_S = 0.7
"""How long nothing must come for a request to count as swallowed."""
MASKED = {
    "cluster_id", "error_message", "finalized_features_epoch", "host", "log_dir", "port",
    "producer_id", "rack", "throttle_time_ms", "total_bytes", "usable_bytes",
}  # fmt: skip
READY_WITHIN_S = GENEROUS_S
"""How long a fresh broker may load its topics for groups and transactions."""

LISTED = {
    ApiKey.LIST_GROUPS: "groups",
    ApiKey.LIST_TRANSACTIONS: "transaction_states",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "entries",
    ApiKey.LIST_CONFIG_RESOURCES: "config_resources",
}
"""Answers that list all there is: other tests share the real broker and
leave things of theirs on it.
"""
CANARY = 0x7A7A7A7A

INTER_BROKER = "refused here: a client is no broker; a real broker without an authorizer does it"
KNOWN: dict[int, str] = {
    ApiKey.LEADER_AND_ISR: INTER_BROKER,
    ApiKey.STOP_REPLICA: INTER_BROKER,
    ApiKey.UPDATE_METADATA: INTER_BROKER,
    ApiKey.CONTROLLED_SHUTDOWN: INTER_BROKER,
    ApiKey.WRITE_TXN_MARKERS: INTER_BROKER,
    ApiKey.ALTER_PARTITION: INTER_BROKER,
    ApiKey.UNREGISTER_BROKER: INTER_BROKER,
    ApiKey.ALLOCATE_PRODUCER_IDS: INTER_BROKER,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: INTER_BROKER,
    ApiKey.READ_SHARE_GROUP_STATE: INTER_BROKER,
    ApiKey.WRITE_SHARE_GROUP_STATE: INTER_BROKER,
    ApiKey.DELETE_SHARE_GROUP_STATE: INTER_BROKER,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: INTER_BROKER,
    ApiKey.UPDATE_FEATURES: "features are those of the release; a real broker may take a change "
    "that changes nothing",
}
"""APIs that are not compared, and why."""


# -- bytes and what becomes of them ----------------------------------------------------------------


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def header(
    key: int, version: int, correlation_id: int = 1, client_id: bytes | None = b"wire"
) -> bytes:
    numbers = (
        key.to_bytes(2, "big")
        + version.to_bytes(2, "big", signed=True)
        + correlation_id.to_bytes(4, "big")
    )
    return numbers + (
        b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id
    )


class Outcome(NamedTuple):
    """What came back: `frames` until the connection was closed, or nothing more came."""

    frames: tuple[bytes, ...]
    closed: bool

    def __str__(self) -> str:
        return f"{len(self.frames)} frames, {'closed' if self.closed else 'open'}"


def send(address: str, data: bytes, canary: bytes | None) -> Outcome:
    """Send bytes, and then the canary; return all that comes until its
    answer, the end, or silence.
    """
    place, buffer = parse_address(address), b""
    frames: list[bytes] = []
    with socket.create_connection((place.host, place.port), timeout=GENEROUS_S) as connected:
        try:
            connected.sendall(data + (canary or b""))
            connected.settimeout(GENEROUS_S if canary else PATIENCE_S)
            while True:
                piece = connected.recv(1 << 16)
                if not piece:
                    return Outcome(tuple(frames), True)
                buffer += piece
                while len(buffer) >= 4 and len(buffer) >= 4 + (
                    size := int.from_bytes(buffer[:4], "big")
                ):
                    frame, buffer = buffer[4 : 4 + size], buffer[4 + size :]
                    if int.from_bytes(frame[:4], "big") == CANARY:
                        return Outcome(tuple(frames), False)
                    frames.append(frame)
        except TimeoutError:
            return Outcome(tuple(frames), False)
        except (ConnectionResetError, BrokenPipeError):
            return Outcome(tuple(frames), True)


def canary_of(found: Release) -> bytes:
    """Return a request whose answer ends the waiting: it shows that the
    connection is still good.
    """
    return framed(header(ApiKey.LIST_GROUPS, found.ranges[ApiKey.LIST_GROUPS].min, CANARY))


# -- the table of malformed and odd requests -------------------------------------------------------

Probe = Callable[[Release], bytes]


def names(name: bytes) -> bytes:
    """Return the body of ApiVersions v3 with this client name, header tags first."""
    return b"\x00" + bytes([len(name) + 1]) + name + b"\x04" + b"1.0" + b"\x00"


def oldest(found: Release, key: int) -> int:
    return found.ranges[key].min


ODD: dict[str, Probe] = {
    "ApiVersions v99": lambda r: framed(header(18, 99) + names(b"parley")),
    "ApiVersions v5": lambda r: framed(header(18, 5) + names(b"parley")),
    "ApiVersions v-1": lambda r: framed(header(18, -1)),
    "ApiVersions v3, good name": lambda r: (
        framed(header(18, 3) + names(b"parley")) if _v3(r) else b""
    ),
    "ApiVersions v3, empty name": lambda r: framed(header(18, 3) + names(b"")),
    "ApiVersions v3, name with a space": lambda r: framed(header(18, 3) + names(b"a b")),
    "ApiVersions v3, name that begins with a dash": lambda r: framed(header(18, 3) + names(b"-a")),
    "ApiVersions v3, name with dots and dashes": lambda r: (
        framed(header(18, 3) + names(b"a.b-c")) if _v3(r) else b""
    ),
    "ApiVersions v99 without the header's tags": lambda r: framed(header(18, 99)),
    "ApiVersions v99, client id null, without the header's tags": lambda r: framed(
        header(18, 99, client_id=None)
    ),
    "ApiVersions v99, client id null": lambda r: framed(header(18, 99, client_id=None) + b"\x00"),
    "ApiVersions v99, tags that end early": lambda r: framed(header(18, 99) + b"\x05"),
    "ApiVersions v99, client id longer than the frame": lambda r: framed(
        header(18, 99)[:8] + b"\x00\x40ab"
    ),
    "ApiVersions v99, no client id": lambda r: framed(header(18, 99)[:8]),
    "ApiVersions v3 without the header's tags": lambda r: framed(
        header(18, 3) + names(b"parley")[1:]
    ),
    "Produce v99": lambda r: framed(header(0, 99) + b"\x00\x01"),
    "Metadata v99": lambda r: framed(header(3, 99) + b"\x00\x00\x00\x01\x00\x03a b"),
    "Fetch v99": lambda r: framed(header(1, 99) + b"\x00\x01"),
    "unknown key 999": lambda r: framed(header(999, 0)),
    "unknown key 94": lambda r: framed(header(94, 0)),
    "negative key": lambda r: framed(b"\xff\xff" + header(0, 0)[2:]),
    "Metadata, body missing": lambda r: framed(header(3, oldest(r, 3))),
    "Metadata, body truncated": lambda r: framed(header(3, oldest(r, 3)) + b"\x00\x00\x00\x01\x00"),
    "Metadata, 2^31-1 topics": lambda r: framed(header(3, oldest(r, 3)) + b"\x7f\xff\xff\xff"),
    "header of two bytes": lambda r: framed(b"\x00\x03"),
    "client id longer than the frame": lambda r: framed(header(3, oldest(r, 3))[:8] + b"\x7f\xff"),
    "client id null": lambda r: framed(header(16, oldest(r, 16), client_id=None)),
    "trailing junk": lambda r: framed(header(16, oldest(r, 16)) + b"junk"),
    "SaslHandshake v0": lambda r: framed(header(17, 0) + b"\x00\x05PLAIN"),
    "SaslHandshake v1": lambda r: framed(header(17, 1) + b"\x00\x05PLAIN"),
    "SaslAuthenticate v0": lambda r: framed(header(36, 0) + b"\x00\x00\x00\x01x"),
    "frame of size 0": lambda r: framed(b""),
}
"""Whole frames: the connection's state afterwards is seen by the canary behind them."""

ANSWERED = {
    "ApiVersions v3, good name",
    "ApiVersions v3, name with dots and dashes",
    "Metadata v99",
    "SaslAuthenticate v0",
    "client id null",
    "trailing junk",
}
"""Where the answer is a whole one (ports, texts): what is in it is reported by the tests below."""
KNOWN_ODD = {
    (
        "0.9.0.1",
        "client id null",
    ): "0.9's newer requests demand a client id and close; here it may be null everywhere",
    (
        "0.10.0.1",
        "Fetch v99",
    ): "0.10.0 still reads Fetch by its oldest code, which swallows what it cannot read",
    ("0.10.1.1", "Fetch v99"): "as 0.10.0",
}
"""What differs and stays so, and why."""
KNOWN_IN = {
    (
        "2.1.1",
        ApiKey.FETCH,
    ): "2.1 alone answers UNSUPPORTED_COMPRESSION_TYPE for a topic that does not exist (v0-9)",
}
"""APIs that are not compared in one release, and why."""

BROKEN: dict[str, bytes] = {
    "negative size": b"\xff\xff\xff\xff",
    "size over 100 MiB": (100 * 1024 * 1024 + 1).to_bytes(4, "big"),
    "50 MiB announced, 10 bytes sent": (50 * 1024 * 1024).to_bytes(4, "big") + b"0123456789",
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(32),
}
"""What is no frame; nothing can follow it."""


def _v3(found: Release) -> bool:
    return ApiKey.API_VERSIONS in found.ranges and found.ranges[ApiKey.API_VERSIONS].max >= 3


@pytest.fixture(scope="session")
def embedded(real_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=real_release) as cluster:
        yield cluster


@pytest.mark.parametrize("name", list(ODD))
def test_an_odd_request_ends_alike(
    real_broker: Any, real_release: str, embedded: LocalCluster, name: str
) -> None:
    found = release(real_release)
    if (real_release, name) in KNOWN_ODD:
        return
    data = ODD[name](found)
    real = send(real_broker.bootstrap_servers, data, canary_of(found))
    ours = send(embedded.bootstrap_servers, data, canary_of(found))
    assert (len(ours.frames), ours.closed) == (len(real.frames), real.closed), (
        f"real {real}, ours {ours}"
    )
    if name not in ANSWERED:
        assert ours.frames == real.frames


@pytest.mark.parametrize("name", list(BROKEN))
def test_what_is_no_frame_ends_alike(real_broker: Any, embedded: LocalCluster, name: str) -> None:
    addresses = (real_broker.bootstrap_servers, embedded.bootstrap_servers)
    with ThreadPoolExecutor(2) as pool:  # silence takes its time: both at once
        real, ours = pool.map(lambda address: send(address, BROKEN[name], None), addresses)
    assert ours == real


# -- every API in every version --------------------------------------------------------------------


def shape(value: Any) -> Any:
    """Return a message as plain values, masked where two clusters must differ."""
    if isinstance(value, list):
        shaped = [shape(entry) for entry in value]
        # Here groups and transactions have no topics of their own.
        entries = [
            one
            for one in shaped
            if not (isinstance(one, dict) and str(one.get("name", "")).startswith("__"))
        ]
        by_name = entries and isinstance(entries[0], dict) and "name" in entries[0]
        # Java's sets have no order
        return sorted(entries, key=lambda entry: entry["name"]) if by_name else entries
    if isinstance(value, memoryview):
        return bytes(value)
    if value is None or isinstance(value, bytes | str | int | float):
        return value
    fields = (
        name for name in type(value).__slots__ if not name.startswith("_") and name not in MASKED
    )
    return {name: shape(getattr(value, name)) for name in fields}


def ask(address: str, message: Any, version: int, canary: bytes) -> Any:
    """Return the masked answer to a request, "closed" or "silent"; a broker that is
    not ready is asked again.
    """
    data = framed(b"".join(bytes(part) for part in encode_request(message, version, 5, "wire")))
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        outcome = send(address, data, canary)
        if not outcome.frames:
            return "closed" if outcome.closed else "silent"
        _, answer = decode_response(message.API_KEY, version, memoryview(outcome.frames[0]))
        found = shape(answer)
        found.pop(LISTED.get(message.API_KEY), None)
        # some releases name every topic whose files are there
        if message.API_KEY == ApiKey.DESCRIBE_LOG_DIRS:
            for place in found["results"]:
                place["topics"] = [topic for topic in place["topics"] if topic["partitions"]]
        if not transient(found) or time.monotonic() > deadline:
            return found
        threading.Event().wait(0.05)


def compare(real: str, ours: str, found: Release, requests: Iterator[tuple[Any, int]]) -> list[str]:
    canary = canary_of(found)
    all_found: list[str] = []
    for message, version in requests:
        answers = [ask(address, message, version, canary) for address in (real, ours)]
        name = f"{ApiKey(message.API_KEY).api_name} v{version}"
        all_found += differences(*answers, name)
    return all_found


def test_every_api_in_every_version_answers_alike(
    real_broker: Any, real_release: str, embedded: LocalCluster
) -> None:
    found = release(real_release)
    # A fresh broker makes its topics for groups and transactions when they are first asked for.
    finding: Any = request_class(ApiKey.FIND_COORDINATOR)
    for kind in (0, 1) if found.ranges[ApiKey.FIND_COORDINATOR].max >= 1 else (0,):
        version = min(1, found.ranges[ApiKey.FIND_COORDINATOR].max)
        ask(
            real_broker.bootstrap_servers,
            finding(key="absent-group", key_type=kind),
            version,
            canary_of(found),
        )

    def requests() -> Iterator[tuple[Any, int]]:
        for key, versions in found.ranges.items():
            if key not in KNOWN and (found.name, key) not in KNOWN_IN:
                for version in versions.versions():
                    yield minimal_request(key, version), version

    differing = compare(
        real_broker.bootstrap_servers, embedded.bootstrap_servers, found, requests()
    )
    assert not differing, "\n".join(differing)
