"""What a user sees who got something wrong: the parley error, inside whatever Spark wraps it in."""

from __future__ import annotations

import json
import logging
import re
import socket
import socketserver
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from parley.client import Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError
from parley.spark import ParleySource
from parley.spark.edge import edge


@pytest.fixture
def load(spark: Any, cluster: LocalCluster) -> Any:
    def make(**options: Any) -> Any:
        found = spark.read.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        for name, value in options.items():
            found = found.option(name.replace("__", "."), value)
        return found.load()

    return make


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"subscribe": "t", "startingofset": "earliest"},
            'no option "startingofset".*Did you mean "startingOffsets"',
        ),
        (
            {"subscribe": "t", "minPartitions": "0"},
            'minPartitions="0" cannot be used: an integer from 1',
        ),
        ({}, "exactly one of subscribe, subscribePattern, assign.*none is given"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":1,}}'},
            "startingOffsets is not JSON: .* at character 13",
        ),
        (
            {"subscribe": "t", "kafka__auto__offset__reset": "earliest"},
            "kafka.auto.offset.reset cannot be used",
        ),
        (
            {"subscribe": "t", "kafka__security__protocol": "SASL_PLAIN"},
            'option kafka.security.protocol="SASL_PLAIN" is not one of',
        ),
        ({"subscribePattern": "a["}, 'subscribePattern="a." is not a regular expression'),
    ],
)
def test_options_that_cannot_be_used(load: Any, options: dict[str, str], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        load(**options).collect()


def test_a_topic_that_is_missing(load: Any) -> None:
    with pytest.raises(Exception, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic"):
        load(subscribe="no-such-topic").collect()


def test_partitions_that_are_missing(load: Any, topic: Any) -> None:
    name = topic(partitions=2)
    with pytest.raises(Exception, match=f"{name}-2.*has 2 partitions, numbered from 0"):
        load(assign=json.dumps({name: [0, 2]})).collect()
    with pytest.raises(
        Exception, match=f"must name all partitions.*missing: {name}-1.*do not exist: {name}-4"
    ):
        load(subscribe=name, startingOffsets=json.dumps({name: {"0": 0, "4": 0}})).collect()


def test_offsets_outside_the_log(load: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=1)
    client.produce(name, pa.table({"value": ["a", "b"]}))
    beyond = {"subscribe": name, "endingOffsets": json.dumps({name: {"0": 9}})}
    with pytest.raises(Exception, match=f"log of {name}-0 ends at 2, before offset 9"):
        load(**beyond).collect()
    assert load(**beyond, failOnDataLoss="false").count() == 2


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_an_offset_that_somebody_mistyped_is_no_loss_of_data(
    load: Any, client: Client, topic: Any, option: str
) -> None:
    name = topic(option, partitions=1)
    client.produce(name, pa.table({"value": ["a", "b"]}))
    with pytest.raises(
        Exception, match=rf"offset 9 that {option} names.*up to 2, or -1 for the end"
    ) as caught:
        load(**{"subscribe": name, option: json.dumps({name: {"0": 9}})}).collect()
    assert not re.search("truncated|created again|retention|already known", str(caught.value))


def own_frames(error: BaseException) -> list[str]:
    """Return the lines of a traceback, as Spark shows it, that are in parley's own files."""
    return [
        line.strip()
        for line in str(error).splitlines()
        if re.search(r'File ".*/parley/.*", line \d+', line)
    ]


def test_expected_errors_come_without_our_own_frames(load: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=1, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    client.produce(name, pa.table({"value": ["a"], "timestamp": pa.array([2**62], pa.int64())}))
    wrong = [
        load(subscribe="no-such-topic"),  # found when it is planned
        load(subscribe=name),  # found by a task
    ]
    for frame in wrong:
        with pytest.raises(Exception, match=r"parley\.errors") as caught:
            frame.collect()
        assert all("/parley/spark/edge.py" in line for line in own_frames(caught.value))
        assert "direct cause" not in str(caught.value)
    with pytest.raises(Exception, match="startingofset") as caught:
        load(subscribe=name, startingofset="earliest").collect()
    assert all("/parley/spark/edge.py" in line for line in own_frames(caught.value))


def test_how_an_error_came_about_is_logged_for_who_wants_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ParleySource(
        {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "kafka.acks": "7", "topic": "t"}
    )
    rows = StructType([StructField("value", StringType())])
    with caplog.at_level("DEBUG", "parley.spark"), pytest.raises(ConfigError) as caught:
        source.writer(schema=rows, overwrite=False)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(frame.filename).name for frame in frames] == ["test_errors.py", "edge.py"]
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    (record,) = [one for one in caplog.records if one.exc_info]
    assert "kafka.py" in logging.Formatter().formatException(record.exc_info)


def test_an_error_that_is_a_bug_keeps_its_traceback() -> None:
    class Broken:
        @edge
        def rows(self) -> Iterator[int]:
            yield 1
            raise IndexError("a bug")

    with pytest.raises(IndexError) as caught:
        list(Broken().rows())
    assert "rows" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka.sasl.mechanism": "PLAN"}, 'option kafka.sasl.mechanism="PLAN" is not one of'),
        (
            {"kafka.security.protocol": "SASL_SSL"},
            "kafka.security.protocol=SASL_SSL needs kafka.sasl.mechanism",
        ),
        ({"kafka.fetch.max.bytes": "much"}, "option kafka.fetch.max.bytes='much' cannot be used"),
    ],
)
def test_an_error_spells_an_option_as_spark_has_it(
    load: Any, given: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=re.escape(said)) as caught:
        load(
            subscribe="t", **{name.replace(".", "__"): text for name, text in given.items()}
        ).collect()
    assert not re.search("sasl_mechanism|security_protocol|fetch_max_bytes", str(caught.value))


