"""Options: names, ranges, both spellings, and the errors of bad values."""

import datetime
from pathlib import Path

import pytest

from parley.client import ConsumerOptions, ProducerOptions, ShareConsumerOptions
from parley.client.options.client_options import (
    ClientOptions,
    FetchOptions,
    ProduceOptions,
    parse_servers,
    split_properties,
)
from parley.errors import ConfigError

GROUPS = (ClientOptions, FetchOptions, ProduceOptions)


def test_defaults_are_javas():
    client, fetch, produce = ClientOptions(), FetchOptions(), ProduceOptions()
    # the figures of Kafka's CommonClientConfigs, ConsumerConfig and ProducerConfig, 4.x
    assert (client.request_timeout_ms, client.default_api_timeout_ms) == (30_000, 60_000)
    assert (client.retry_backoff_ms, client.retry_backoff_max_ms) == (100, 1_000)
    assert (client.metadata_max_age_ms, client.connections_max_idle_ms) == (300_000, 540_000)
    assert (fetch.fetch_min_bytes, fetch.fetch_max_bytes, fetch.fetch_max_wait_ms) == (
        1,
        52_428_800,
        500,
    )
    assert (fetch.max_partition_fetch_bytes, fetch.isolation_level, fetch.check_crcs) == (
        1_048_576,
        "read_uncommitted",
        True,
    )
    assert (produce.acks, produce.delivery_timeout_ms, produce.max_request_size) == (
        "all",
        120_000,
        1_048_576,
    )
    assert (produce.buffer_memory, produce.max_block_ms) == (33_554_432, 60_000)
    assert produce.max_in_flight_requests_per_connection == 5
    assert produce.wants_idempotence
    assert produce.compression_type == "none"


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(ConfigError, match=r'"bootstrap_server".*"bootstrap_servers"'):
        ClientOptions.of({"bootstrap_server": "a:1"})
    with pytest.raises(ConfigError, match=r'"fetch\.min\.byte".*"fetch\.min\.bytes"'):
        FetchOptions.from_properties({"fetch.min.byte": "1"})


JAVA_NAMES = {
    "ssl_cafile": "ssl.truststore.location",
    "ssl_certfile": "ssl.keystore.location",
    "ssl_password": "ssl.key.password",
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_has_both_spellings_and_a_text(group):
    rows = group.table()
    assert rows
    for row in rows:
        assert row.doc
        assert row.dotted == JAVA_NAMES.get(row.name, row.name.replace("_", "."))
        text = str(row.default).lower() if isinstance(row.default, bool) else row.default
        if text is not None:
            assert getattr(group.from_properties({row.dotted: text}), row.name) == row.default


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        (ClientOptions, "request_timeout_ms", 0),
        (ClientOptions, "request_timeout_ms", 2**31),
        (ClientOptions, "request_timeout_ms", "soon"),
        (ClientOptions, "request_timeout_ms", True),
        (ClientOptions, "request_timeout_ms", 1.5),
        (ClientOptions, "request_timeout_ms", None),
        (ClientOptions, "security_protocol", "SSH"),
        (FetchOptions, "isolation_level", "read_comitted"),
        (FetchOptions, "check_crcs", "perhaps"),
        (FetchOptions, "max_batch_rows", 0),
        (ProduceOptions, "acks", "2"),
        (ProduceOptions, "compression_type", "rar"),
        (ProduceOptions, "delivery_timeout_ms", -1),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_is_allowed(group, name, value):
    with pytest.raises(ConfigError, match=name):
        group.of({name: value})


def test_values_may_be_texts_and_timedeltas():
    options = ClientOptions(request_timeout_ms=datetime.timedelta(seconds=2))
    assert options.request_timeout_ms == 2000
    produce = ProduceOptions.from_properties(
        {"acks": "1", "enable.idempotence": "false", "compression.type": "ZSTD"}
    )
    assert (produce.acks, produce.required_acks, produce.enable_idempotence) == ("1", 1, False)
    assert produce.compression_type == "zstd"
    assert ProduceOptions(acks=-1).acks == "all"
    assert ProduceOptions(acks=0).required_acks == 0


def test_idempotence_and_its_conditions():
    assert not ProduceOptions(acks="1").wants_idempotence
    assert not ProduceOptions(max_in_flight_requests_per_connection=6).wants_idempotence
    with pytest.raises(ConfigError, match="acks"):
        ProduceOptions(enable_idempotence=True, acks="1")
    with pytest.raises(ConfigError, match="at most 5"):
        ProduceOptions(enable_idempotence=True, max_in_flight_requests_per_connection=6)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":9092", "host:0", "host:65536", "host:x", "host:９０９２", " , "]
)
def test_bad_servers_are_refused(text):
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        ClientOptions(bootstrap_servers=text)


