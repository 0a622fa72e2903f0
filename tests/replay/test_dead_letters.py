"""Q23: dead letters go back where they came from, counted, and not forever."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from parley.arrow import HEADERS_TYPE
from parley.cli import main
from parley.client import ProduceOptions
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import KafkaError
from parley.pipelines.replay import AsyncReplay, ReplayOptions
from parley.types.dead_letters import Header, Origin, dead_letter_headers

from ..replication.sides import client, connection, read

LETTERS = "orders.dlq"
PARTITIONS = 3


@pytest.fixture(params=["0.11", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    settings = ClusterSettings(auto_create_topics=False)
    with LocalCluster(1, request.param, settings=settings) as running:
        for topic in ("orders", "payments", LETTERS):
            running.create_topic(topic, partitions=PARTITIONS)
        yield running


def connect(topic: str, partition: int, offset: int, own: Sequence[Header] = ()) -> list[Header]:
    place = Origin(topic, partition, offset, "no frame")
    return dead_letter_headers(own, place, part="value", code="framing")


def spring(topic: str, partition: int, offset: int) -> list[Header]:
    return [
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", struct.pack(">i", partition)),
        ("kafka_dlt-original-offset", struct.pack(">q", offset)),
    ]


def put(cluster: LocalCluster, *letters: tuple[bytes, list[Header]], topic: str = LETTERS) -> None:
    listed = [[{"key": key, "value": value} for key, value in own] for _, own in letters]
    columns = {"value": pa.array([value for value, _ in letters])}
    columns["headers"] = pa.array(listed, HEADERS_TYPE)
    with client(cluster) as writing:
        writing.produce(topic, pa.table(columns), partition=1)


def found(cluster: LocalCluster, topic: str) -> list[list[tuple[bytes, list[Header]]]]:
    """Return value and headers of each record, partition by partition."""
    return [
        [(row["value"], [(one["key"], one["value"]) for one in row["headers"]]) for row in rows]
        for rows in read(cluster, PARTITIONS, topic=topic)
    ]


def back(cluster: LocalCluster, **given: Any) -> AsyncReplay:
    options = ReplayOptions(name="back", topic=LETTERS, dead_letters=True, **given)
    return AsyncReplay(connection(cluster), connection(cluster), options)


async def returned(cluster: LocalCluster, **given: Any) -> None:
    async with back(cluster, **given) as made:
        await made.run()


async def test_each_goes_back_to_its_topic_and_partition(cluster: LocalCluster) -> None:
    put(
        cluster,
        (b"a", connect("orders", 2, 17, [("trace", b"7")])),
        (b"b", spring("payments", 0, 4)),
        (b"c", connect("orders", 0, 3)),
    )
    await returned(cluster)
    orders, payments = found(cluster, "orders"), found(cluster, "payments")
    assert [[value for value, _ in rows] for rows in orders] == [[b"c"], [], [b"a"]]
    assert [[value for value, _ in rows] for rows in payments] == [[b"b"], [], []]
    ((_, headers),) = orders[2]
    assert headers == [
        *connect("orders", 2, 17, [("trace", b"7")]),
        ("parley-replays", b"1"),
        ("parley-replayed-from", b"orders.dlq/1/0"),
    ]


async def test_one_that_fails_again_and_again_is_left(cluster: LocalCluster) -> None:
    put(cluster, (b"a", spring("orders", 1, 0)))
    for replays in (1, 2):
        await returned(cluster)  # the same name goes on with what is new
        *before, (value, headers) = found(cluster, "orders")[1]
        assert (value, len(before)) == (b"a", replays - 1)
        assert dict(headers)["parley-replays"] == str(replays).encode()
        # whoever fails writes it again with its headers, as Spring does
        put(cluster, (value, headers))
    await returned(cluster)
    assert len(found(cluster, "orders")[1]) == 2
    put(cluster, (b"b", [*connect("orders", 1, 9)[:-1], ("parley-attempts", b"3")]))
    await returned(cluster)
    assert len(found(cluster, "orders")[1]) == 2
    async with back(cluster) as made:
        assert [one.lag for one in await made.status()] == [0] * PARTITIONS
    async with AsyncReplay(
        connection(cluster),
        connection(cluster),
        ReplayOptions(name="more", topic=LETTERS, dead_letters=True, max_attempts=9),
    ) as more:
        await more.run()
    assert len(found(cluster, "orders")[1]) == 2 + 4


async def test_what_is_no_dead_letter_stops_and_loses_nothing(cluster: LocalCluster) -> None:
    put(cluster, (b"a", connect("orders", 0, 3)))
    await returned(cluster)
    put(cluster, (b"x", []))
    with pytest.raises(KafkaError, match=r"orders\.dlq-1, offset 1.*no dead letter"):
        await returned(cluster)
    put(cluster, (b"b", connect("orders", 0, 4)))
    await returned(cluster, accept=["no-origin"])
    assert [value for value, _ in found(cluster, "orders")[0]] == [b"a", b"b"]


async def test_letters_of_a_topic_that_is_gone_are_not_passed(cluster: LocalCluster) -> None:
    put(cluster, (b"a", connect("nowhere", 0, 3)))
    with pytest.raises(KafkaError, match="nowhere"):
        await returned(cluster, patience_ms=1, produce=ProduceOptions(max_block_ms=200))
    async with back(cluster) as made:
        assert sum(one.lag for one in await made.status()) == 1
    cluster.create_topic("nowhere", partitions=PARTITIONS)
    await returned(cluster)
    assert [value for value, _ in found(cluster, "nowhere")[0]] == [b"a"]


def test_the_command_has_the_same(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put(cluster, (b"a", connect("orders", 2, 17)))
    arguments = ["--source", cluster.bootstrap_servers, "--name", "back", "--topic", LETTERS]
    assert main(["replay", "run", *arguments]) == 2
    assert main(["replay", "plan", *arguments, "--dead-letters"]) == 0
    assert "partition 1, offsets 0 to 0" in capsys.readouterr().out
    assert main(["replay", "run", *arguments, "--dead-letters"]) == 0
    assert "1 records replayed" in capsys.readouterr().err
    assert [value for value, _ in found(cluster, "orders")[2]] == [b"a"]