def test_nobody_there(spark: Any) -> None:
    with socket.socket() as taken:  # bound, not listening: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        frame = (
            spark.read.format("parley")
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", "t")
        )
        frame = frame.option("kafka.default.api.timeout.ms", "1500").load()
        with pytest.raises(Exception, match=rf"(?s)no broker could be reached.*{address}.*connect"):
            frame.collect()


def test_a_name_that_does_not_resolve(spark: Any) -> None:
    frame = spark.read.format("parley").option(
        "kafka.bootstrap.servers", "no-such-host.invalid:9092"
    )
    frame = frame.option("subscribe", "t").option("kafka.default.api.timeout.ms", "1500").load()
    with pytest.raises(
        Exception,
        match=r"(?s)no broker could be reached.*no-such-host\.invalid:9092.*cannot be resolved",
    ):
        frame.collect()


class _WebServer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def test_a_web_server_instead_of_a_broker(spark: Any) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _WebServer) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        try:
            address = f"127.0.0.1:{web.server_address[1]}"
            frame = (
                spark.read.format("parley")
                .option("kafka.bootstrap.servers", address)
                .option("subscribe", "t")
            )
            frame = frame.option("kafka.default.api.timeout.ms", "1500").load()
            with pytest.raises(Exception, match=rf"(?s){address}.*HTTP"):
                frame.collect()
        finally:
            web.shutdown()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("vaule binary", 'no column "vaule".*Did you mean "value"'),
        ("value binary, offset int", 'column "offset" cannot be read as int: bigint'),
    ],
)
def test_columns_that_records_do_not_have(spark: Any, schema: str, problem: str) -> None:
    frame = (
        spark.read.format("parley")
        .option("kafka.bootstrap.servers", "x:1")
        .option("subscribe", "t")
    )
    with pytest.raises(Exception, match=problem):
        frame.schema(schema).load().collect()


@pytest.fixture
def damaged(spark: Any, tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """A topic whose third batch has a flipped bit on the broker's disk."""
    folder = tmp_path / "data"
    with LocalCluster(brokers=1, data_dir=folder) as cluster:
        cluster.create_topic("damaged", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            for values in (["a", "b"], ["c", "d"], ["find-me", "f"], ["g"]):
                client.produce("damaged", pa.table({"value": values}), partition=0)
        [file] = [found for found in folder.rglob("*.log") if b"find-me" in found.read_bytes()]
        content = file.read_bytes()
        file.write_bytes(content.replace(b"find-me", b"find-mE"))
        yield spark, cluster.bootstrap_servers


def test_a_corrupt_batch_is_named_and_nothing_is_skipped(damaged: tuple[Any, str]) -> None:
    spark, servers = damaged
    frame = (
        spark.read.format("parley")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "damaged")
    )
    with pytest.raises(Exception, match=r"CorruptRecordError.*damaged-0.*offset 4"):
        frame.load().collect()
    ends = frame.option("endingOffsets", json.dumps({"damaged": {"0": 4}}))
    assert [bytes(row.value) for row in ends.load().orderBy("offset").collect()] == [
        b"a",
        b"b",
        b"c",
        b"d",
    ]


def test_the_fixture_damages_what_it_says(damaged: tuple[Any, str]) -> None:
    _, servers = damaged
    with Client(bootstrap_servers=servers) as client:
        rows = client.fetch(TopicPartition("damaged", 0), 0, 4)
        assert sum(batch.num_rows for batch in rows) == 4
