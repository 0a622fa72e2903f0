"""Secrets of a pipeline's file: which settings are some, and where those that are pointed to go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parley.client import ClientOptions
from parley.errors import ConfigError
from parley.pipelines.declared.declaration import Declaration
from parley.pipelines.declared.reading import read_text
from parley.pipelines.queries import QueryOptions
from parley.pipelines.queries.session import REDACTED
from parley.pipelines.replay import ReplayOptions
from parley.registry import RegistryOptions
from parley.types.secret_names import is_secret

FILE = """
[pipeline]
name = "orders"

[cluster.new]
"bootstrap.servers" = "new:9093"
{cluster}

[registry.main]
url = "http://registry:8081"
{registry}

[spark]
{spark}

[flow.mirror]
kind = "copy"
from = {{ cluster = "new", topics = ["a"] }}
"""
LAKES = """
[flow.delta]
kind = "ingest"
from = { cluster = "new", topics = ["a"] }
to = { delta = "s3://lake/a", storage = { region = "eu", aws_secret_access_key = "env:KEY" } }

[flow.berg]
kind = "ingest"
from = { cluster = "new", topics = ["a"] }
to = { iceberg = "lake.a", catalog = { uri = "env:URI", credential = "file:SECRET" } }

[flow.again]
kind = "replay"
from = { delta = "s3://lake/a", storage = { azure_storage_account_key = "env:KEY" } }
order = ["a"]
to = { cluster = "new", topic = "b" }
"""
OAUTH = '"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "OAUTHBEARER"\n'
USER_INFO = '"basic.auth.user.info" = "env:LOGIN"\n'


def read_here(
    cluster: str = "", registry: str = "", spark: str = "", more: str = ""
) -> Declaration:
    text = FILE.format(cluster=cluster, registry=registry, spark=spark)
    return read_text(text + more, Path("orders.toml"))


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "secret").write_text("id:hunter2\n")
    monkeypatch.setenv("KEY", "hunter2")
    monkeypatch.setenv("URI", "postgresql://ann:hunter2@db/lake")
    monkeypatch.setenv("LOGIN", "ann:hunter2")
    return LAKES.replace("SECRET", str(tmp_path / "secret"))


@pytest.mark.parametrize(
    "cluster",
    [
        f'{OAUTH}"sasl.oauthbearer.token.endpoint.url" = "file:///run/token"',
        '"sasl.oauthbearer.client.credentials.client.id" = "me"',
        '"allow.plaintext.password" = "true"',
        '"ssl.keystore.key" = "env:KEY"',
    ],
)
def test_what_is_no_secret_stands_in_the_file(cluster: str) -> None:
    found = read_here(cluster).clusters["new"]
    if OAUTH in cluster:  # the address, and not what it leads to
        assert found.sasl_oauthbearer_token_endpoint_url == "file:///run/token"


def test_how_a_registry_gets_its_login_is_no_secret() -> None:
    read_here(registry=f'{USER_INFO}"basic.auth.credentials.source" = "USER_INFO"')
    token = '"bearer.auth.token" = "env:KEY"\n'
    read_here(registry=f'{token}"bearer.auth.credentials.source" = "STATIC_TOKEN"')


def test_whose_secret_it_is_may_lie_in_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("me\n")
    name = "sasl.oauthbearer.client.credentials.client.id"
    found = read_here(f'"{name}" = "file:{tmp_path / "id"}"').clusters["new"]
    assert found.sasl_oauthbearer_client_credentials_client_id == "me"


@pytest.mark.parametrize("name", sorted(ClientOptions.secret_names()))
def test_secrets_of_a_cluster_must_not(name: str) -> None:
    with pytest.raises(ConfigError, match=f"line 7: {re.escape(name)} is a secret") as raised:
        read_here(f'"{name}" = "hunter2"')
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("name", sorted(RegistryOptions.secret_names()))
def test_secrets_of_a_registry_must_not(name: str) -> None:
    with pytest.raises(ConfigError, match=f"line 11: {re.escape(name)} is a secret") as raised:
        read_here(registry=f'"{name}" = "hunter2"')
    assert "hunter2" not in str(raised.value)


def test_both_declare_which_are_secrets() -> None:
    assert {"ssl.keystore.key", "sasl_plain_password"} <= ClientOptions.secret_names()
    assert RegistryOptions.secret_names() >= {
        "basic.auth.user.info",
        "ssl.key.password",
        "schema.registry.bearer.auth.token",
    }


def test_tables_get_what_their_settings_point_to(secrets: str) -> None:
    found = read_here(more=secrets)
    delta, berg, again = (found.flows[name].options for name in ("delta", "berg", "again"))
    assert isinstance(delta, QueryOptions)
    assert isinstance(berg, QueryOptions)
    assert isinstance(again, ReplayOptions)
    assert again.table is not None
    assert delta.sink.options["storage.aws_secret_access_key"] == "hunter2"
    assert delta.sink.options["storage.region"] == "eu"
    assert berg.sink.options["catalog.uri"] == "postgresql://ann:hunter2@db/lake"
    assert berg.sink.options["catalog.credential"] == "id:hunter2"
    assert again.table.settings == {"azure_storage_account_key": "hunter2"}
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"env:KEY"', '"hunter2"', "line 23: aws_secret_access_key is a secret"),
        ('"env:KEY"', '"env:NOBODY"', "line 23: aws_secret_access_key points to the environment"),
        ('"env:URI"', '"postgresql://a:hunter2@db/x"', "line 28: uri holds a login"),
        ('"file:SECRET"', '"a:hunter2"', "line 28: credential is a secret"),
        ('"file:SECRET"', '"file:/nowhere"', "credential points to the file /nowhere"),
        ("storage = { azure", "catalog = { azure", "is not for delta"),
        ('account_key = "env:KEY"', 'account_key = "hunter2"', "line 32: azure_storage_account"),
    ],
)
def test_what_is_wrong_with_secrets_of_tables(before: str, after: str, says: str) -> None:
    assert before in LAKES
    with pytest.raises(ConfigError) as raised:
        read_here(more=LAKES.replace(before, after, 1).replace("file:SECRET", "env:KEY"))
    assert says in str(raised.value)
    assert "hunter2" not in str(raised.value)


SECRETS = [
    "aws_secret_access_key", "AWS_SESSION_TOKEN", "secret_access_key", "token", "access_key",
    "azure_storage_account_key", "azure_storage_access_key", "account_key", "sas_key",
    "azure_storage_master_key", "azure_storage_sas_token", "azure_client_secret", "bearer_token",
    "google_service_account_key", "aws_sse_customer_key_base64", "credential",
    "s3.secret-access-key", "s3.session-token", "adls.account-key", "adls.connection-string",
    "gcs.oauth2.token", "header.Authorization", "spark.ssl.keyStorePassword",
    "spark.hadoop.fs.azure.account.oauth2.client.secret.lake.dfs.core.windows.net",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_names_of_secrets_that_nobody_declares(name: str) -> None:
    assert is_secret(name)
    assert re.search(REDACTED, f"storage.{name}")


@pytest.mark.parametrize(
    "name",
    [
        "region", "aws_access_key_id", "azure_storage_account_name", "azure_client_id",
        "aws_web_identity_token_file", "azure_federated_token_file", "aws_sse_kms_key_id",
        "google_service_account", "google_application_credentials", "uri", "warehouse",
        "aws_container_credentials_relative_uri", "gcs.oauth2.token-expires-at",
        "s3.access-key-id", "oauth2-server-uri", "token-refresh-enabled",
        "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.hadoop.security.authorization",
    ],
)  # fmt: skip
def test_names_of_what_is_none(name: str) -> None:
    assert not is_secret(name)


def test_spark_hides_an_address_with_a_login() -> None:
    assert re.search(REDACTED, "postgresql://ann:hunter2@db/lake")
    assert not re.search(REDACTED, "s3://lake/a@b")


def test_settings_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = '"spark.hadoop.fs.s3a.aws.credentials.provider" = "a.B"'
    assert read_here(spark=provider).spark == {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "a.B"
    }
    with pytest.raises(ConfigError, match=r"line 14: .*secret\.key is a secret"):
        read_here(spark='"spark.hadoop.fs.s3a.secret.key" = "hunter2"')
