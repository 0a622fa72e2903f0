"""S4–S7, S12, S13 as a task and the driver's planning meet them: against an
embedded cluster, without Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from parley.arrow import spark_schema
from parley.client import Client, TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster, Security
from parley.errors import AuthenticationError, DataLossError, KafkaError
from parley.spark.options.source import SourceOptions, read_source_options
from parley.spark.options.texts import Use
from parley.spark.read.ranges import OffsetRange
from parley.spark.stream.reader import StreamReader
from parley.types import format_uuid

TP = TopicPartition("t", 0)
ALL = ReadAllAvailable()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release="4.3") as running:
        running.create_topic("t", partitions=1, replication_factor=3)
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as found:
        yield found


def options(cluster: LocalCluster, *, use: Use = Use.STREAM_READ, **more: str) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.client.id": "the-task",
        **{name.replace("__", "."): text for name, text in more.items()},
    }
    return read_source_options(given, use)


def put(client: Client, *values: str) -> None:
    """Write values as one batch, so that scenes can cut between batches."""
    client.produce("t", pa.table({"value": list(values)}), partition=0)


def values(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def plan(reader: StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[OffsetRange]]:
    end = reader.latestOffset(start, ALL)
    return end, [part.value for part in reader.partitions(start, end)]


def run(reader: StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Plan and read one micro-batch."""
    end, tasks = plan(reader, start)
    return end, [value for task in tasks for value in values(reader.read(_Part(task)))]


class _Part:
    def __init__(self, value: OffsetRange) -> None:
        self.value = value


def test_s04_a_task_follows_its_leader_without_the_driver(
    cluster: LocalCluster, client: Client
) -> None:
    for n in range(30):
        put(client, str(n))
    reader = StreamReader(options(cluster, kafka__max__partition__fetch__bytes="1",
                                  kafka__prefetch__max__bytes="0"),
                          spark_schema())  # fmt: skip
    _, (task,) = plan(reader, reader.initialOffset())
    rows = reader.read(_Part(task))
    seen = [next(rows) for _ in range(3)]
    cluster.clear_requests()
    moves = 0
    for batch in rows:
        if moves < 5:
            leader, _ = cluster.leaders("t")[0]
            cluster.move_leader("t", 0, to=leader % 3 + 1)
            moves += 1
        seen.append(batch)
    assert values(iter(seen)) == [str(n) for n in range(30)]
    asked = {str(entry.api) for entry in cluster.requests() if entry.client_id == "the-task"}
    assert "LIST_OFFSETS" not in " ".join(asked)  # nothing was planned again


def test_s04_a_broker_that_dies_inside_a_task(cluster: LocalCluster, client: Client) -> None:
    for n in range(10):
        put(client, str(n))
    reader = StreamReader(options(cluster, kafka__max__partition__fetch__bytes="1",
                                  kafka__prefetch__max__bytes="0"),
                          spark_schema())  # fmt: skip
    _, (task,) = plan(reader, reader.initialOffset())
    rows = reader.read(_Part(task))
    first = next(rows)
    cluster.kill_broker(cluster.leaders("t")[0][0])
    assert values(iter([first, *rows])) == [str(n) for n in range(10)]


def truncate(cluster: LocalCluster, client: Client, *others: str) -> None:
    """Lose the last batch of three records to an unclean election; then
    write others in their place.
    """
    cluster.scenes.elect_unclean("t", 0, lose=3)
    if others:
        put(client, *others)


@pytest.mark.parametrize("others", [(), ("x",), ("x", "y", "z"), ("x", "y", "z", "u", "v")])
def test_s05_truncation_between_plan_and_read(
    cluster: LocalCluster, client: Client, others: tuple[str, ...]
) -> None:
    put(client, "a", "b")
    put(client, "c", "d", "e")
    quick = {"kafkaConsumer__pollTimeoutMs": "2500"}
    strict = StreamReader(options(cluster, **quick), spark_schema())
    start = strict.initialOffset()
    end, (task,) = plan(strict, start)
    truncate(cluster, client, *others)
    with pytest.raises(DataLossError) as lost:
        values(strict.read(_Part(task)))
    assert (lost.value.topic, lost.value.partition) == ("t", 0)
    assert (lost.value.expected_offset, lost.value.available_offset) == (5, 2)
    relaxed = StreamReader(options(cluster, failOnDataLoss="false", **quick), spark_schema())
    assert values(relaxed.read(_Part(task))) == ["a", "b"]
    after, rest = run(relaxed, end)
    assert rest == list(others)
    assert after["t"] == {"0": 2 + len(others)}
    assert run(relaxed, after) == (after, [])


