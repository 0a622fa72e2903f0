"""Sets of magic 0 and 1 as foreign producers write them: whatever their offsets are,
acknowledged messages are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import decode_columns, records
from parley.schema import ApiKey
from parley.versions import release
from parley_laboratory.wire import Wire

from ..real import message_sets

TOPIC = "events"
Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
RELEASES = ("0.9.0.1", "0.10.2.2", "0.11.0.3", "2.3.1", "2.4.1", "2.8.2", "3.9.1")
WITH_WRAPPERS = ("2.4.1", "2.8.2", "3.9.1")


class Side:
    """A connection to the only broker of a cluster, and the topic's end as far as it was read."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.address = cluster.bootstrap_servers
        self.wire = Wire(self.address)
        self.release = release(cluster.broker(1).release)
        self.end = 0

    def close(self) -> None:
        self.wire.close()

    def produce(self, data: bytes, version: int, acks: int = -1) -> Any:
        partition = Produce.PartitionProduceData(index=0, records=data)
        topic = Produce.TopicProduceData(name=TOPIC, partition_data=[partition])
        answer = self.wire.ask(Produce(acks=acks, timeout_ms=2_000, topic_data=[topic]), version)
        return answer.responses[0].partition_responses[0]

    def news(self) -> list[bytes | None]:
        """Return the values that were stored since the last call; their offsets have no gaps."""
        partition = Fetch.FetchPartition(
            partition=0, fetch_offset=self.end, partition_max_bytes=1_000_000
        )
        topic = Fetch.FetchTopic(topic=TOPIC, partitions=[partition])
        version = min(self.release.ranges[1].max, 11)
        found = (
            self.wire.ask(Fetch(max_wait_ms=0, min_bytes=0, topics=[topic]), version)
            .responses[0]
            .partitions[0]
        )
        chunks = decode_columns(found.records or b"", first_offset=self.end)
        rows = [row for chunk in chunks for row in records(chunk.columns)]
        assert [row.offset for row in rows] == list(range(self.end, found.high_watermark))
        self.end = found.high_watermark
        return [row.value for row in rows]


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=request.param) as running:
        yield running


@pytest.fixture
def side(cluster: LocalCluster) -> Iterator[Side]:
    cluster.create_topic(TOPIC)
    with closing(Side(cluster)) as made:
        yield made
    cluster.delete_topic(TOPIC)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_is_stored_whole_or_refused(side: Side, magic: int) -> None:
    version = (0, 2)[magic]
    if version not in side.release.ranges[0]:
        return
    taken = {}
    for name, data in message_sets.whole_sets(magic).items():
        answer, before = side.produce(data, version), side.end
        taken[name] = answer.error_code == 0
        assert answer.base_offset == (before if taken[name] else -1), name
        assert side.news() == (message_sets.values_in(data) if taken[name] else []), name
    assert all(code for name, code in taken.items() if name.startswith("none ")), (
        "offsets of plain messages are ignored"
    )
    if magic == 0 or side.release.number < (0, 11):
        assert all(
            taken[name]
            for name in taken
            if not name.startswith(("gzip twice", "gzip, then", "none, then"))
        )
    assert taken["gzip twice"] is (side.release.name not in WITH_WRAPPERS)


@pytest.mark.parametrize("magic", [0, 1])
def test_of_a_malformed_set_nothing_is_stored(side: Side, magic: int) -> None:
    version = (0, 2)[magic]
    if version not in side.release.ranges[0]:
        return
    taken = {"whole, then cut", "offset -1, whole, then cut", "whole, then cut in the head"}
    other = {"the other format", "both formats", "attributes 0x40"}
    cut_off = {"nothing", "cut in the value", "cut in the head"}
    for name, data in message_sets.odd_sets(magic).items():
        if name in other:
            continue
        try:
            answer = side.produce(data, version)
        except ConnectionError:
            assert (2, 1) <= side.release.number < (2, 8), (
                f"{name}: only these releases close the connection"
            )
            side.wire.close()
            side.wire = Wire(side.address)
            continue
        assert (answer.error_code == 0) is (name in taken | cut_off), name
        assert (answer.base_offset >= 0) is (name in taken), name
        assert len(side.news()) == (name in taken), name


def test_what_offsets_minus_1_brought_survives_a_restart(tmp_path: Path) -> None:
    """kafkajs writes -1 to brokers before 0.11."""
    sent = [
        message_sets.plain_set(1, (-1, -1, -1)),
        message_sets.wrapped_set(1, message_sets.GZIP, -1, (-1, -1)),
    ]
    with LocalCluster(brokers=1, release="0.10.2.2", data_dir=tmp_path) as cluster:
        cluster.create_topic(TOPIC)
        with closing(Side(cluster)) as side:
            assert [side.produce(data, 2).base_offset for data in sent] == [0, 3]
            before = side.news()
    with (
        LocalCluster(brokers=1, release="0.10.2.2", data_dir=tmp_path) as cluster,
        closing(Side(cluster)) as side,
    ):
        assert (
            side.news()
            == before
            == [value for data in sent for value in message_sets.values_in(data)]
        )
