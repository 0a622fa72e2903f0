"""Clients that log in with tokens of a token server or a file, by Java's option
names, at an embedded cluster.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest
import trustme

import parley
from parley.client import ClientOptions
from parley.client.cluster.connecting import connect_options
from parley.devcluster import LocalCluster, Security
from parley.errors import AuthenticationError, BrokersUnreachable, ConfigError

from ..support import GENEROUS_MS, GENEROUS_S, eventually
from ..token_server import CLIENT_ID, CLIENT_SECRET, TokenServer, jwt

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
JAAS = f'{MODULE} required clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" scope="kafka";'


def principal_of(token: str) -> str | None:
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims["sub"] if claims["sub"] == CLIENT_ID else None


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    security = Security("SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"], principal_of=principal_of)
    with LocalCluster(brokers=3, release="3.9", security=security) as running:
        yield running


def client_of(cluster: LocalCluster, **properties: object) -> parley.Client:
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    common = {"bootstrap.servers": cluster.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    return parley.Client(
        ClientOptions.from_properties({**common, "sasl.mechanism": "OAUTHBEARER", **dotted})
    )


def works(client: parley.Client, topic: str) -> bool:
    with client:
        client.create_topics([parley.NewTopic(topic, num_partitions=6, replication_factor=1)])
        client.produce(topic, pyarrow.table({"value": ["a"] * 60}))
        ends = client.list_offsets(
            {parley.TopicPartition(topic, n): parley.LATEST for n in range(6)}
        )
        return sum(found.offset for found in ends.values()) == 60


@pytest.mark.parametrize("spelling", ["jaas", "4.1", "keywords"])
def test_one_token_of_an_endpoint_serves_every_connection(
    cluster: LocalCluster, spelling: str
) -> None:
    """Java's spellings: in the JAAS text since 3.1 (KIP-768), as options since 4.1 (KIP-1139)."""
    with TokenServer() as server:
        options: dict[str, object] = {"sasl__oauthbearer__token__endpoint__url": server.url}
        if spelling == "jaas":
            options |= {
                "sasl__jaas__config": JAAS,
                "sasl__login__callback__handler__class": HANDLER,
            }
        elif spelling == "4.1":
            name = "sasl__oauthbearer__client__credentials__client"
            options |= {f"{name}__id": CLIENT_ID, f"{name}__secret": CLIENT_SECRET}
            options |= {"sasl__oauthbearer__scope": "kafka"}
        else:
            options = {
                "sasl_oauthbearer_token_endpoint_url": server.url,
                "sasl_oauthbearer_client_credentials_client_id": CLIENT_ID,
                "sasl_oauthbearer_client_credentials_client_secret": CLIENT_SECRET,
                "sasl_oauthbearer_scope": "kafka",
            }
        assert works(client_of(cluster, **options), f"by-{spelling}")
        assert [request["form"]["scope"] for request in server.requests] == ["kafka"]


def test_a_token_file_serves_too_and_may_be_written_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    path = tmp_path / "a token.jwt"
    path.write_text(jwt("somebody else"))
    url = path.as_uri()
    assert "%20" in url
    with (
        pytest.raises(AuthenticationError, match="refused the OAUTHBEARER login"),
        client_of(cluster, sasl__oauthbearer__token__endpoint__url=url) as client,
    ):
        client.metadata()
    path.write_text(jwt(CLIENT_ID) + "\n")
    assert works(client_of(cluster, sasl__oauthbearer__token__endpoint__url=url), "by-file")


def test_a_token_file_that_is_written_late_is_waited_for(
    cluster: LocalCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "late.jwt"
    brief = {"sasl__login__retry__backoff__max__ms": 0}
    url = path.as_uri()
    client = client_of(cluster, sasl__oauthbearer__token__endpoint__url=url, **brief)
    with pytest.raises(BrokersUnreachable, match=f"the token file {path} cannot be read"), client:
        pass
    patient = client_of(
        cluster,
        sasl__oauthbearer__token__endpoint__url=url,
        bootstrap__timeout__ms=GENEROUS_MS,
        reconnect__backoff__max__ms=50,
        **brief,
    )
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(works, patient, "by-late-file")
        eventually(lambda: f"the token file {path} cannot be read" in caplog.text)
        path.write_text(jwt(CLIENT_ID))
        assert working.result(GENEROUS_S)


def test_a_wrong_secret_is_the_token_servers_refusal(cluster: LocalCluster) -> None:
    jaas = JAAS.replace(CLIENT_SECRET, "canary-wrong")
    with TokenServer() as server:
        client = client_of(
            cluster, sasl__oauthbearer__token__endpoint__url=server.url, sasl__jaas__config=jaas
        )
        with (
            pytest.raises(AuthenticationError, match="401, error invalid_client") as caught,
            client,
        ):
            client.metadata()
    assert "canary" not in repr(caught.value)
    assert "canary" not in repr(client)


def test_the_endpoints_certificate_is_checked_with_the_options_of_the_jaas_text(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """As KIP-768 has it: `ssl.` options beside the credentials are for the token
    endpoint, not for brokers.
    """
    import ssl

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    with TokenServer(context) as server:
        url = server.url
        with_ca = JAAS.replace(";", f' ssl.truststore.type="PEM" ssl.truststore.location="{ca}";')
        assert works(
            client_of(
                cluster, sasl__oauthbearer__token__endpoint__url=url, sasl__jaas__config=with_ca
            ),
            "by-tls",
        )
        with (
            pytest.raises(parley.KafkaError),
            client_of(
                cluster,
                sasl__oauthbearer__token__endpoint__url=url,
                sasl__jaas__config=JAAS,
                sasl__login__retry__backoff__max__ms=0,
                default__api__timeout__ms=2_000,
            ) as client,
        ):
            client.metadata()


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://h/t"},
            "needs clientId in sasl_jaas_config",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "http://h/t", "sasl.jaas.config": JAAS},
            "shows the client's secret",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "file://other/t"},
            "names no file of this machine",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "gopher://h/t", "sasl.jaas.config": JAAS},
            "https://HOST/PATH",
        ),
        ({"sasl.jaas.config": JAAS}, "needs sasl_oauthbearer_token_endpoint_url"),
        (
            {"sasl.login.callback.handler.class": "software.amazon.msk.Handler"},
            "is a Java class, which cannot run",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://h/t",
                "sasl_oauth_token_provider": str,
            },
            "give one",
        ),
    ],
)
def test_what_cannot_give_a_token_is_said_when_the_client_is_made(
    properties: dict[str, object], words: str
) -> None:
    common = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match=words) as caught:
        connect_options(ClientOptions.from_properties({**common, **properties}))
    assert CLIENT_SECRET not in str(caught.value)


def test_extensions_of_the_jaas_text_are_sent() -> None:
    """KIP-342: Java names them `extension_NAME` there."""
    jaas = JAAS.replace(";", ' extension_tenant="seven";')
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas,
    }
    properties["sasl.oauthbearer.token.endpoint.url"] = "https://localhost/t"
    assert connect_options(ClientOptions.from_properties(properties)).sasl_extensions == {
        "tenant": "seven"
    }
