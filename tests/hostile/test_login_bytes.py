"""Any bytes during a login, at either end: refused in parley's own words, without a
crash and without a login.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.errors import AuthenticationError, KafkaError
from parley.messages import (
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    decode_response,
    encode_request,
    encode_response,
)
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    BrokerProtocol,
    BrokerSasl,
    ClientProtocol,
    Closed,
    Connection,
    ServeAll,
    State,
)
from parley.protocol.sasl import (
    ClientMechanism,
    OAuthBearerClient,
    OAuthBearerServer,
    PlainClient,
    PlainServer,
    ScramClient,
    ScramCredential,
    ScramServer,
)
from parley.types import Secret

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
SECRET = Secret("canary")


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def joined(segments: Any) -> bytes:
    return framed(b"".join(bytes(segment) for segment in segments))


def offered() -> BrokerSasl:
    credential = ScramCredential.from_password("SCRAM-SHA-256", SECRET, b"salt")
    return BrokerSasl(
        {
            "PLAIN": lambda: PlainServer({"alice": SECRET}.get),
            "SCRAM-SHA-256": lambda: ScramServer(
                "SCRAM-SHA-256", {"alice": credential}.get, "nonce"
            ),
            "OAUTHBEARER": lambda: OAuthBearerServer(
                lambda token: "alice" if token == "right" else None
            ),
        }
    )


def mechanism(name: str) -> ClientMechanism:
    made: dict[str, Callable[[], ClientMechanism]] = {
        "PLAIN": lambda: PlainClient("alice", SECRET),
        "SCRAM-SHA-256": lambda: ScramClient("SCRAM-SHA-256", "alice", SECRET, "nonce"),
        "OAUTHBEARER": lambda: OAuthBearerClient(Secret("right")),
    }
    return made[name]()


def feed(connection: Connection, data: bytes) -> list[Any]:
    connection.receive_data(data)
    found = []
    while (event := connection.next_event()) not in (NEED_DATA, PAUSED):
        found.append(event)
    for event in found:
        if isinstance(event, Closed):
            assert isinstance(event.error, KafkaError)
            assert "canary" not in str(event.error)
    assert b"canary" not in b"".join(connection.data_to_send()).replace(b"\0alice\0canary", b"")
    return found


def client_in_login(name: str, raw: bool) -> ClientProtocol:
    client = ClientProtocol(mechanism=mechanism(name))
    client.start(0)
    entry = ApiVersionsResponse.ApiVersion
    keys = [(17, 0), (18, 0)] if raw else [(17, 1), (18, 0), (36, 2)]
    versions = ApiVersionsResponse(
        api_keys=[entry(api_key=key, max_version=newest) for key, newest in keys]
    )
    feed(client, joined(encode_response(versions, 0, 0)))
    feed(
        client,
        joined(encode_response(SaslHandshakeResponse(mechanisms=[name]), 0 if raw else 1, 1)),
    )
    assert client.state is State.AUTHENTICATING
    return client


def broker_in_login(name: str, raw: bool) -> BrokerProtocol:
    broker = BrokerProtocol(ServeAll(), sasl=offered())
    handshake = SaslHandshakeRequest(mechanism=name)
    assert feed(broker, joined(encode_request(handshake, 0 if raw else 1, 0, "x"))) == []
    return broker


TEXTS = st.one_of(
    st.binary(max_size=80),
    st.text(st.sampled_from("nrsicvpe=,+/AZaz09\x00\x01"), max_size=80).map(str.encode),
    st.builds(
        lambda nonce, salt, count: f"r={nonce},s={salt},i={count}".encode(),
        st.sampled_from(["nonce", "nonceX", "", "x"]),
        st.sampled_from(["c2FsdA==", "", "%%%", "c2FsdA"]),
        st.sampled_from(["4096", "4095", "16385", "-1", "99999999999999999999", "٤٠٩٦", ""]),
    ),
)


@given(st.sampled_from(MECHANISMS), st.booleans(), st.lists(TEXTS, min_size=1, max_size=3))
def test_a_client_survives_any_challenge(name: str, raw: bool, challenges: list[bytes]) -> None:
    client = client_in_login(name, raw)
    for number, challenge in enumerate(challenges):
        if raw:
            feed(client, framed(challenge))
        else:
            answer = SaslAuthenticateResponse(auth_bytes=challenge)
            feed(client, joined(encode_response(answer, 2, 2 + number)))
        if client.state is not State.AUTHENTICATING:
            break
    assert client.state is not State.READY


@given(st.sampled_from(MECHANISMS), st.booleans(), st.lists(TEXTS, min_size=1, max_size=3))
def test_a_broker_survives_any_token_and_lets_nobody_in(
    name: str, raw: bool, tokens: list[bytes]
) -> None:
    broker = broker_in_login(name, raw)
    for token in tokens:
        if raw:
            feed(broker, framed(token))
        else:
            feed(
                broker, joined(encode_request(SaslAuthenticateRequest(auth_bytes=token), 2, 1, "x"))
            )
        assert broker.principal is None
        if broker.is_closed:
            break


@given(st.sampled_from(MECHANISMS), st.booleans(), st.binary(max_size=200))
def test_any_bytes_in_the_middle_of_a_login(name: str, raw: bool, data: bytes) -> None:
    feed(client_in_login(name, raw), data)
    broker = broker_in_login(name, raw)
    feed(broker, data)
    assert broker.principal is None


def test_an_iteration_count_that_would_keep_the_processor_busy_is_refused() -> None:
    """CVE-2026-10143: a hostile broker asked for as many SCRAM iterations as it liked."""
    client = client_in_login("SCRAM-SHA-256", raw=True)
    (closed,) = feed(client, framed(b"r=nonceX,s=c2FsdA==,i=2000000000"))
    assert isinstance(closed.error, AuthenticationError)
    assert "iterations" in str(closed.error)


def test_an_oversize_token_costs_the_client_its_connection_and_the_broker_nothing() -> None:
    broker = broker_in_login("PLAIN", raw=True)
    (closed,) = feed(broker, struct.pack(">i", 512 * 1024 + 1))
    assert "max_frame_bytes=524288" in str(closed.error)
    assert broker._framer.allocated_bytes <= 128 * 1024


def test_a_broker_that_skips_its_proof_is_not_believed() -> None:
    """A peer that says "accepted" without proving that it knows the password
    may not be the broker.
    """
    client = client_in_login("SCRAM-SHA-256", raw=False)
    (closed,) = feed(
        client, joined(encode_response(SaslAuthenticateResponse(auth_bytes=b"v=AAAA"), 2, 2))
    )
    assert isinstance(closed.error, AuthenticationError)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_reason_of_a_refusal_is_the_same_for_unknown_users_and_wrong_passwords(
    name: str,
) -> None:
    answers = set()
    for user, password in (("alice", "wrong"), ("nobody", "wrong")):
        broker = broker_in_login(name, raw=False)
        client: ClientMechanism
        if name == "PLAIN":
            client = PlainClient(user, Secret(password))
        elif name == "OAUTHBEARER":
            client = OAuthBearerClient(Secret(user))
        else:
            client = ScramClient(name, user, Secret(password), "nonce")
        message: bytes | None = client.first()
        for correlation_id in (1, 2):
            if message is None or broker.is_closed:
                break
            broker.receive_data(
                joined(
                    encode_request(
                        SaslAuthenticateRequest(auth_bytes=message), 2, correlation_id, "x"
                    )
                )
            )
            broker.next_event()
            answer = b"".join(broker.data_to_send())
            if not broker.is_closed:
                _, challenge = decode_response(36, 2, memoryview(answer)[4:])
                message = client.step(challenge.auth_bytes)
        assert broker.is_closed
        answers.add(answer[8:])
    assert len(answers) == 1
