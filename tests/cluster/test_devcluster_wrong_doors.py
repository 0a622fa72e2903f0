"""B5, B6: who speaks something else than the listener, and who may not log in.
Others are served meanwhile.
"""

from __future__ import annotations

import base64
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster, Security
from parley.messages import encode_request, request_class
from parley.protocol.sasl import PlainClient, ScramClient
from parley.schema import ApiKey
from parley.types import Secret
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

ApiVersions: Any = request_class(ApiKey.API_VERSIONS)
Handshake: Any = request_class(ApiKey.SASL_HANDSHAKE)
Authenticate: Any = request_class(ApiKey.SASL_AUTHENTICATE)
Metadata: Any = request_class(ApiKey.METADATA)
USERS = {"alice": "canary-5f1", "bob": "another"}
REFUSED = 58
GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "noise": bytes(range(255, 55, -1)),
    "amqp": b"AMQP\x00\x00\x09\x01" + bytes(8),
}


@pytest.fixture(autouse=True)
def nothing_fails_inside(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A handler that raises drops its client, which looks like a refusal from
    outside: the log has it.
    """
    with caplog.at_level(logging.INFO):
        yield
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
    assert not any(password in caplog.text for password in USERS.values())


@pytest.fixture(scope="module")
def plain() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tls() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="4.3", security=Security("SSL")) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["1.0", "4.3"])
def sasl(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    security = Security("SASL_PLAINTEXT", users=USERS, mechanisms=["PLAIN", "SCRAM-SHA-256"])
    with LocalCluster(brokers=1, release=request.param, security=security) as cluster:
        yield cluster


def rest_of(sock: Any) -> bytes:
    """Return what comes until the broker closes. A broker that does not close is a timeout."""
    found = b""
    try:
        while piece := sock.recv(4096):
            found += piece
    except (ConnectionResetError, ssl.SSLError):
        pass
    return found


def tls_context(cluster: LocalCluster) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=cluster.ca_pem)
    context.check_hostname = False
    return context


def open_tls(cluster: LocalCluster) -> ssl.SSLSocket:
    host, _, port = cluster.bootstrap_servers.partition(":")
    return tls_context(cluster).wrap_socket(
        socket.create_connection((host, int(port)), timeout=GENEROUS_S)
    )


# -- B5: another protocol --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GARBAGE)
def test_b05_what_is_not_kafka_is_closed_on_a_plain_port(plain: LocalCluster, kind: str) -> None:
    with Wire(plain.bootstrap_servers) as wire, Wire(plain.bootstrap_servers) as other:
        wire.socket.sendall(GARBAGE[kind])
        if kind in ("ssh", "amqp"):  # they begin like the size of a frame that is waited for
            wire.socket.shutdown(socket.SHUT_WR)
        assert rest_of(wire.socket) == b""
        assert other.ask(ApiVersions(), 0).error_code == 0


@pytest.mark.parametrize("kind", ["kafka", "http", "noise"])
def test_b05_plaintext_on_a_tls_port_is_closed_with_an_alert_at_most(
    tls: LocalCluster, kind: str
) -> None:
    frame = b"".join(encode_request(ApiVersions(), 0, 1, "plain"))
    data = GARBAGE.get(kind, len(frame).to_bytes(4, "big") + frame)
    with Wire(tls.bootstrap_servers) as wire:
        wire.socket.sendall(data)
        assert rest_of(wire.socket)[:1] in (b"", b"\x15"), (
            "nothing, or a TLS alert: never a Kafka answer"
        )
    with open_tls(tls) as right:
        assert right.version() in ("TLSv1.2", "TLSv1.3")


def test_b05_a_handshake_given_up_at_each_step_costs_one_connection(tls: LocalCluster) -> None:
    """The client's flights, cut at every 16th byte; then silence or a reset."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls_context(tls).wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    for cut in range(0, len(hello), 16):
        with Wire(tls.bootstrap_servers) as wire:
            wire.socket.sendall(hello[:cut])
            wire.socket.shutdown(socket.SHUT_WR)
            assert rest_of(wire.socket)[:1] in (b"", b"\x15")
    with Wire(tls.bootstrap_servers) as wire:  # the whole first flight, and no second
        wire.socket.sendall(hello)
        assert wire.socket.recv(1) == b"\x16"
        wire.socket.shutdown(socket.SHUT_WR)
        rest_of(wire.socket)
    open_tls(tls).close()


# -- B6: logins ------------------------------------------------------------------------------------


def shake(wire: Wire, mechanism: str, version: int = 1) -> Any:
    return wire.ask(Handshake(mechanism=mechanism), version)


def send_token(wire: Wire, token: bytes) -> Any:
    return wire.ask(Authenticate(auth_bytes=token), 0)


def is_over(wire: Wire) -> bool:
    return rest_of(wire.socket) == b""


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", "canary"), ("", ""), ("bob", "")]
)
def test_b06_wrong_password_and_unknown_user_are_refused_alike(
    sasl: LocalCluster, user: str, password: str
) -> None:
    with Wire(sasl.bootstrap_servers) as wire:
        assert shake(wire, "PLAIN").error_code == 0
        answer = send_token(wire, b"\0%b\0%b" % (user.encode(), password.encode()))
        assert (answer.error_code, answer.auth_bytes) == (REFUSED, b"")
        reported = answer.error_message
        assert is_over(wire)
    with Wire(sasl.bootstrap_servers) as wire:
        shake(wire, "PLAIN")
        assert send_token(wire, b"no plain token at all").error_message == reported, (
            "the text reveals no difference"
        )
        assert is_over(wire)


