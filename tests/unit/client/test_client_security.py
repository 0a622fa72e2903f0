"""TLS and SASL options: Java's spellings, what becomes of them, and what is never shown."""

from __future__ import annotations

import base64
import json
import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from parley.client.cluster.connecting import connect_options
from parley.client.options.client_options import ClientOptions
from parley.client.options.jaas import UnsecuredToken, parse_jaas
from parley.errors import ConfigError
from parley.net import ConnectOptions
from parley.net.oauth import FunctionTokens
from parley.net.tls import client_tls
from parley.types import Secret

CANARY = "canary-1f4b"
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="{CANARY}";'
SCRAM = (
    f'{MODULES}.scram.ScramLoginModule required username="alice" password="{CANARY}" '
    'tokenauth="true";'
)


def of(**properties: Any) -> ConnectOptions:
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    return connect_options(ClientOptions.from_properties(dotted))


def test_java_properties_of_a_scram_user(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location=/ca.pem\nssl.endpoint.identification.algorithm=\n"
        f"sasl.jaas.config={MODULES}.scram.ScramLoginModule required \\\n"
        f'   username="alice" \\\n   password="{CANARY}\\\\"x";\n'
    )
    made = connect_options(ClientOptions.from_properties(file))
    assert (made.security_protocol, made.sasl_mechanism, made.ssl_cafile) == (
        "SASL_SSL",
        "SCRAM-SHA-512",
        "/ca.pem",
    )
    assert (made.sasl_username, made.sasl_password) == ("alice", Secret(f'{CANARY}"x'))
    assert made.ssl_check_hostname is False
    assert made.sasl_token_auth is False


def test_keywords() -> None:
    made = of(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password=CANARY,
    )
    assert (made.sasl_username, made.sasl_password, made.ssl_check_hostname) == (
        "alice",
        Secret(CANARY),
        True,
    )


def test_a_mechanism_that_the_module_reports() -> None:
    assert of(security__protocol="SASL_SSL", sasl__jaas__config=PLAIN).sasl_mechanism == "PLAIN"


def test_a_delegation_token() -> None:
    made = of(
        security__protocol="SASL_SSL", sasl__mechanism="SCRAM-SHA-256", sasl__jaas__config=SCRAM
    )
    assert made.sasl_token_auth


def test_an_unsecured_token_says_its_claims() -> None:
    module = (
        f"{MODULES}.oauthbearer.OAuthBearerLoginModule "
        'required unsecuredLoginStringClaim_sub="alice";'
    )
    made = of(security__protocol="SASL_SSL", sasl__jaas__config=module)
    assert made.sasl_token_provider == UnsecuredToken({"sub": "alice"})
    token = UnsecuredToken({"sub": "alice"})().reveal()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == "alice"
    assert claims["exp"] - claims["iat"] == 3600


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl__jaas__config": PLAIN},
            "allow_plaintext_password=True",
        ),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl__jaas__config": SCRAM}, "needs sasl_mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "needs sasl_plain_username"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "a",
            },
            "needs sasl_plain_password",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "needs sasl_oauthbearer_token_endpoint_url",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl__jaas__config": PLAIN,
            },
            "PlainLoginModule, which does not fit",
        ),
        ({"sasl_plain_password": CANARY}, "uses no SASL"),
        ({"ssl_cafile": "/ca.pem"}, "uses no TLS"),
        ({"security_protocol": "SSL", "ssl__truststore__type": "JKS"}, "keytool"),
        (
            {"security_protocol": "SSL", "ssl_certfile": "/c.pem", "ssl__keystore__key": CANARY},
            "both as files",
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_check_hostname": False,
                "ssl__endpoint__identification__algorithm": "https",
            },
            "contradict each other",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "not one of PLAIN"),
        ({"sasl_oauth_token_provider": CANARY}, "must be a function"),
        ({"ssl_context": CANARY}, "must be an ssl.SSLContext"),
        ({"sasl_plain_password": 17}, "must be a text, not int"),
    ],
)
def test_what_does_not_fit_is_refused(properties: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word) as caught:
        of(**properties)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        CANARY,
        f"{CANARY} required;",
        f"{CANARY}.x required;",
        f"x.{CANARY.replace('-', '_')} required;",
        f"{MODULES}.plain.{CANARY.replace('-', '_')} required;",
        f"com.sun.security.auth.module.JndiLoginModule required user.provider.url={CANARY};",
        PLAIN.rstrip(";"),
        PLAIN + PLAIN,
        PLAIN.replace('"', "", 1),
        f"{MODULES}.plain.PlainLoginModule required password {CANARY};",
        f"{MODULES}.plain.PlainLoginModule {CANARY} required;",
    ],
)
def test_other_jaas_texts_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(ConfigError, match="sasl_jaas_config") as caught:
        ClientOptions(sasl_jaas_config=Secret(text))
    assert CANARY not in str(caught.value).replace("_", "-")


