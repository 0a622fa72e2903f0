"""TLS at real brokers: SSL and SASL_SSL, certificates as PEM, and as
keytool's JKS and PKCS#12 stores.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client, ClientOptions
from parley.devcluster.security.certificates import CertificateAuthority
from parley.errors import AuthenticationError, NetworkError
from parley.host import java17
from parley.testing.realbroker import RealCluster
from parley.types import TopicPartition

from ..support import GENEROUS_S

MODULES = "org.apache.kafka.common.security"
PLAIN_JAAS = (
    f'{MODULES}.plain.PlainLoginModule required username="admin" password="admin" '
    'user_alice="wonder";'
)
LOGIN = {"sasl.mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "wonder"}
STORE_PASSWORD = "store-password"


class Made:
    """A running broker with TLS listeners, and what its clients trust."""

    def __init__(self, cluster: RealCluster, ca_pem: str, own: dict[str, str]) -> None:
        self.cluster, self.own = cluster, own
        self.trust = {"ssl.truststore.certificates": ca_pem, "ssl.truststore.type": "PEM"}

    def client(self, listener: str, **properties: Any) -> Client:
        given = {
            "bootstrap.servers": self.cluster.bootstrap(listener),
            "security.protocol": listener,
            **self.trust,
        }
        return Client(ClientOptions.from_properties({**given, **properties}))


@pytest.fixture(scope="module", params=[pytest.param("3.9.1", marks=pytest.mark.long), "4.3.0"])
def by_pem(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("pem")
    authority = CertificateAuthority()
    store, trusted = folder / "broker.pem", folder / "ca.pem"
    store.write_text(authority.server(["127.0.0.1", "localhost"]).pem.reveal())
    trusted.write_text(authority.ca_pem)
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_JAAS,
    }
    client = authority.client("alice")
    own = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": client.certificate_pem,
        "ssl.keystore.key": client.key_pem.reveal(),
    }
    with RealCluster(
        request.param, extra_listeners=["SSL", "SASL_SSL"], properties=properties
    ) as cluster:
        yield Made(cluster, authority.ca_pem, own)


@pytest.fixture(scope="module", params=[pytest.param("JKS", marks=pytest.mark.matrix), "PKCS12"])
def by_keytool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("keytool")
    store = folder / "broker.store"
    common = [
        "-alias",
        "broker",
        "-keystore",
        str(store),
        "-storetype",
        request.param,
        "-storepass",
        STORE_PASSWORD,
    ]
    keytool(
        "-genkeypair", *common, "-keypass", STORE_PASSWORD, "-keyalg", "RSA", "-dname", "CN=broker",
        "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-validity", "2",
    )  # fmt: skip
    certificate = keytool("-exportcert", "-rfc", *common)
    properties = {
        "ssl.keystore.type": request.param,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_JAAS,
    }
    with RealCluster(
        "2.4.1", extra_listeners=["SSL", "SASL_SSL"], properties=properties
    ) as cluster:
        yield Made(cluster, certificate, {})


def keytool(*arguments: str) -> str:
    java = java17()
    assert java is not None
    tool = os.path.join(java.home, "bin", "keytool")
    done = subprocess.run(
        [tool, *arguments], capture_output=True, text=True, timeout=GENEROUS_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_and_read(client: Client, topic: str) -> None:
    client.produce(topic, pa.table({"value": [b"x" * 1000] * 300}))
    batches = client.fetch(TopicPartition(topic, 0), 0, 300)
    assert sum(batch.num_rows for batch in batches) == 300


def test_mutual_tls(by_pem: Made) -> None:
    with by_pem.client("SSL", **by_pem.own) as client:
        write_and_read(client, "mutual")
    with (
        pytest.raises(NetworkError, match="ssl_certfile"),
        by_pem.client("SSL", default_api_timeout_ms=1500) as client,
    ):
        client.metadata()


def test_login_over_tls(by_pem: Made) -> None:
    with by_pem.client("SASL_SSL", **LOGIN) as client:
        write_and_read(client, "login")
    wrong = {**LOGIN, "sasl_plain_password": "wrong"}
    with pytest.raises(AuthenticationError), by_pem.client("SASL_SSL", **wrong) as client:
        client.metadata()


def test_a_certificate_of_somebody_else(by_pem: Made) -> None:
    other = CertificateAuthority().ca_pem
    with pytest.raises(NetworkError, match="not trusted"):
        by_pem.client("SASL_SSL", **LOGIN, **{"ssl.truststore.certificates": other}).metadata()


def test_stores_of_keytool(by_keytool: Made) -> None:
    with by_keytool.client("SSL") as client:
        write_and_read(client, "tls")
    with by_keytool.client("SASL_SSL", **LOGIN) as client:
        write_and_read(client, "login")
    with pytest.raises(NetworkError, match="security_protocol"):
        by_keytool.client("SSL", **{
            "security.protocol": "PLAINTEXT", "ssl.truststore.certificates": None,
            "ssl.truststore.type": None, "default.api.timeout.ms": 1500,
        }).metadata()  # fmt: skip
