"""Every record set that a producer may send, to a real broker and to the embedded one: equal
answers, equal records.

The sets are written by `message_sets`: every format and compression with every kind of offsets, and
malformed ones. Whatever is acknowledged is stored whole. In a few cases (STRICTER) the embedded
broker refuses what a real one takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import decode_columns, records
from parley.schema import ApiKey
from parley.versions import Release, release
from parley_laboratory.wire import Wire

from . import message_sets

Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
Metadata: Any = request_class(ApiKey.METADATA)

CLOSED = "closed"
Stored = list[tuple[int, bytes | None]]

STRICTER = {
    "gzip of cut off",  # real brokers store the messages before the cut and acknowledge them all
    "gzip of damaged",  # before 0.11 only the wrapper's CRC is checked
    # 0.9 and 0.10.0 acknowledge a set without messages, 0.10.1 and 0.10.2 have another code
    "gzip of nothing",
    "gzip without a value",
    "gzip in gzip",  # 0.9 stores it, and readers fail
    "gzip that is none",  # another code in 0.10.0
    "the other format",  # 0.9 stores what it cannot read
    "size far too large",  # before 0.10.1 it counts as cut off
    "size of a head less one",  # 2.0 closes the connection
    # stored as they are
    *(f"deltas {of}" for of in ((0, 0, 0), (5, 6, 7), (2, 1, 0), (-1, 0, 1), (0, 2, 4))),
    # to 2.3 counted again
    *(f"gzip deltas {of}" for of in ((0, 0, 0), (5, 6, 7), (2, 1, 0), (-1, 0, 1))),
    "last delta 5",  # 0.11 and 1.0 store batches that no reader can pass
    "last delta -1",
}
"""What the embedded broker refuses with some code or other in every release,
whatever a real broker does.
"""

KINDER = {"both formats": ((0, 0), [(0, b"value-0"), (1, b"value-0")])}
"""What it stores whole in releases before 2.4, while real brokers before 0.10.2 fail on it."""


class Side:
    """One of the two brokers, a topic of its own on it, and how far its log was read."""

    def __init__(self, address: str, found: Release, topic: str) -> None:
        self.address, self.topic = address, topic
        self.fetch_version = min(found.ranges[1].max, 11)
        self.end = 0
        self.wire = Wire(address)
        asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=topic)])
        version = max(found.ranges[3].min, min(found.ranges[3].max, 4))
        answer = self.wire.ask(asked, version).topics[0]
        while answer.error_code or answer.partitions[0].error_code:
            answer = self.wire.ask(asked, version).topics[0]
        while self._fetched().error_code:
            pass  # a real broker may not have taken up its leadership yet

    def close(self) -> None:
        self.wire.close()

    def _fetched(self) -> Any:
        partition = Fetch.FetchPartition(
            partition=0, fetch_offset=self.end, partition_max_bytes=1_000_000
        )
        topic = Fetch.FetchTopic(topic=self.topic, partitions=[partition])
        asked = Fetch(max_wait_ms=0, min_bytes=0, topics=[topic])
        return self.wire.ask(asked, self.fetch_version).responses[0].partitions[0]

    def produce(self, data: bytes, version: int) -> tuple[Any, Stored]:
        """Return code and base offset (or that the connection was closed), and
        what the log has got by it.
        """
        partition = Produce.PartitionProduceData(index=0, records=data)
        topic = Produce.TopicProduceData(name=self.topic, partition_data=[partition])
        outcome: Any
        try:
            answer = self.wire.ask(Produce(acks=1, timeout_ms=2_000, topic_data=[topic]), version)
            reported = answer.responses[0].partition_responses[0]
            outcome = (
                reported.error_code,
                reported.base_offset - self.end if reported.base_offset >= 0 else -1,
            )
        except ConnectionError:
            self.wire.close()
            self.wire = Wire(self.address)
            outcome = CLOSED
        found = self._fetched()
        before, self.end = self.end, found.high_watermark
        return outcome, list(stored(found.records, before))


def stored(data: Any, first: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset, counted from `first`, and value of each record."""
    try:
        for chunk in decode_columns(data or b"", first_offset=first):
            yield from ((row.offset - first, row.value) for row in records(chunk.columns))
    except Exception as error:  # some real brokers store what nobody can read
        yield -1, repr(error).encode()


@pytest.fixture(scope="session")
def embedded(real_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=real_release) as cluster:
        yield cluster


def serves(found: Release, version: int) -> bool:
    """Whether Produce requests of a version are answered; 4.0 and later
    advertise v0-2 and close on them.
    """
    return version in found.ranges[0] and (version > 2 or found.number < (4, 0))


def compare(
    real_broker: Any, embedded: LocalCluster, topic: str, sets: Mapping[str, bytes], version: int
) -> None:
    """Send each set to both brokers; fail, naming all that differ in their
    answers or in what is stored.
    """
    found, differing = release(embedded.broker(1).release), []
    with (
        closing(Side(real_broker.bootstrap_servers, found, topic)) as real,
        closing(Side(embedded.bootstrap_servers, found, topic)) as ours,
    ):
        for name, data in sets.items():
            want, got = real.produce(data, version), ours.produce(data, version)
            refused = (got[0] == CLOSED or got[0][0] != 0) and not got[1]
            if want != got and not (name in STRICTER and refused) and got != KINDER.get(name):
                differing.append(f"Produce v{version}, {name}: real {want}, ours {got}")
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("kind", ["whole", "odd"])
def test_message_sets_are_taken_and_refused_alike(
    real_broker: Any,
    real_release: str,
    embedded: LocalCluster,
    topic_name: str,
    kind: str,
    magic: int,
) -> None:
    version = (0, 2)[magic]
    if serves(release(real_release), version):
        sets = message_sets.whole_sets(magic) if kind == "whole" else message_sets.odd_sets(magic)
        compare(real_broker, embedded, topic_name, sets, version)


@pytest.mark.parametrize("version", [3, 8])
def test_batches_are_taken_and_refused_alike(
    real_broker: Any, real_release: str, embedded: LocalCluster, topic_name: str, version: int
) -> None:
    if serves(release(real_release), version):
        compare(real_broker, embedded, topic_name, message_sets.batches(), version)
