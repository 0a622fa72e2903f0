"""Producers of records against real brokers: each record is where its acknowledgement says."""

from __future__ import annotations

import asyncio

import pytest

from parley import AsyncProducer, Client, Producer, TopicPartition
from parley.client import EARLIEST, LATEST, FetchOptions, RecordMetadata
from parley.errors import KafkaError, UnsupportedVersionError
from parley.testing.realbroker import RealCluster
from parley.versions import Feature

from ..support import GENEROUS_MS


def values(client: Client, topic: str, isolation: str = "read_uncommitted") -> dict[int, bytes]:
    """Return the values of partition 0 by their offsets."""
    options = FetchOptions(isolation_level=isolation)
    found = {}
    for batch in client.fetch(TopicPartition(topic, 0), EARLIEST, LATEST, options):
        found |= zip(
            batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True
        )
    return found


def test_each_record_is_where_its_acknowledgement_says(
    real_broker: RealCluster, topic_name: str
) -> None:
    address = real_broker.bootstrap_servers
    called: list[RecordMetadata] = []

    def delivered(error: KafkaError | None, found: RecordMetadata) -> None:
        assert error is None
        called.append(found)

    async def work() -> list[RecordMetadata]:
        async with AsyncProducer(bootstrap_servers=address, compression_type="gzip") as sending:
            sent = [
                await sending.send(topic_name, b"a%d" % n, b"k", partition=0) for n in range(500)
            ]
            return [await one for one in sent]

    found = asyncio.run(work())
    with Producer(bootstrap_servers=address, batch_size=1_000) as sending:
        for number in range(500):
            sending.produce(topic_name, b"b%d" % number, partition=0, on_delivery=delivered)
        sending.flush()
    with Client(bootstrap_servers=address) as client:
        read = values(client, topic_name)
        headers = client.supports(Feature.RECORD_HEADERS)
    assert [read[one.offset] for one in found] == [b"a%d" % number for number in range(500)]
    assert [read[one.offset] for one in called] == [b"b%d" % number for number in range(500)]
    assert len(read) == 1_000  # nothing is there twice
    with Producer(bootstrap_servers=address) as sending:
        if headers:
            sending.produce(topic_name, b"h", headers=[("a", None)], partition=0).result()
        else:
            with pytest.raises(UnsupportedVersionError, match="record-headers"):
                sending.produce(topic_name, b"h", headers=[("a", None)], partition=0)


def test_a_transaction_of_records(real_broker: RealCluster, topic_name: str) -> None:
    address = real_broker.bootstrap_servers
    options = {"transactional_id": topic_name, "linger_ms": GENEROUS_MS}
    with Client(bootstrap_servers=address) as client:
        if not client.supports(Feature.EXACTLY_ONCE):
            with (
                pytest.raises(UnsupportedVersionError),
                Producer(bootstrap_servers=address, **options),
            ):
                pass
            return
        with Producer(bootstrap_servers=address, **options) as sending:
            for number in range(4):
                sending.begin_transaction()
                for part in range(3):
                    sending.produce(topic_name, b"%d %d" % (number, part), partition=0)
                if number % 2:
                    sending.flush()
                    sending.abort_transaction()
                else:
                    sending.commit_transaction()
        shown = values(client, topic_name, "read_committed").values()
        assert [*shown] == [b"0 0", b"0 1", b"0 2", b"2 0", b"2 1", b"2 2"]
