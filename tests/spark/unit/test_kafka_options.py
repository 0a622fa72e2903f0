"""`kafka.*`: Java's names arrive in the client's options; what cannot be
is refused or mentioned.
"""

from __future__ import annotations

import logging
import pickle
import re
from pathlib import Path

import pytest

from parley.client import JAVA_NAMES, ClientOptions, FetchOptions, ProduceOptions
from parley.client.options.fields import dotted_name, option_names
from parley.errors import ConfigError
from parley.spark.options.kafka import (
    REFUSED_FOR_READ,
    REFUSED_FOR_WRITE,
    read_client_options,
    read_fetch_options,
    read_produce_options,
    without_effect,
)
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.write.options import read_sink_options

SERVERS = {"bootstrap.servers": "a:9092,b:9092"}
READ = {"kafka.bootstrap.servers": "a:9092", "subscribe": "t"}


def test_java_names_arrive_in_the_clients_options() -> None:
    client = read_client_options({**SERVERS, "request.timeout.ms": "1234", "client.id": "me"})
    assert (client.bootstrap_servers, client.request_timeout_ms, client.client_id) == (
        "a:9092,b:9092",
        1234,
        "me",
    )
    fetch = read_fetch_options(
        {"fetch.max.bytes": "99", "isolation.level": "read_committed", "client.rack": "r1"}
    )
    assert (fetch.fetch_max_bytes, fetch.isolation_level, fetch.client_rack) == (
        99,
        "read_committed",
        "r1",
    )
    produce = read_produce_options({"acks": "1", "compression.type": "lz4", "batch.size": "100"})
    assert (produce.acks, produce.compression_type, produce.batch_size) == ("1", "lz4", 100)


def test_a_bad_value_is_named_as_the_user_wrote_it() -> None:
    with pytest.raises(ConfigError, match=r"option kafka\.fetch\.min\.bytes='x' cannot.*integer"):
        read_fetch_options({"fetch.min.bytes": "x"})
    with pytest.raises(
        ConfigError, match=r'option kafka\.bootstrap\.servers: .*"nowhere" is not host:port'
    ):
        read_client_options({"bootstrap.servers": "nowhere"})


@pytest.mark.parametrize("kafka", [{}, SERVERS | {"bootstrap.servers": " "}, {"client.id": "me"}])
def test_servers_must_be_given(kafka: dict[str, str]) -> None:
    with pytest.raises(
        ConfigError, match=r'^kafka\.bootstrap\.servers must be given: "host:port,host:port"\.$'
    ):
        read_client_options(kafka)


def test_servers_under_a_misspelt_name_are_pointed_at() -> None:
    with pytest.raises(
        ConfigError, match=r'must be given: .* There is "kafka\.bootstrap\.server"\.$'
    ):
        read_client_options({"bootstrap.server": "a:1"})


@pytest.mark.parametrize("name", sorted(REFUSED_FOR_READ))
def test_what_sparks_own_source_refuses_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka.{name} cannot be used: "):
        read_source_options({**READ, f"kafka.{name}": "x"}, Use.STREAM_READ)


@pytest.mark.parametrize("name", sorted(REFUSED_FOR_WRITE))
def test_what_sparks_own_sink_refuses_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka.{name} cannot be used: "):
        read_sink_options({"kafka.bootstrap.servers": "a:1", f"kafka.{name}": "x"}, Use.BATCH_WRITE)


def test_refused_names_are_those_of_kafkas_clients() -> None:
    assert REFUSED_FOR_READ.keys() | REFUSED_FOR_WRITE.keys() <= JAVA_NAMES


def test_names_that_the_client_has_are_not_called_without_effect() -> None:
    mine = {name for name in option_names(ClientOptions, FetchOptions) if "." in name}
    assert without_effect(dict.fromkeys(mine, "1"), FetchOptions) == []
    assert dotted_name(FetchOptions.__dataclass_fields__["fetch_min_bytes"]) in mine