@pytest.mark.parametrize("prefix", ["kafkashaded.", "com.example.shaded_1.deps$.", ""])
def test_login_modules_of_a_shaded_client_are_known(prefix: str) -> None:
    """Jobs bring these names from platforms that pack Kafka's client under
    a prefix of their own.
    """
    found = parse_jaas(Secret(prefix + SCRAM))
    assert (found.module, found.username, found.token_auth) == ("ScramLoginModule", "alice", True)
    assert parse_jaas(Secret(prefix + PLAIN)).password == Secret(CANARY)


@pytest.mark.parametrize(
    "name",
    [
        "kafkashaded.org.apache.kafka.common.security.plain.ScramLoginModule",
        f"x{MODULES}.plain.PlainLoginModule",
    ],
)
def test_names_that_only_look_like_a_shaded_module_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not known"):
        parse_jaas(Secret(f'{name} required username="alice" password="{CANARY}";'))


def test_jaas_texts_are_taken_literally() -> None:
    found = parse_jaas(
        Secret(f"{MODULES}.plain.PlainLoginModule required username='${{file:/etc/passwd:x}}' a=b;")
    )
    assert found.username == "${file:/etc/passwd:x}"
    assert found.password is None


def test_a_bad_line_of_a_file_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"client.id=x\n{CANARY}\n")
    with pytest.raises(ConfigError, match="line 2") as caught:
        ClientOptions.from_properties(file)
    assert CANARY not in str(caught.value)


def test_nothing_shows_a_secret() -> None:
    options = ClientOptions(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password=CANARY,  # type: ignore[arg-type]  # becomes a Secret
        sasl_jaas_config=PLAIN,  # type: ignore[arg-type]
        ssl_password=CANARY,  # type: ignore[arg-type]
        ssl_keystore_key=CANARY,  # type: ignore[arg-type]
    )
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    for shown in (options, again, connect_options(options), options.table()):
        assert CANARY not in repr(shown)


def test_spark_passes_the_same_names_through() -> None:
    kafka_options = pytest.importorskip(
        "parley.spark.options.kafka", reason="the extra spark is not installed"
    )
    given = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "sasl.jaas.config": PLAIN,
    }
    made = connect_options(kafka_options.read_client_options(given))
    assert (made.ssl_cafile, made.sasl_mechanism, made.sasl_username) == (
        "/ca.pem",
        "PLAIN",
        "alice",
    )
    assert kafka_options.without_effect(given) == []
    with pytest.raises(ConfigError, match=r"option kafka.sasl.jaas.config") as caught:
        kafka_options.read_client_options({**given, "sasl.jaas.config": CANARY})
    assert CANARY not in str(caught.value)