def test_s05_truncation_while_the_query_was_stopped(
    cluster: LocalCluster, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    put(client, "a", "b")
    put(client, "c", "d", "e")
    end, read = run(StreamReader(options(cluster), spark_schema()), {"t": {"0": 0}})
    assert read == ["a", "b", "c", "d", "e"]
    truncate(cluster, client, "x", "y", "z", "u", "v")
    with pytest.raises(
        DataLossError, match=r"log of t-0 was truncated: offset 5 .* divergent offset 2"
    ):
        StreamReader(options(cluster), spark_schema()).latestOffset(end, ALL)
    resumed = StreamReader(options(cluster, failOnDataLoss="false"), spark_schema())
    with caplog.at_level(logging.WARNING, "parley.spark"):
        after, rest = run(resumed, end)
        assert rest == ["x", "y", "z", "u", "v"]
        assert run(resumed, after) == (after, [])
    assert sum("divergent" in record.getMessage() for record in caplog.records) == 1


def test_s05_a_plain_checkpoint_of_before_works_and_learns_its_epoch(
    cluster: LocalCluster, client: Client
) -> None:
    put(client, "a", "b")
    reader = StreamReader(options(cluster), spark_schema())
    end, read = run(reader, {"t": {"0": 1}})
    assert read == ["b"]
    assert end["@epochs"]["t"].keys() == {"0"}
    assert "t" in end["@ids"]


@pytest.mark.parametrize("when", ["before the plan", "between plan and read", "while it is read"])
def test_s06_retention_passes_the_start(cluster: LocalCluster, client: Client, when: str) -> None:
    for n in range(20):
        put(client, str(n))
    step = {"kafka__max__partition__fetch__bytes": "1", "kafka__prefetch__max__bytes": "0"}
    for fail in ("false", "true"):
        reader = StreamReader(options(cluster, failOnDataLoss=fail, **step), spark_schema())
        begin = cluster.delete_records("t", 0, 0 if fail == "false" else 5)
        start = {"t": {"0": begin if when != "before the plan" else max(0, begin - 1)}}
        cut = begin + 5
        if when == "before the plan":
            cluster.delete_records("t", 0, cut)
        _, (task,) = plan(reader, start)
        if when == "between plan and read":
            cluster.delete_records("t", 0, cut)
        rows = reader.read(_Part(task))
        seen = [next(rows)] if when == "while it is read" else []
        if when == "while it is read":
            cluster.delete_records("t", 0, cut)
        if fail == "true":
            with pytest.raises(DataLossError, match=f"of t-0 are lost: the log starts at {cut}"):
                list(rows)
            continue
        got = values(iter([*seen, *rows]))
        assert got[len(seen) :][-1] == "19"
        assert len(got) == len(set(got))
        assert [int(value) for value in got[-(20 - cut) :]] == list(range(cut, 20))


@pytest.mark.parametrize(("partitions", "records"), [(1, 3), (2, 5), (3, 1)])
def test_s07_a_topic_created_again_is_always_noticed(
    cluster: LocalCluster, client: Client, partitions: int, records: int
) -> None:
    cluster.add_partitions("t", 2)
    put(client, "a", "b", "c")
    end, _ = run(StreamReader(options(cluster), spark_schema()), {"t": {"0": 0, "1": 0}})
    old = format_uuid(client.metadata(["t"]).topic_id("t"))
    cluster.scenes.recreate_topic("t", partitions)
    for number in range(partitions):
        rows = pa.table({"value": [f"{number}:{n}" for n in range(records)]})
        client.produce("t", rows, partition=number)
    with pytest.raises(DataLossError, match=f'topic "t" was deleted and created again .id {old}'):
        StreamReader(options(cluster), spark_schema()).latestOffset(end, ALL)
    relaxed = StreamReader(options(cluster, failOnDataLoss="false"), spark_schema())
    relaxed.prepareForTriggerAvailableNow()
    after, rest = run(relaxed, end)
    assert sorted(rest) == sorted(
        f"{number}:{n}" for number in range(partitions) for n in range(records)
    )
    assert run(relaxed, after) == (after, [])


def test_s12_a_range_ends_without_waiting_for_offsets_that_markers_take(
    cluster: LocalCluster, client: Client
) -> None:
    with client.transactions.producer("writer") as producer:
        producer.begin_transaction()
        producer.produce("t", pa.table({"value": ["a", "b"]}), partition=0)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.produce("t", pa.table({"value": ["gone"]}), partition=0)
        producer.abort_transaction()
    reader = StreamReader(
        options(cluster, kafka__isolation__level="read_committed"), spark_schema()
    )
    end, read = run(reader, {"t": {"0": 0}})
    assert read == ["a", "b"]
    assert end["t"] == {"0": 5}


def test_s13_a_broker_that_stays_away_fails_the_task_in_time_and_loses_nothing(
    cluster: LocalCluster, client: Client
) -> None:
    put(client, "a", "b")
    reader = StreamReader(options(cluster, kafkaConsumer__pollTimeoutMs="2500"), spark_schema())
    _, (task,) = plan(reader, reader.initialOffset())
    for broker in (1, 2, 3):
        cluster.kill_broker(broker)
    with pytest.raises(KafkaError):
        values(reader.read(_Part(task)))
    for broker in (1, 2, 3):
        cluster.start_broker(broker)
    assert values(reader.read(_Part(task))) == ["a", "b"]


def test_each_executor_reads_from_the_replica_in_its_own_rack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ClusterSettings(racks={1: "east", 2: "west", 3: "west"})
    with LocalCluster(brokers=3, release="4.3", settings=settings) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            put(client, "a", "b")
        monkeypatch.setenv("EXECUTORS_RACK", "west")
        reader = StreamReader(options(cluster, rackFromEnv="EXECUTORS_RACK"), spark_schema())
        _, (task,) = plan(reader, {"t": {"0": 0}})
        assert values(reader.read(_Part(task))) == ["a", "b"]
        fetches = [
            entry.message.rack_id
            for entry in cluster.requests("FETCH")
            if entry.client_id == "the-task"
        ]
        assert fetches
        assert set(fetches) == {"west"}


def test_wrong_credentials_are_an_authentication_error_and_no_time_out() -> None:
    security = Security("SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users={"alice": "right"})
    with LocalCluster(brokers=1, release="4.3", security=security) as cluster:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        secured = {
            "kafka__security__protocol": "SASL_PLAINTEXT",
            "kafka__sasl__mechanism": "SCRAM-SHA-256",
            "kafka__sasl__jaas__config": f'{module} required username="alice" '
            'password="hunter-77";',
        }
        reader = StreamReader(options(cluster, **secured), spark_schema())
        with pytest.raises(AuthenticationError) as refused:
            reader.initialOffset()
        assert "hunter-77" not in str(refused.value)
        assert "hunter-77" not in repr(reader._options)
