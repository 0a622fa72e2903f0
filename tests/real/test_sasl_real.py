"""Logins at real brokers: each mechanism, bare tokens and SaslAuthenticate,
refusals, repeated logins.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parley.errors import AuthenticationError
from parley.messages import AlterUserScramCredentialsRequest, MetadataRequest
from parley.net import ConnectOptions, open_connection
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster

LISTENER = "SASL_PLAINTEXT"
PREFIX = f"listener.name.{LISTENER.lower()}"
MODULES = "org.apache.kafka.common.security"
PLAIN_JAAS = (
    f'{MODULES}.plain.PlainLoginModule required username="admin" password="admin" '
    'user_alice="wonder";'
)
MODERN = (
    pytest.param("2.4.1", marks=pytest.mark.matrix),
    pytest.param("3.9.1", marks=pytest.mark.long),
    "4.3.0",
)
SESSION_MS = 4_000
"""A real broker's clock cannot be moved. A client has 0.6 s to log in again before it is over."""


def modern_properties() -> dict[str, str]:
    return {
        f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{PREFIX}.plain.sasl.jaas.config": PLAIN_JAAS,
        f"{PREFIX}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{PREFIX}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule "
        'required unsecuredLoginStringClaim_sub="admin";',
        f"{PREFIX}.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
    }


@pytest.fixture(scope="module", params=MODERN)
def modern(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    with RealCluster(
        request.param, extra_listeners=[LISTENER], properties=modern_properties()
    ) as cluster:
        yield cluster


@pytest.fixture(
    scope="module", params=[pytest.param("0.10.0.1", marks=pytest.mark.long), "0.11.0.3"]
)
def old(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Releases with SaslHandshake v0 only, which take their settings from a JAAS
    file; SCRAM came with 0.10.2.
    """
    file: Path = tmp_path_factory.mktemp("jaas") / "server.conf"
    has_scram = request.param != "0.10.0.1"
    scram = f"  {MODULES}.scram.ScramLoginModule required;\n" if has_scram else ""
    file.write_text(f"KafkaServer {{\n{scram}  {PLAIN_JAAS}\n}};\n")
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" if has_scram else "PLAIN"
    jvm = [f"-Djava.security.auth.login.config={file}"]
    properties = {"sasl.enabled.mechanisms": mechanisms}
    with RealCluster(
        request.param, extra_listeners=[LISTENER], properties=properties, jvm_options=jvm
    ) as cluster:
        yield cluster


def options(cluster: RealCluster, mechanism: str, password: str = "wonder") -> ConnectOptions:
    return ConnectOptions(
        bootstrap_servers=cluster.bootstrap(LISTENER),
        security_protocol=LISTENER,
        sasl_mechanism=mechanism,
        sasl_username="alice",
        sasl_password=password,
        allow_plaintext_password=True,
    )


def unsecured_token() -> str:
    """A JSON web token without a signature, which a broker in its default configuration accepts."""

    def part(claims: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'iat': now - 5, 'exp': now + 600})}."


async def create_scram_user(cluster: RealCluster) -> None:
    """By request where that exists (KIP-554, 2.7 on), else by Kafka's own
    tool through ZooKeeper.
    """
    if not cluster.kraft:
        config = "SCRAM-SHA-256=[iterations=8192,password=wonder],SCRAM-SHA-512=[password=wonder]"
        tool = ["kafka.admin.ConfigCommand", "--zookeeper", cluster.zookeeper_address, "--alter"]
        done = cluster.run_java(
            [*tool, "--add-config", config, "--entity-type", "users", "--entity-name", "alice"]
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return
    connection = await open_connection(cluster.broker(1).address)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    # one by one: a request may name a user once
    for number, hash_name in ((1, "sha256"), (2, "sha512")):
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac(hash_name, b"wonder", salt, 8192)
        credential = upsertion(
            name="alice", mechanism=number, iterations=8192, salt=salt, salted_password=salted
        )
        reply = await connection.request(AlterUserScramCredentialsRequest(upsertions=[credential]))
        assert [result.error_code for result in reply.message.results] == [0]
    await connection.close()


async def until_known(using: ConnectOptions) -> None:
    """A new user reaches the login a moment after it was created."""
    for _ in range(200):
        try:
            await exchange(using)
            return
        except AuthenticationError as error:
            last = error
    raise last


async def exchange(using: ConnectOptions) -> int:
    """Log in, ask for metadata, and return the negotiated version of ApiVersions."""
    connection = await open_connection(using.servers[0], using)
    reply = await connection.request(MetadataRequest(topics=[]))
    assert [broker.node_id for broker in reply.message.brokers] == [1]
    newest = connection.versions.choose(ApiKey.API_VERSIONS)
    await connection.close()
    return newest


async def test_plain_by_bare_tokens(old: RealCluster) -> None:
    assert await exchange(options(old, "PLAIN")) <= 1


async def test_a_refusal_without_a_word(old: RealCluster) -> None:
    with pytest.raises(AuthenticationError, match="most likely refused"):
        await exchange(options(old, "PLAIN", "wrong"))


async def test_scram_by_bare_tokens_or_its_absence(old: RealCluster) -> None:
    if old.releases[1] == "0.10.0.1":
        with pytest.raises(
            AuthenticationError, match="does not offer SCRAM-SHA-256; it offers PLAIN"
        ):
            await exchange(options(old, "SCRAM-SHA-256"))
        return
    await create_scram_user(old)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        await until_known(options(old, mechanism))
        with pytest.raises(AuthenticationError):
            await exchange(options(old, mechanism, "wrong"))


async def test_plain(modern: RealCluster) -> None:
    assert await exchange(options(modern, "PLAIN")) >= 3
    with pytest.raises(AuthenticationError, match="refused the PLAIN login: Authentication failed"):
        await exchange(options(modern, "PLAIN", "wrong"))


async def test_oauthbearer(modern: RealCluster) -> None:
    using = ConnectOptions(
        bootstrap_servers=modern.bootstrap(LISTENER),
        security_protocol=LISTENER,
        sasl_mechanism="OAUTHBEARER",
        sasl_token_provider=unsecured_token,
    )
    assert await exchange(using) >= 3
    with pytest.raises(AuthenticationError, match="OAUTHBEARER"):
        await exchange(replace(using, sasl_token_provider=lambda: "bm90.YQ.dG9rZW4"))


async def test_a_login_of_another_kind_of_listener(modern: RealCluster) -> None:
    using = replace(options(modern, "PLAIN"), bootstrap_servers=modern.broker(1).address)
    with pytest.raises(AuthenticationError, match="wants no SASL"):
        await exchange(using)


async def test_scram_and_its_repetition(modern: RealCluster) -> None:
    await create_scram_user(modern)
    await until_known(options(modern, "SCRAM-SHA-512"))
    with pytest.raises(AuthenticationError, match="refused the SCRAM-SHA-256 login"):
        await exchange(options(modern, "SCRAM-SHA-256", "wrong"))

    using = options(modern, "SCRAM-SHA-256")
    await until_known(using)
    connection = await open_connection(using.servers[0], using)
    begun = time.monotonic()
    # the broker ends a session that is not renewed
    while time.monotonic() < begun + 2.5 * SESSION_MS / 1000:
        await connection.request(MetadataRequest(topics=[]))
    assert connection.error is None
    await connection.close()
