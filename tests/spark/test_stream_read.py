"""Streaming reads through Spark: triggers, limits, checkpoints, new partitions, lost data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.messages import DeleteRecordsRequest


def put(client: Client, topic: str, partition: int, values: range) -> None:
    client.produce(
        topic, pa.table({"value": [str(n).encode() for n in values]}), partition=partition
    )


def batches(query: Any) -> list[int]:
    return [
        progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]
    ]


def test_everything_once_and_then_only_what_is_new(stream: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    put(client, name, 0, range(5))
    put(client, name, 1, range(5, 8))
    query = stream(subscribe=name)
    query.run()
    put(client, name, 1, range(8, 10))
    ran = query.run()
    assert batches(ran) == [2]
    assert [value for _, _, value in query.rows()] == [str(n) for n in range(10)]
    last = query.offsets()[-1]
    assert last["@parley"] == 1
    assert last[name] == {"0": 5, "1": 5}
    (source,) = ran.recentProgress[0][
        "sources"
    ]  # Python sources have no metrics of their own: see parley.spark.progress
    assert (source.get("metrics", {}), json.loads(source["latestOffset"])[name]) == (
        {},
        {"0": 5, "1": 5},
    )


def test_the_limit_holds_for_each_batch(stream: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    put(client, name, 0, range(30))
    put(client, name, 1, range(30, 40))
    query = stream(subscribe=name, maxOffsetsPerTrigger=16)
    ran = query.run()
    assert batches(ran) == [16, 16, 8]
    assert len(query.rows()) == 40


def test_a_running_query_reads_on_and_does_not_spin_when_idle(
    stream: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=2)
    put(client, name, 0, range(3))
    query = stream(subscribe=name)
    running = query.start(processingTime="100 milliseconds")
    running.processAllAvailable()
    put(client, name, 1, range(3, 6))
    running.processAllAvailable()
    for partition in (0, 1):  # epochs rise: no reason for a batch
        cluster.move_leader(name, partition, to=cluster.leaders(name)[partition][0] % 3 + 1)
    running.processAllAvailable()
    put(client, name, 0, range(6, 7))
    running.processAllAvailable()
    running.stop()
    assert [value for _, _, value in query.rows()] == ["0", "1", "2", "6", "3", "4", "5"]
    assert (
        int(
            max(
                (query.folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda f: int(f.name)
            ).name
        )
        == 2
    )


def test_progress_reports_how_far_behind_the_query_is(
    stream: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, 0, range(20))
    ran = stream(subscribe=name, maxOffsetsPerTrigger=5).run()
    first = next(progress for progress in ran.recentProgress if progress["numInputRows"])[
        "sources"
    ][0]
    assert json.loads(first["endOffset"])[name] == {"0": 5}
    assert json.loads(first["latestOffset"])[name] == {"0": 20}


def test_a_batch_that_was_not_finished_is_read_again_alike(
    stream: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, 0, range(6))
    query = stream(subscribe=name, maxOffsetsPerTrigger=3)
    query.run()
    commits = query.folder / "checkpoint" / "commits"
    # as if Spark had died after writing, before committing
    for file in [commits / "1", commits / ".1.crc"]:
        file.unlink(missing_ok=True)
    put(client, name, 0, range(6, 8))
    query.run()
    assert [value for _, _, value in query.rows()] == [str(n) for n in range(8)]


def test_a_checkpoint_in_the_plain_form_is_resumed(stream: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    put(client, name, 0, range(4))
    query = stream(subscribe=name)
    query.run()
    for file in (query.folder / "checkpoint" / "offsets").glob("[0-9]*"):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*lines[:-1], json.dumps({name: {"0": 4, "1": 0}})]))
        file.with_name(f".{file.name}.crc").unlink()
    assert batches(query.run()) == []
    put(client, name, 1, range(4, 6))
    query.run()
    assert [value for _, _, value in query.rows()] == [str(n) for n in range(6)]


def test_topics_that_come_later_are_found_by_a_pattern(
    stream: Any, client: Client, topic: Any
) -> None:
    first = topic("one", partitions=1)
    put(client, first, 0, range(2))
    query = stream(subscribePattern=first.removesuffix("one").replace(".", r"\.") + "(one|two)")
    query.run()
    second = topic("two", partitions=1)
    put(client, second, 0, range(2, 4))
    query.run()
    assert sorted(value for _, _, value in query.rows()) == ["0", "1", "2", "3"]


@pytest.fixture
def alone(request: pytest.FixtureRequest, stream: Any) -> Iterator[tuple[LocalCluster, Any]]:
    """A broker of the release that the test is parametrized with, and a stream from it."""
    with LocalCluster(brokers=1, release=request.param) as cluster:
        yield cluster, stream(servers=cluster.bootstrap_servers, subscribe="again")


def recreate(cluster: LocalCluster, values: range) -> None:
    """Make the topic `again`, for the second time where it is there, with
    these values in partition 0.
    """
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        if "again" in client.metadata().topics:
            cluster.delete_topic("again")
        cluster.create_topic("again", partitions=1)
        put(client, "again", 0, values)


@pytest.mark.parametrize("alone", ["4.3"], indirect=True)
def test_a_topic_created_again_is_another_topic(alone: tuple[LocalCluster, Any]) -> None:
    cluster, query = alone
    recreate(cluster, range(4))
    query.run()
    # longer than the old one: its offsets alone would look like more of it
    recreate(cluster, range(100, 106))
    with pytest.raises(Exception, match='topic "again" was deleted and created again'):
        query.run()
    query.run(failOnDataLoss="false")
    assert sorted(int(value) for _, _, value in query.rows()) == [0, 1, 2, 3, *range(100, 106)]


@pytest.mark.matrix
@pytest.mark.parametrize("alone", ["2.4"], indirect=True)
def test_without_topic_ids_a_shorter_log_reports(alone: tuple[LocalCluster, Any]) -> None:
    cluster, query = alone
    recreate(cluster, range(4))
    query.run()
    recreate(cluster, range(100, 102))
    with pytest.raises(Exception, match=r"created again \(again-0 ends at 2 in leader epoch 0"):
        query.run()
    query.run(failOnDataLoss="false")
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        put(client, "again", 0, range(102, 104))
    query.run()
    assert sorted(int(value) for _, _, value in query.rows()) == [*range(4), *range(100, 104)]


@pytest.mark.parametrize("alone", ["4.3"], indirect=True)
def test_a_topic_that_is_gone_fails_the_query(alone: tuple[LocalCluster, Any]) -> None:
    cluster, query = alone
    recreate(cluster, range(4))
    query.run()
    cluster.delete_topic("again")
    with pytest.raises(Exception, match="data of again-0 may be lost: topic or partition is gone"):
        query.run()


def trim(client: Client, topic: str, before: int) -> None:
    """Remove the records of partition 0 before an offset, as retention does."""
    asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=before)
    message = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[asked])],
        timeout_ms=5000,
    )
    leader = client.metadata([topic]).topics[topic].partitions[0].leader
    assert client.request(leader, message).topics[0].partitions[0].error_code == 0


def test_records_that_aged_out_while_the_query_was_stopped(
    stream: Any, client: Client, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, 0, range(4))
    query = stream(subscribe=name, maxOffsetsPerTrigger=4)
    query.run()
    put(client, name, 0, range(4, 12))
    trim(client, name, before=6)
    with pytest.raises(
        Exception, match=f"offsets 4 to 5 of {name}-0 are lost: the log starts at 6"
    ):
        query.run()
    query.run(failOnDataLoss="false")
    assert sorted(int(value) for _, _, value in query.rows()) == [0, 1, 2, 3, *range(6, 12)]


def test_the_same_rows_whoever_leads_while_the_query_runs(
    stream: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=3)
    query = stream(subscribe=name, maxOffsetsPerTrigger=40)
    running = query.start(processingTime="50 milliseconds")
    for step in range(4):
        for partition in range(3):
            put(
                client,
                name,
                partition,
                range(30 * step + 10 * partition, 30 * step + 10 * partition + 10),
            )
        cluster.move_leader(name, step % 3, to=cluster.leaders(name)[step % 3][0] % 3 + 1)
    running.processAllAvailable()
    running.stop()
    assert sorted(int(value) for _, _, value in query.rows()) == list(range(120))
    assert len({(partition, offset) for partition, offset, _ in query.rows()}) == 120