class TestPem:
    """Certificates as files, as texts and as properties files flatten them."""

    ca = trustme.CA()
    own = ca.issue_cert("client@example.org")

    def flat(self, blob: trustme.Blob) -> str:
        return " ".join(blob.bytes().decode().split("\n"))

    @pytest.mark.parametrize("flat", [False, True])
    def test_texts(self, flat: bool) -> None:
        form = self.flat if flat else lambda blob: blob.bytes().decode()
        made = of(
            security__protocol="SSL",
            ssl__truststore__certificates=form(self.ca.cert_pem),
            ssl__keystore__certificate__chain=form(self.own.cert_chain_pems[0]),
            ssl__keystore__key=form(self.own.private_key_pem),
        )
        context = client_tls(made)
        assert context is not None
        assert len(context.get_ca_certs()) == 1
        assert context.check_hostname
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2

    def locked(self, form: PrivateFormat, key: trustme.Blob) -> bytes:
        return load_pem_private_key(key.bytes(), None).private_bytes(
            Encoding.PEM, form, BestAvailableEncryption(CANARY.encode())
        )

    @pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
    def test_a_locked_key_asks_nobody(self, tmp_path: Path, form: PrivateFormat) -> None:
        file = tmp_path / "own.pem"
        chain = self.own.cert_chain_pems[0].bytes()
        file.write_bytes(chain + self.locked(form, self.own.private_key_pem))
        files = {
            "security__protocol": "SSL",
            "ssl__keystore__location": str(file),
            "ssl__keystore__type": "PEM",
        }
        assert client_tls(of(**files, ssl__key__password=CANARY)) is not None
        with pytest.raises(ConfigError, match="has a password; give it as ssl_password"):
            client_tls(of(**files))
        with pytest.raises(ConfigError, match="ssl_password does not open") as caught:
            client_tls(of(**files, ssl__key__password=f"not-{CANARY}"))
        assert f'ssl_certfile="{file}"' in str(caught.value)
        assert CANARY not in str(caught.value)
        file.write_bytes(chain + self.locked(form, self.ca.issue_cert("other").private_key_pem))
        with pytest.raises(ConfigError, match=r"(?i)key.values.mismatch"):
            client_tls(of(**files, ssl__key__password=CANARY))

    def test_the_option_with_a_locked_key_is_named(self, tmp_path: Path) -> None:
        chain, key = self.own.cert_chain_pems[0], tmp_path / "key.pem"
        key.write_bytes(self.locked(PrivateFormat.PKCS8, self.own.private_key_pem))
        chain.write_to_path(str(tmp_path / "chain.pem"))
        wrong = {"security__protocol": "SSL", "ssl__key__password": "not it"}
        text = {
            "ssl__keystore__certificate__chain": chain.bytes().decode(),
            "ssl__keystore__key": key.read_text(),
        }
        with pytest.raises(ConfigError, match="does not open the private key of ssl_keystore_key"):
            client_tls(of(**wrong, **text))
        files = {"ssl_certfile": str(tmp_path / "chain.pem"), "ssl_keyfile": str(key)}
        with pytest.raises(ConfigError, match=f'private key of ssl_keyfile="{key}"'):
            client_tls(of(**wrong, **files))

    def test_a_key_store_of_java_gets_a_remedy(self, tmp_path: Path) -> None:
        file = tmp_path / "store.jks"
        file.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
        with pytest.raises(ConfigError, match="Java key store: make PEM"):
            client_tls(of(security__protocol="SSL", ssl__truststore__location=str(file)))

    def test_texts_without_certificates(self) -> None:
        with pytest.raises(ConfigError, match="no PEM block"):
            client_tls(of(security__protocol="SSL", ssl__truststore__certificates="/ca.pem"))


def test_a_token_function_runs_in_a_thread_unless_it_waits_by_itself() -> None:
    async def waiting() -> str:
        return "token"

    class Waiting:
        async def __call__(self) -> str:
            return "token"

    for given, in_a_thread in ((waiting, False), (Waiting(), False), (lambda: "token", True)):
        made = of(
            security__protocol="SASL_SSL",
            sasl__mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=given,
        )
        assert isinstance(made.sasl_token_provider, FunctionTokens) is in_a_thread