def test_a_name_nobody_knows_is_mentioned_with_the_nearest_one() -> None:
    said = without_effect(
        {"fetch.min.byte": "1", "group.id": "g", "max.poll.records": "5"}, FetchOptions
    )
    assert said == [
        'option "kafka.fetch.min.byte" is not known and has no effect. Did you mean '
        '"kafka.fetch.min.bytes"?',
        "option kafka.group.id has no effect: parley reads without a consumer group",
        "option kafka.max.poll.records has no effect here",
    ]


def test_a_writers_option_has_no_effect_on_a_reader() -> None:
    assert without_effect({"acks": "all"}, FetchOptions) == ["option kafka.acks has no effect here"]
    assert without_effect({"acks": "all"}, ProduceOptions) == []


def test_what_has_no_effect_is_said_once_in_a_process(caplog: pytest.LogCaptureFixture) -> None:
    options = {**READ, "kafka.max.poll.interval.ms": "17"}
    with caplog.at_level(logging.WARNING, "parley.spark"):
        read_source_options(options, Use.BATCH_READ)
        read_source_options(options, Use.BATCH_READ)
    assert [record.getMessage() for record in caplog.records] == [
        "option kafka.max.poll.interval.ms has no effect here"
    ]


def test_options_travel_to_tasks() -> None:
    source = read_source_options(
        {**READ, "startingOffsets": '{"t":{"0":5}}', "minPartitions": "3"}, Use.STREAM_READ
    )
    assert pickle.loads(pickle.dumps(source)) == source
    sink = read_sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t"}, Use.STREAM_WRITE)
    assert pickle.loads(pickle.dumps(sink)) == sink


def test_the_poll_timeout_becomes_the_patience_of_a_task() -> None:
    found = read_source_options({**READ, "kafkaConsumer.pollTimeoutMs": "512"}, Use.BATCH_READ)
    assert (found.fetch.patience_ms, found.client.default_api_timeout_ms) == (512, 60_000)
    found = read_source_options(READ, Use.BATCH_READ)
    assert (found.fetch.patience_ms, found.client.default_api_timeout_ms) == (180_000, 60_000)
    assert found.client.bootstrap_timeout_ms == 180_000, (
        "as often as a question is asked altogether"
    )
    found = read_source_options(
        {**READ, "kafka.default.api.timeout.ms": "700", "fetchOffset.numRetries": "2"},
        Use.BATCH_READ,
    )
    assert (found.fetch.patience_ms, found.client.default_api_timeout_ms) == (700, 700)
    assert found.client.bootstrap_timeout_ms == 1_400


def test_how_long_a_writer_waits_for_brokers() -> None:
    def waits(**options: str) -> tuple[int, int, int]:
        kafka = {f"kafka.{name.replace('_', '.')}": text for name, text in options.items()}
        found = read_sink_options(
            {"kafka.bootstrap.servers": "a:1", "topic": "t", **kafka}, Use.STREAM_WRITE
        )
        return (
            found.client.bootstrap_timeout_ms,
            found.client.default_api_timeout_ms,
            found.produce.max_block_ms,
        )

    assert waits() == (180_000, 180_000, 60_000)
    assert waits(max_block_ms="900") == (900, 900, 900)
    assert waits(delivery_timeout_ms="90000") == (90_000, 90_000, 60_000)
    assert waits(max_block_ms="900", default_api_timeout_ms="50") == (900, 50, 900)


def test_every_option_of_a_client_that_the_document_names_is_one() -> None:
    """Those of the section on security have an effect."""
    text = (Path(__file__).parents[3] / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")
    known = option_names(ClientOptions, FetchOptions, ProduceOptions)
    named = set(re.findall(r"[`\"]kafka\.([a-z0-9.]+)", text))
    assert {
        name for name in named - known.keys() - JAVA_NAMES if name not in REFUSED_FOR_READ
    } == set()
    _, _, security = text.partition("## Security\n")
    named = set(re.findall(r"[`\"]kafka\.([a-z0-9.]+)", security.partition("\n## ")[0]))
    assert len(named) > 8
    assert named <= known.keys()