@pytest.mark.parametrize("wrong", [len, 9092, b"a:1", [b"a:1"], ["a:1", None]])
def test_what_is_no_address_is_refused(wrong):
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        ClientOptions(bootstrap_servers=wrong)


def test_servers_as_text_and_as_list():
    assert ClientOptions(bootstrap_servers=["a:1", "b:2"]).servers == (("a", 1), ("b", 2))
    assert parse_servers("a:1,,b:2,") == (("a", 1), ("b", 2))


def test_a_properties_file_is_read(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(
        "# a comment\n! another\nbootstrap.servers = a:1,\\\n  b:2\nacks:1\nfetch.max.bytes=7\n\n"
    )
    options = split_properties(path)
    assert options.client.servers == (("a", 1), ("b", 2))
    assert options.produce.acks == "1"
    assert options.fetch.fetch_max_bytes == 7
    path.write_text("a line without a sign\n")
    with pytest.raises(ConfigError, match="line 1"):
        split_properties(path)


def test_an_option_of_two_groups_goes_to_both():
    options = split_properties({"request.timeout.ms": 1234})
    assert options.client.request_timeout_ms == options.produce.request_timeout_ms == 1234
    with pytest.raises(ConfigError, match=r"grop\.id"):
        split_properties({"grop.id": "x"})


def test_names_of_kafkas_java_clients_are_left_out_and_logged(caplog):
    options = ClientOptions.from_properties(
        {
            "bootstrap.servers": "a:1",
            "client.dns.lookup": "use_all_dns_ips",
            "group.id": "g",
            "ssl.truststore.password": "canary",
        }
    )
    assert options.servers == (("a", 1),)
    assert caplog.messages == [
        "options of Java's clients that have no effect here: client.dns.lookup, group.id, "
        "ssl.truststore.password"
    ]
    caplog.clear()
    assert split_properties({"group.id": "x", "acks": "1"}).produce.acks == "1"
    assert [message.rpartition(" ")[2] for message in caplog.messages] == ["group.id"]
    with pytest.raises(ConfigError, match='"GSSAPI" is not one of PLAIN'):
        ClientOptions.from_properties(
            {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
        )


def test_replace_checks_again():
    options = FetchOptions().replace(fetch_min_bytes=5)
    assert options.fetch_min_bytes == 5
    with pytest.raises(ConfigError):
        options.replace(fetch_min_bytes=-1)


def test_a_bootstrap_server_has_no_scheme() -> None:
    with pytest.raises(ConfigError, match='leave "http://" out'):
        ClientOptions(bootstrap_servers="http://localhost:9092")


@pytest.mark.parametrize("wrong", [b"g", bytearray(b"g"), ["g"], {"g": 1}, True, len])
def test_the_text_of_what_is_no_text_is_no_name(wrong: object) -> None:
    for kind, name in ((ConsumerOptions, "group_id"), (ClientOptions, "client_id")):
        with pytest.raises(ConfigError, match=f"{name} must be a text, not"):
            kind(**{name: wrong})
    assert ConsumerOptions(group_id=5).group_id == "5"  # as a properties file may give it
    assert ClientOptions(ssl_cafile=Path("ca.pem")).ssl_cafile == "ca.pem"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ClientOptions, "client_id"),
        (FetchOptions, "client_rack"),
        (ConsumerOptions, "group_id"),
        (ConsumerOptions, "group_instance_id"),
        (ProducerOptions, "transactional_id"),
        (ShareConsumerOptions, "group_id"),
    ],
)
def test_names_that_kafka_cannot_carry_are_refused_when_they_are_given(
    kind: type, name: str
) -> None:
    for wrong in ("\ud800", "x" * 40_000):
        with pytest.raises(ConfigError, match=name):
            kind(**{name: wrong})


def test_a_member_that_is_static_has_a_name() -> None:
    with pytest.raises(ConfigError, match="group_instance_id"):
        ConsumerOptions(group_id="g", group_instance_id="")
