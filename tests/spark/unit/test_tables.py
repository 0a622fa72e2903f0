"""What a table remembers of its options, and what it must not."""

from __future__ import annotations

import json

from pyspark.sql.types import StructType, _parse_datatype_json_string

from parley.client import ClientOptions
from parley.spark.source import ParleySource
from parley.spark.tables import (
    KEY,
    is_table,
    options_of_read,
    options_of_write,
    schema_of_table,
)
from parley.spark.values.schema import arrow_read_schema, read_schema

OPTIONS = {
    "provider": "parley", "owner": "me", "option.subscribe": "t", "subscribe": "t",
    "kafka.bootstrap.servers": "a:1", "kafka.sasl.jaas.config": 'password="canary-4711"',
    "option.kafka.sasl.jaas.config": 'password="canary-4711"',
    "kafka.ssl.keystore.key": "canary-4711", "kafka.ssl.key.password": "canary-4711",
    "kafka.sasl.plain.password": "canary-4711",
}  # fmt: skip


def stored(schema: StructType) -> StructType:
    """As Spark keeps a table's columns."""
    return _parse_datatype_json_string(schema.json())


def test_a_table_gets_its_options_back_but_no_secrets() -> None:
    table = stored(schema_of_table(read_schema(False), OPTIONS))
    assert "canary-4711" not in table.json()
    assert options_of_read({}, table) == {"subscribe": "t", "kafka.bootstrap.servers": "a:1"}
    later = {"Subscribe": "u", "kafka.sasl.jaas.config": "x"}
    assert options_of_read(later, table) == {
        "subscribe": "u", "kafka.bootstrap.servers": "a:1", "kafka.sasl.jaas.config": "x",
    }  # fmt: skip


def test_rows_out_of_a_table_take_its_options_to_no_other_cluster() -> None:
    table = stored(schema_of_table(read_schema(False), {**OPTIONS, "topic": "t"}))
    assert "topic" not in options_of_read({}, table)
    inserted = {"topic": "t", "kafka.bootstrap.servers": "a:1", "kafka.acks": "1"}
    assert options_of_write({"kafka.acks": "1"}, table) == inserted
    elsewhere = {"kafka.Bootstrap.servers": "b:1"}
    assert options_of_write(elsewhere, table) == elsewhere


def test_the_columns_are_the_same_with_and_without_options() -> None:
    for headers in (False, True):
        table = stored(schema_of_table(read_schema(headers), OPTIONS))
        assert arrow_read_schema(table) == arrow_read_schema(read_schema(headers))


def test_only_a_table_in_the_making_is_one() -> None:
    assert is_table(OPTIONS)
    assert not is_table({"subscribe": "t"})
    assert isinstance(
        ParleySource({"subscribe": "t", "kafka.bootstrap.servers": "a:1"}).schema(), str
    )
    assert options_of_read({"subscribe": "t"}, read_schema(False)) == {"subscribe": "t"}


def test_no_option_that_holds_a_secret_is_kept() -> None:
    secrets = {f"kafka.{name}" for name in ClientOptions.secret_names()}
    secrets |= {"kafka.SSL.truststore.password", "schemaRegistryBearerAuthToken"}
    secrets |= {"schemaRegistryBasicAuthUserInfo", "schemaRegistrySslPassword"}
    others = {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://tokens",
        "kafka.sasl.oauthbearer.client.credentials.client.id": "me",
    }
    options = {"provider": "parley", **dict.fromkeys(secrets, "canary-4711"), **others}
    columns = schema_of_table(read_schema(False), options)
    assert json.loads(columns.fields[0].metadata[KEY]) == others
