"""SASL logins between the two ends: every mechanism, both handshakes, every order
that is refused (V13, V14).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.errors import (
    AuthenticationError,
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from parley.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    encode_request,
)
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    Authenticated,
    BrokerProtocol,
    BrokerSasl,
    ClientProtocol,
    ClientSettings,
    Closed,
    Connection,
    Negotiated,
    RequestReceived,
    ResponseReceived,
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

USERS = {"alice": Secret("wonder"), "bob": Secret("builder")}
OLD = {3: (0, 2), 17: (0, 0), 18: (0, 0)}
MODERN = {3: (0, 12), 17: (0, 1), 18: (0, 4), 36: (0, 2)}


def scram(name: str) -> ScramServer:
    known = {
        user: ScramCredential.from_password(name, password, b"salt")
        for user, password in USERS.items()
    }
    return ScramServer(name, known.get, "server-nonce")


def sasl(session_lifetime_ms: int = 0) -> BrokerSasl:
    return BrokerSasl(
        {
            "PLAIN": lambda: PlainServer(USERS.get),
            "SCRAM-SHA-256": lambda: scram("SCRAM-SHA-256"),
            "SCRAM-SHA-512": lambda: scram("SCRAM-SHA-512"),
            "OAUTHBEARER": lambda: OAuthBearerServer(
                lambda token: "alice" if token == "good" else None
            ),
        },
        session_lifetime_ms,
    )


LOGINS: dict[str, Callable[[str], ClientMechanism]] = {
    "PLAIN": lambda secret: PlainClient("alice", Secret(secret)),
    "SCRAM-SHA-256": lambda secret: ScramClient(
        "SCRAM-SHA-256", "alice", Secret(secret), "client-nonce"
    ),
    "SCRAM-SHA-512": lambda secret: ScramClient(
        "SCRAM-SHA-512", "alice", Secret(secret), "client-nonce"
    ),
    "OAUTHBEARER": lambda secret: OAuthBearerClient(
        Secret("good" if secret == "wonder" else "bad")
    ),
}


class Talk:
    """Carries bytes between the ends until both are silent; answers what is
    not part of the login.
    """

    def __init__(
        self, client: ClientProtocol, broker: BrokerProtocol, ranges: dict[int, tuple[int, int]]
    ) -> None:
        self.client, self.broker, self.ranges = client, broker, ranges
        self.requests: list[tuple[int, int]] = []
        self.client_events: list[Any] = []
        self.broker_events: list[Any] = []
        self.frames: list[bytes] = []  # what the client sent, without sizes

    def run(self) -> None:
        while self._carry(self.client, self.broker) | self._carry(self.broker, self.client):
            self.client_events += drain(self.client)
            for event in drain(self.broker, self._answer):
                self.broker_events.append(event)

    def _carry(self, source: Connection, target: Connection) -> bool:
        data = b"".join(source.data_to_send())
        if source is self.client:
            rest = data
            while rest:
                size = int.from_bytes(rest[:4], "big")
                self.frames.append(rest[4 : 4 + size])
                rest = rest[4 + size :]
        target.receive_data(data)
        return bool(data)

    def _answer(self, request: RequestReceived) -> None:
        self.requests.append((request.api_key, request.version))
        answer = MetadataResponse(cluster_id="c")
        if request.api_key == 18:
            entry = ApiVersionsResponse.ApiVersion
            answer = ApiVersionsResponse(
                api_keys=[
                    entry(api_key=key, min_version=a, max_version=b)
                    for key, (a, b) in self.ranges.items()
                ]
            )
        self.broker.send_response(request, answer)


def drain(
    connection: Connection, answer: Callable[[RequestReceived], None] | None = None
) -> list[Any]:
    found = []
    while (event := connection.next_event()) not in (NEED_DATA, PAUSED):
        found.append(event)
        if isinstance(event, RequestReceived) and answer is not None:
            answer(event)
    return found


def talk(
    mechanism: ClientMechanism,
    ranges: dict[int, tuple[int, int]],
    broker: BrokerProtocol | None = None,
    **settings: Any,
) -> Talk:
    client = ClientProtocol(ClientSettings(**settings), mechanism)
    made = Talk(
        client, broker if broker is not None else BrokerProtocol(ServeAll(), sasl=sasl()), ranges
    )
    client.start(0)
    made.run()
    return made


@pytest.mark.parametrize("ranges", [OLD, MODERN], ids=["handshake v0", "handshake v1"])
@pytest.mark.parametrize("name", LOGINS)
def test_v13_the_whole_order_of_a_login(name: str, ranges: dict[int, tuple[int, int]]) -> None:
    made = talk(LOGINS[name]("wonder"), ranges, probe_old_brokers=True)
    accepted, negotiated = made.client_events
    assert accepted == Authenticated(0)
    assert isinstance(negotiated, Negotiated)
    # ApiVersions v0 before the login, the newest version after it; the login itself is no event.
    assert made.requests == [(18, 0), (18, 4)]
    assert made.broker.principal == "alice"
    assert made.broker.state is made.client.state is State.READY
    handshake = (17).to_bytes(2, "big") + (0 if ranges is OLD else 1).to_bytes(2, "big")
    assert made.frames[1].startswith(handshake)
    authenticate = [frame for frame in made.frames if frame.startswith(b"\0\x24\0")]
    assert (len(authenticate) > 0) is (ranges is MODERN)
    made.client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=9)
    made.run()
    assert isinstance(made.client_events[-1], ResponseReceived)


@pytest.mark.parametrize("name", LOGINS)
def test_refused_credentials_are_an_authentication_error(name: str) -> None:
    made = talk(LOGINS[name]("wrong"), MODERN)
    (closed,) = made.client_events
    assert isinstance(closed.error, AuthenticationError)
    assert "Authentication failed: invalid credentials" in str(closed.error)
    assert made.broker.is_closed
    assert made.broker.principal is None
    assert "wonder" not in repr(made.frames)


def test_an_oauth_refusal_carries_the_brokers_status() -> None:
    made = talk(LOGINS["OAUTHBEARER"]("wrong"), MODERN)
    assert "invalid_token" in str(made.client_events[0].error)


@pytest.mark.parametrize("name", LOGINS)
def test_a_refusal_without_words_is_understood(name: str) -> None:
    """Brokers before 1.0 close the connection; the client says what that most likely means."""
    made = talk(LOGINS[name]("wrong"), OLD)
    if not made.client.is_closed:
        made.client.receive_eof()
    (closed,) = [*made.client_events, *drain(made.client)]
    assert isinstance(closed.error, AuthenticationError)


def test_a_mechanism_that_is_not_offered_names_those_that_are() -> None:
    only = BrokerSasl({"SCRAM-SHA-512": lambda: scram("SCRAM-SHA-512")})
    made = talk(LOGINS["PLAIN"]("wonder"), MODERN, BrokerProtocol(ServeAll(), sasl=only))
    (closed,) = made.client_events
    assert isinstance(closed.error, AuthenticationError)
    assert "does not offer PLAIN; it offers SCRAM-SHA-512" in str(closed.error)
    assert made.broker.is_closed


def test_a_broker_without_sasl_is_refused_before_a_password_is_sent() -> None:
    made = talk(LOGINS["PLAIN"]("wonder"), {18: (0, 4), 3: (0, 12)}, BrokerProtocol(ServeAll()))
    (closed,) = made.client_events
    assert isinstance(closed.error, UnsupportedVersionError)
    assert len(made.frames) == 1


def test_a_pinned_release_asks_nothing_around_the_login() -> None:
    made = talk(LOGINS["PLAIN"]("wonder"), MODERN, pinned_release="0.10.0")
    assert made.requests == []
    # handshake v0, then a bare token
    assert [frame[:4] for frame in made.frames] == [b"\0\x11\0\0", b"\0ali"]
    assert isinstance(made.client_events[-1], Negotiated)
    assert made.client_events[-1].inferred


def test_silence_during_a_login_has_a_deadline_and_a_stage() -> None:
    client = ClientProtocol(mechanism=LOGINS["PLAIN"]("wonder"))
    broker = BrokerProtocol(ServeAll(), sasl=sasl())
    made = Talk(client, broker, MODERN)
    client.start(0, 500)
    broker.receive_data(b"".join(client.data_to_send()))
    drain(broker, made._answer)
    client.receive_data(b"".join(broker.data_to_send()))
    drain(client)
    assert client.state is State.AUTHENTICATING
    assert client.next_deadline_ms() == 500
    client.receive_eof()
    (closed,) = drain(client)
    assert isinstance(closed.error, NetworkError)
    assert closed.error.stage == "authentication"


# -- what a broker refuses


def framed(message: Any, version: int) -> bytes:
    content = b"".join(bytes(part) for part in encode_request(message, version, 7, "raw"))
    return len(content).to_bytes(4, "big") + content


HANDSHAKE = framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)
TOKEN = framed(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder"), 1)
VERSIONS = framed(ApiVersionsRequest(), 0)
METADATA = framed(MetadataRequest(topics=[]), 1)


@pytest.mark.parametrize(
    "sent",
    [
        METADATA,
        TOKEN,
        VERSIONS + METADATA,
        HANDSHAKE + VERSIONS,
        HANDSHAKE + METADATA,
        HANDSHAKE + HANDSHAKE,
    ],
    ids=[
        "metadata",
        "token first",
        "versions, metadata",
        "versions late",
        "metadata late",
        "handshake twice",
    ],
)
def test_v13_anything_out_of_order_closes_the_connection(sent: bytes) -> None:
    broker = BrokerProtocol(ServeAll(), sasl=sasl())
    broker.receive_data(sent)
    events = drain(broker, lambda request: broker.send_response(request, ApiVersionsResponse()))
    assert isinstance(events[-1], Closed)
    assert isinstance(events[-1].error, RemoteProtocolError)
    assert broker.principal is None


@pytest.mark.parametrize("before", [b"", HANDSHAKE])
def test_v13_before_the_login_frames_are_small(before: bytes) -> None:
    broker = BrokerProtocol(ServeAll(), sasl=sasl())
    broker.receive_data(before + (512 * 1024 + 1).to_bytes(4, "big"))
    (closed,) = drain(broker)
    assert "max_frame_bytes=524288" in str(closed.error)


def test_after_the_login_frames_may_be_large() -> None:
    broker = BrokerProtocol(ServeAll(), sasl=sasl())
    broker.receive_data(HANDSHAKE + TOKEN)
    assert drain(broker) == []
    broker.receive_data((512 * 1024 + 1).to_bytes(4, "big"))
    assert drain(broker) == []
    assert broker.state is State.READY


def test_the_client_too_reads_nothing_large_before_the_login() -> None:
    client = ClientProtocol(ClientSettings(), PlainClient("alice", Secret("wonder")))
    client.start(0)
    client.receive_data((512 * 1024 + 1).to_bytes(4, "big"))
    (closed,) = drain(client)
    assert "max_frame_bytes=524288" in str(closed.error)

    made = talk(PlainClient("alice", Secret("wonder")), MODERN)
    made.client.receive_data((512 * 1024 + 1).to_bytes(4, "big"))
    assert drain(made.client) == []
    assert made.client.state is State.READY


def test_a_login_that_lasts_forever_is_not_repeated() -> None:
    broker = BrokerProtocol(ServeAll(), sasl=sasl())
    broker.receive_data(HANDSHAKE + TOKEN)
    drain(broker)
    broker.data_to_send()
    broker.receive_data(HANDSHAKE + TOKEN)
    assert drain(broker) == []
    handshake, authenticate = broker.data_to_send()
    # ILLEGAL_SASL_STATE
    assert bytes(handshake)[8:10] == bytes(authenticate)[8:10] == (34).to_bytes(2, "big")
    assert broker.principal == "alice"


# -- KIP-368


def session() -> Talk:
    made = talk(
        LOGINS["SCRAM-SHA-256"]("wonder"), MODERN, BrokerProtocol(ServeAll(), sasl=sasl(60_000))
    )
    assert made.client_events[0] == Authenticated(60_000)
    return made


def test_v14_a_login_is_repeated_behind_what_is_in_flight_and_holds_back_what_follows() -> None:
    made = session()
    made.client_events.clear()
    before = made.client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=9)
    made.client.reauthenticate(LOGINS["SCRAM-SHA-256"]("wonder"), 0, 100)
    after = [
        made.client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=n) for n in (9, 4)
    ]
    abandoned = made.client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=1)
    made.client.abandon(abandoned)
    assert made.client.in_flight == 5
    assert made.client.next_deadline_ms() == 4
    assert made.client.expired(5) == [after[1]]
    made.run()
    kinds = [getattr(event, "correlation_id", type(event)) for event in made.client_events]
    assert kinds == [before, Authenticated, *after]
    assert made.client.state is State.READY
    assert made.broker.principal == "alice"


def test_v14_requests_that_were_held_back_are_lost_with_the_connection() -> None:
    made = session()
    made.client.reauthenticate(LOGINS["SCRAM-SHA-256"]("wonder"), 0, 100)
    held = made.client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=9)
    made.client.receive_eof()
    (closed,) = drain(made.client)
    assert closed.lost == (held,)
    assert made.client.in_flight == 0


def test_v14_a_repeated_login_with_bad_credentials_ends_the_connection() -> None:
    made = session()
    made.client_events.clear()
    made.client.reauthenticate(LOGINS["SCRAM-SHA-256"]("wrong"), 0, 100)
    made.run()
    (closed,) = made.client_events
    assert isinstance(closed.error, AuthenticationError)


def test_v14_a_repeated_login_may_not_change_who_it_is() -> None:
    made = session()
    made.client_events.clear()
    made.client.reauthenticate(ScramClient("SCRAM-SHA-256", "bob", USERS["bob"], "nonce"), 0, 100)
    made.run()
    assert isinstance(made.client_events[0].error, AuthenticationError)
    assert made.broker.is_closed


def test_v14_a_repeated_login_may_not_change_the_mechanism() -> None:
    made = session()
    made.client.reauthenticate(LOGINS["PLAIN"]("wonder"), 0, 100)
    made.run()
    assert isinstance(made.client_events[-1].error, AuthenticationError)


def test_only_a_connection_in_use_logs_in_again() -> None:
    client = ClientProtocol()
    with pytest.raises(LocalProtocolError, match="fresh"):
        client.reauthenticate(LOGINS["PLAIN"]("wonder"), 0, 100)
