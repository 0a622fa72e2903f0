"""Logins: RFC vectors, a foreign client against our server, and everything that must be refused."""

from __future__ import annotations

import base64
import importlib

import pytest
from hypothesis import given, strategies as st

from parley.errors import AuthenticationError
from parley.protocol.sasl import (
    ClientMechanism,
    OAuthBearerClient,
    OAuthBearerServer,
    PlainClient,
    PlainServer,
    ScramClient,
    ScramCredential,
    ScramServer,
    ServerMechanism,
)
from parley.types import Secret

SALT = bytes(range(16))


def log_in(client: ClientMechanism, server: ServerMechanism) -> None:
    message: bytes | None = client.first()
    while message is not None:
        message = client.step(server.step(message))


def scram_server(
    mechanism: str = "SCRAM-SHA-256", password: str = "pencil", nonce: str = "server"
) -> ScramServer:
    known = {"user": ScramCredential.from_password(mechanism, Secret(password), SALT)}
    return ScramServer(mechanism, known.get, nonce)


def test_rfc_7677_exchange_for_sha_256() -> None:
    """The example of RFC 7677, section 3, byte for byte."""
    client = ScramClient("SCRAM-SHA-256", "user", Secret("pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert client.step(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.complete


# kafka-python 3.0.12 reads its own version through a deprecated importlib call when it is imported.
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    "password", ["pencil", "1\u00bd", "pa\u00a0ss", "e\u0301", "\u00adsoft", "a\tb"]
)
def test_a_foreign_scram_client_logs_in_to_our_server(mechanism: str, password: str) -> None:
    scram = importlib.import_module("kafka.net.sasl.scram")
    foreign = scram.ScramClient("user", password, mechanism)
    known = {"user": ScramCredential.from_password(mechanism, Secret(password), SALT)}
    server = ScramServer(mechanism, known.get, "server")
    first = server.step(foreign.first_message())
    foreign.process_server_first_message(first)
    last = server.step(foreign.final_message())
    foreign.process_server_final_message(last)
    assert server.principal == "user"


@given(user=st.text(min_size=1, max_size=8), password=st.text(min_size=1, max_size=8))
def test_any_name_and_password_log_in_as_they_are(user: str, password: str) -> None:
    known = {user: ScramCredential.from_password("SCRAM-SHA-256", Secret(password), SALT)}
    server = ScramServer("SCRAM-SHA-256", known.get, "server")
    log_in(ScramClient("SCRAM-SHA-256", user, Secret(password), "client"), server)
    assert server.principal == user


@pytest.mark.parametrize(("user", "password"), [("ann", "x\udcff"), ("an\udcff", "x")])
def test_what_is_no_utf8_is_refused_before_anything_is_sent(user: str, password: str) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with pytest.raises(AuthenticationError, match="UTF-8"):
            ScramClient(mechanism, user, Secret(password), "nonce")
    with pytest.raises(AuthenticationError, match="UTF-8"):
        PlainClient(user, Secret(password))


def test_wrong_password_and_unknown_user_are_refused_with_the_same_text() -> None:
    texts = set()
    for user, password in [("user", "wrong"), ("nobody", "pencil")]:
        with pytest.raises(AuthenticationError) as caught:
            log_in(ScramClient("SCRAM-SHA-256", user, Secret(password), "n1"), scram_server())
        texts.add(str(caught.value))
    for user, password in [("user", "wrong"), ("nobody", "pencil")]:
        with pytest.raises(AuthenticationError) as caught:
            log_in(PlainClient(user, Secret(password)), PlainServer({"user": Secret("pencil")}.get))
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert "pencil" not in texts.pop()


def test_the_server_checks_the_final_nonce() -> None:
    """CVE-2024-56128: a server that does not lets a sniffed proof be used with another nonce."""
    client, server = ScramClient("SCRAM-SHA-256", "user", Secret("pencil"), "n1"), scram_server()
    final = client.step(server.step(client.first()))
    assert final is not None
    with pytest.raises(AuthenticationError):
        server.step(final.replace(b"r=n1server", b"r=n1other"))


@pytest.mark.parametrize(
    "iterations",
    ["4095", "16385", "2147483647", "9" * 400, "-4096", "", "4096.0", "四", "000004096000",
     "04096", "0" * 400 + "4096", "16385000000", "4096" + "0" * 4_000, "٤٠٩٦", "+4096", " 4096",
     "1_6384"],
)  # fmt: skip
def test_the_client_does_not_work_for_absurd_iteration_counts(iterations: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "user", Secret("pencil"), "n1")
    with pytest.raises(AuthenticationError, match="iterations") as caught:
        client.step(f"r=n1x,s={base64.b64encode(SALT).decode()},i={iterations}".encode())
    assert not caught.value.retriable
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("nonce", ["", "n", "n1", "other"])
def test_the_client_refuses_a_nonce_that_does_not_continue_its_own(nonce: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "user", Secret("pencil"), "n1")
    with pytest.raises(AuthenticationError, match="nonce"):
        client.step(f"r={nonce},s={base64.b64encode(SALT).decode()},i=4096".encode())


def test_a_server_without_the_password_is_found_out() -> None:
    client = ScramClient("SCRAM-SHA-256", "user", Secret("pencil"), "n1")
    client.step(scram_server(password="other").step(client.first()))
    with pytest.raises(AuthenticationError, match="may not be the broker"):
        client.step(b"v=" + base64.b64encode(bytes(32)))


@given(message=st.binary(max_size=64))
def test_hostile_messages_are_refused_and_never_crash(message: bytes) -> None:
    for make in (
        scram_server,
        lambda: PlainServer({}.get),
        lambda: OAuthBearerServer(lambda _: None),
    ):
        server = make()
        try:
            server.step(message)
            server.step(message)
        except AuthenticationError:
            pass
        assert not server.complete
    client = ScramClient("SCRAM-SHA-256", "user", Secret("pencil"), "n1")
    with pytest.raises(AuthenticationError):
        client.step(message)


def test_oauthbearer_accepts_and_refuses() -> None:
    server = OAuthBearerServer({"good.token": "alice"}.get)
    log_in(OAuthBearerClient(Secret("good.token"), {"traceId": "123"}), server)
    assert server.principal == "alice"
    with pytest.raises(AuthenticationError):
        log_in(OAuthBearerClient(Secret("bad.token")), OAuthBearerServer(lambda _: None))


def test_oauthbearer_message_is_that_of_rfc_7628() -> None:
    client = OAuthBearerClient(
        Secret("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="), {"host": "server.example.com"}
    )
    assert client.first() == (
        b"n,,\x01auth=Bearer "
        b"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01host=server.example.com\x01\x01"
    )


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=Bearer b", "ä"])
def test_a_token_cannot_smuggle_fields(token: str) -> None:
    with pytest.raises(AuthenticationError):
        OAuthBearerClient(Secret(token))


def test_no_secret_in_any_repr() -> None:
    machines = [
        PlainClient("user", Secret("hunter2")),
        ScramClient("SCRAM-SHA-256", "user", Secret("hunter2"), "n"),
        OAuthBearerClient(Secret("hunter2")),
    ]
    assert all("hunter2" not in repr(machine) + repr(vars(machine)) for machine in machines)


@pytest.mark.parametrize(
    "refusal",
    [b"[" * 100_000, b'{"status":' * 50_000, b'{"status":"a\x1b[2J\\u001b[2J"}', b"[]", b"\xff"],
)
def test_a_refusal_of_a_token_is_read_whatever_it_says(refusal: bytes) -> None:
    """Deeply nested JSON raises RecursionError in Python's parser, which no
    caller takes for a refusal.
    """
    client = OAuthBearerClient(Secret("good"))
    assert client.step(refusal) == b"\x01"
    with pytest.raises(AuthenticationError, match="refused the OAUTHBEARER token") as caught:
        client.step(b"")
    assert str(caught.value).isprintable()


def test_a_check_of_tokens_that_fails_is_a_refusal() -> None:
    def principal_of(token: str) -> str | None:
        raise RecursionError(token)

    with pytest.raises(AuthenticationError, match="invalid credentials"):
        OAuthBearerServer(principal_of).step(OAuthBearerClient(Secret("secret")).first())
