"""Listeners with TLS and logins: parley's client and
embedded clusters of several releases, both ways.

Works: every protocol with every mechanism that a release has. Fails: each wrong thing with its own
error, at once, and without a word of the password.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import trustme

from parley.client import Client, ClientOptions
from parley.devcluster import AsyncLocalCluster, LocalCluster, Security
from parley.devcluster.security.security import unsecured_principal
from parley.errors import AuthenticationError, ConfigError, KafkaError, NetworkError
from parley.messages import MetadataRequest, SaslHandshakeRequest
from parley.net import ConnectOptions, open_connection
from parley_laboratory.wire import Wire

CANARY = 'canary-7c=,"\\ä'
USERS = {"alice": CANARY, "bob": "another"}
TOPIC = "events"
LOGINS = [
    ("0.10.0", "PLAIN"),
    ("0.10.2", "SCRAM-SHA-512"),
    ("1.0", "PLAIN"),
    ("1.0", "SCRAM-SHA-256"),
    ("2.4", "OAUTHBEARER"),
    ("3.9", "SCRAM-SHA-256"),
    ("4.3", "PLAIN"),
    ("4.3", "SCRAM-SHA-512"),
    ("4.3", "OAUTHBEARER"),
]


def client_of(cluster: LocalCluster, *, mechanism: str | None = None, **changes: Any) -> Client:
    properties = {
        **cluster.client_properties(mechanism=mechanism),
        "allow_plaintext_password": True,
        **changes,
    }
    return Client(ClientOptions.from_properties(properties))


def write_and_read(client: Client) -> None:
    from parley.types import TopicPartition

    written = client.produce(TOPIC, pa.table({"value": [b"one", b"two"]}))
    assert written.records == 2
    found = [
        value
        for batch in client.fetch(TopicPartition(TOPIC, 0), 0, 2)
        for value in batch["value"].to_pylist()
    ]
    assert found == [b"one", b"two"]


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(("release", "mechanism"), LOGINS)
def test_logins(release: str, mechanism: str, protocol: str) -> None:
    with LocalCluster(
        brokers=2, release=release, security=Security(protocol, users=USERS)
    ) as cluster:
        cluster.create_topic(TOPIC)
        with client_of(cluster, mechanism=mechanism) as client:
            write_and_read(client)
            ports = {f"{node.host}:{node.port}" for node in client.metadata().brokers.values()}
        assert ports == {broker.address for broker in cluster.brokers}


@pytest.mark.parametrize("release", ["0.9", "0.10.0", "2.4", "4.3"])
def test_tls(release: str) -> None:
    with LocalCluster(brokers=2, release=release, security=Security("SSL")) as cluster:
        cluster.create_topic(TOPIC)
        with client_of(cluster) as client:
            write_and_read(client)


def test_mixed_releases_each_offer_what_they_know() -> None:
    security = Security("SASL_SSL", users=USERS)
    releases = {1: "0.10.0", 2: "2.4"}
    with LocalCluster(brokers=3, releases=releases, security=security) as cluster:
        assert cluster.client_properties()["sasl.mechanism"] == "PLAIN"
        cluster.create_topic(TOPIC, partitions=3)
        with client_of(cluster) as client:
            assert client.produce(TOPIC, pa.table({"value": [b"x"] * 30})).records == 30


def test_a_broker_comes_back_as_another_release() -> None:
    with LocalCluster(
        brokers=1, release="1.0", security=Security("SASL_SSL", users=USERS)
    ) as cluster:
        cluster.create_topic(TOPIC)
        with client_of(cluster, mechanism="SCRAM-SHA-256") as client:
            write_and_read(client)
            cluster.stop_broker(1)
            with pytest.raises(ConfigError, match="no SASL mechanism but GSSAPI"):
                cluster.start_broker(1, "0.9")
            cluster.start_broker(1, "4.3")
            assert client.produce(TOPIC, pa.table({"value": [b"three"]})).records == 1


@pytest.fixture(scope="module", params=["0.10.2", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(
        brokers=1, release=request.param, security=Security("SASL_SSL", users=USERS)
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def plaintext() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1) as cluster:
        yield cluster


def test_frames_may_be_as_large_as_a_fetch_that_was_asked_for() -> None:
    """`max_frame_bytes` guards against nonsense; a larger `fetch_max_bytes` is no nonsense."""
    from parley.client import FetchOptions
    from parley.types import TopicPartition

    rows = pa.table({"value": [bytes(100_000)] * 20})
    with LocalCluster(brokers=1, security=Security("SASL_SSL", users=USERS)) as cluster:
        cluster.create_topic(TOPIC)
        with client_of(cluster, max_frame_bytes=64 * 1024) as client:
            client.produce(TOPIC, rows)
            options = FetchOptions(fetch_max_bytes=2**22, max_partition_fetch_bytes=2**22)
            batches = client.fetch(TopicPartition(TOPIC, 0), 0, 20, options)
            assert sum(batch.num_rows for batch in batches) == 20


class TestRefusals:
    """What is wrong is said at once, by the error that it is, and no secret with it.

    At once: milliseconds on a quiet machine; the limit below only distinguishes it from a
    request's time-out of 30 s.
    """

    def fails(self, expected: type[KafkaError], words: str, client: Client) -> None:
        begun = time.monotonic()
        with pytest.raises(expected, match=words) as caught, client:
            client.metadata()
        assert time.monotonic() - begun < 25
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("user", ["alice", "nobody"])
    def test_wrong_password_or_user(self, cluster: LocalCluster, mechanism: str, user: str) -> None:
        properties = cluster.client_properties(mechanism=mechanism)
        del properties["sasl.jaas.config"]
        wrong = {**properties, "sasl_plain_username": user, "sasl_plain_password": CANARY + "not"}
        words = "credentials|refused"
        self.fails(AuthenticationError, words, Client(ClientOptions.from_properties(wrong)))

    def test_a_mechanism_that_is_not_enabled(self) -> None:
        with LocalCluster(
            brokers=1, security=Security("SASL_SSL", users=USERS, mechanisms=["PLAIN"])
        ) as cluster:
            client = client_of(cluster, mechanism="SCRAM-SHA-256")
            self.fails(AuthenticationError, "does not offer SCRAM-SHA-256; it offers PLAIN", client)

    def test_a_token_that_is_not_valid(self) -> None:
        security = Security(
            "SASL_SSL", mechanisms=["OAUTHBEARER"], principal_of={"right": "alice"}.get
        )
        with LocalCluster(brokers=1, security=security) as cluster:
            properties = cluster.client_properties()
            del properties["sasl.jaas.config"]

            def client_with(token: str) -> Client:
                given = {**properties, "sasl_oauth_token_provider": lambda: token}
                return Client(ClientOptions.from_properties(given))

            with client_with("right") as client:
                client.metadata()
            self.fails(
                AuthenticationError,
                "refused the OAUTHBEARER login: .*invalid_token",
                client_with("wrong"),
            )

    def test_an_unknown_ca(self, cluster: LocalCluster) -> None:
        other = trustme.CA().cert_pem.bytes().decode()
        client = client_of(cluster, **{"ssl.truststore.certificates": other})
        self.fails(NetworkError, "certificate is not trusted.*ssl_cafile", client)

    def test_plaintext_to_tls(self, cluster: LocalCluster) -> None:
        client = Client(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=800)
        self.fails(NetworkError, "security_protocol", client)

    @pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
    def test_tls_to_plaintext(self, plaintext: LocalCluster, protocol: str) -> None:
        login = {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": CANARY,
        }
        properties = login if protocol == "SASL_SSL" else {}
        options = {
            "bootstrap_servers": plaintext.bootstrap_servers,
            "security_protocol": protocol,
            **properties,
        }
        client = Client(ClientOptions.from_properties({**options, "default_api_timeout_ms": 800}))
        self.fails(NetworkError, "security_protocol=PLAINTEXT", client)

    def test_no_login_where_one_is_wanted(self, cluster: LocalCluster) -> None:
        properties = {
            **cluster.client_properties(),
            "security.protocol": "SSL",
            "default_api_timeout_ms": 800,
        }
        for name in ("sasl.mechanism", "sasl.jaas.config"):
            del properties[name]
        client = Client(ClientOptions.from_properties(properties))
        self.fails(NetworkError, "security_protocol", client)

    def test_a_login_where_none_is_wanted(self) -> None:
        with LocalCluster(brokers=1, security=Security("SSL")) as cluster:
            login = {
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "alice",
                "sasl_plain_password": CANARY,
            }
            client = client_of(cluster, **{"security.protocol": "SASL_SSL"}, **login)
            self.fails(AuthenticationError, "wants no SASL", client)

    def test_passwords_are_in_no_log(
        self, cluster: LocalCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG):
            for mechanism in ("PLAIN", "SCRAM-SHA-512"):
                with client_of(cluster, mechanism=mechanism) as client:
                    client.metadata()
                    assert CANARY not in repr((client, cluster))
        journal = repr(cluster.requests())
        assert "Metadata" in journal
        assert CANARY not in caplog.text + journal + repr(Security("SASL_SSL", users=USERS))


class TestOrder:
    """What may be asked before a login, and how long a login lasts."""

    def test_other_requests_before_the_login_close(self) -> None:
        with LocalCluster(
            brokers=1, release="2.4", security=Security("SASL_PLAINTEXT", users=USERS)
        ) as cluster:
            wire = Wire(cluster.bootstrap_servers)
            try:
                answer = wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                assert answer.error_code == 0
                assert answer.mechanisms == [
                    "OAUTHBEARER",
                    "PLAIN",
                    "SCRAM-SHA-256",
                    "SCRAM-SHA-512",
                ]
                with pytest.raises((ConnectionError, EOFError, KafkaError)):
                    wire.ask(MetadataRequest(topics=[]), 1)
            finally:
                wire.close()

    @pytest.mark.parametrize(
        ("release", "lifetime_ms"), [("2.1", 0), ("2.2", 60_000), ("4.3", 60_000)]
    )
    async def test_sessions_end_from_2_2_on(self, release: str, lifetime_ms: int) -> None:
        security = Security("SASL_PLAINTEXT", users=USERS, session_lifetime_ms=60_000)
        async with AsyncLocalCluster(1, release, security=security) as cluster:
            reported = []
            options = ConnectOptions(
                bootstrap_servers=cluster.bootstrap_servers, security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-256", sasl_username="alice", sasl_password=CANARY,
            )  # fmt: skip
            connection = await open_connection(cluster.bootstrap_servers, options)
            reported.append(connection._login_timer is not None)
            await connection.close()
            assert reported == [lifetime_ms > 0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Security("SSH"), 'security protocol "SSH" is none of'),
        (lambda: Security("SASL_SSL"), "needs users="),
        (lambda: Security("SSL", users=USERS), "need SASL_PLAINTEXT or SASL_SSL"),
        (lambda: Security("SASL_SSL", users=USERS, mechanisms=["SCRAM-SHA-1"]), "SCRAM-SHA-256"),
        (
            lambda: Security("SASL_PLAINTEXT", users=USERS, client_auth="required"),
            "need SSL or SASL_SSL",
        ),
        (lambda: Security("SSL", client_auth="perhaps"), "none, requested, required"),
        (
            lambda: LocalCluster(1, "0.9", security=Security("SASL_SSL", users=USERS)).start(),
            "PLAIN came with 0.10.0",
        ),
        (
            lambda: LocalCluster(
                1, "0.10.0", security=Security("SASL_SSL", users=USERS, mechanisms=["OAUTHBEARER"])
            ).start(),
            "does not know OAUTHBEARER; it came with 2.0",
        ),
        (lambda: LocalCluster(1).ca_pem, "no certificate authority"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_without_cryptography_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"kafka-parley\[tls\]"):
        LocalCluster(1, security=Security("SSL"))


@pytest.mark.parametrize(
    "token", ["", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjoxfQ."]
)
def test_tokens_that_are_none(token: str) -> None:
    assert unsecured_principal(token, 2) is None


@pytest.mark.parametrize(
    "claims",
    [b"[" * 40_000, b'{"sub":"a","exp":' + b"[" * 40_000, b'{"sub":"a","exp":9}' + b" " * 10**6],
)
def test_a_token_may_be_any_text(claims: bytes) -> None:
    """Python's parser raises RecursionError for deep nesting, which would end the
    broker's connection untyped.
    """
    header, body = (
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (b'{"alg":"none"}', claims)
    )
    assert unsecured_principal(f"{header}.{body}.", 2) is None