def test_b06_a_mechanism_that_is_not_enabled_is_refused_with_the_list(sasl: LocalCluster) -> None:
    for name in ("SCRAM-SHA-512", "GSSAPI", "x" * 1_000, ""):
        with Wire(sasl.bootstrap_servers) as wire:
            answer = shake(wire, name)
            assert (answer.error_code, list(answer.mechanisms)) == (33, ["PLAIN", "SCRAM-SHA-256"])
            assert is_over(wire)


def test_b06_no_request_is_served_before_the_login(sasl: LocalCluster) -> None:
    before = sasl.requests("Metadata")
    for early in ("at once", "after the handshake"):
        with Wire(sasl.bootstrap_servers) as wire:
            assert wire.ask(ApiVersions(), 0).error_code == 0, "ApiVersions is open to everybody"
            if early != "at once":
                shake(wire, "PLAIN")
            wire.send(Metadata(topics=None), 1)
            assert is_over(wire)
    assert sasl.requests("Metadata") == before


@pytest.mark.parametrize("version", [0, 1])
def test_b06_an_oversize_token_ends_the_connection(sasl: LocalCluster, version: int) -> None:
    """512 KiB is the bound before a login (sasl.server.max.receive.size), whatever the frame is."""
    with Wire(sasl.bootstrap_servers) as wire:
        shake(wire, "PLAIN", version)
        token = b"\0alice\0" + b"x" * (600 * 1024)
        try:
            if version:
                wire.send(Authenticate(auth_bytes=token), 0)
            else:
                wire.send_frame(token)
        except (BrokenPipeError, ConnectionResetError):
            pass  # closed before all of it was sent
        assert is_over(wire)
    log_in_by_scram(sasl)


def log_in_by_scram(cluster: LocalCluster, nonce: str = "fresh-nonce") -> list[bytes]:
    """Log in; return the client's messages."""
    client = ScramClient("SCRAM-SHA-256", "alice", Secret(USERS["alice"]), nonce)
    sent = [client.first()]
    with Wire(cluster.bootstrap_servers) as wire:
        shake(wire, "SCRAM-SHA-256")
        answer = send_token(wire, sent[0])
        sent.append(client.step(answer.auth_bytes))
        assert send_token(wire, sent[1]).error_code == 0
        assert wire.ask(Metadata(topics=[]), 1).brokers
    return sent


def test_b06_a_replayed_scram_login_is_refused(sasl: LocalCluster) -> None:
    """CVE-2024-56128: the server checks the nonce of the last message,
    which is new in each login.
    """
    first, final = log_in_by_scram(sasl)
    with Wire(sasl.bootstrap_servers) as wire:
        shake(wire, "SCRAM-SHA-256")
        assert send_token(wire, first).error_code == 0
        assert send_token(wire, final).error_code == REFUSED
        assert is_over(wire)


def unsecured_token(subject: str, expires_s: int) -> str:
    parts = ('{"alg":"none"}', f'{{"sub":"{subject}","exp":{expires_s}}}')
    return (
        ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
        + "."
    )


def test_b06_an_expired_token_and_another_principal_are_refused() -> None:
    security = Security("SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"], session_lifetime_ms=3_600_000)
    with LocalCluster(brokers=1, release="4.3", security=security) as cluster:
        now_s = cluster._call(lambda: cluster._cluster.now_ms) // 1000

        def message(subject: str, expires_s: int) -> bytes:
            return b"n,,\x01auth=Bearer %b\x01\x01" % unsecured_token(subject, expires_s).encode()

        with Wire(cluster.bootstrap_servers) as wire:
            shake(wire, "OAUTHBEARER")
            answer = send_token(wire, message("alice", now_s - 10))
            # RFC 7628: a status first, and the failure after the client's ^A
            if answer.error_code == 0:
                assert b"invalid_token" in answer.auth_bytes
                answer = send_token(wire, b"\x01")
            assert answer.error_code == REFUSED
            assert is_over(wire)
        with Wire(cluster.bootstrap_servers) as wire:
            shake(wire, "OAUTHBEARER")
            assert send_token(wire, message("alice", now_s + 1_000)).error_code == 0
            shake(wire, "OAUTHBEARER")
            assert send_token(wire, message("bob", now_s + 1_000)).error_code == REFUSED, "KIP-368"
            assert is_over(wire)


def test_b06_plain_logs_in_with_the_right_password(sasl: LocalCluster) -> None:
    """So that the refusals above say something."""
    token = PlainClient("alice", Secret(USERS["alice"])).first()
    with Wire(sasl.bootstrap_servers) as wire:
        shake(wire, "PLAIN")
        assert send_token(wire, token).error_code == 0
        assert wire.ask(Metadata(topics=[]), 1).brokers
