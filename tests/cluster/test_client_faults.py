"""The client while leaders move, brokers die and answers are lost: nothing
lost, nothing twice, in order.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    Client,
    FetchOptions,
    ProduceOptions,
    TopicPartition,
)
from parley.client.produce.rebatch import rebatch
from parley.client.produce.state import OutBatch
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    BrokersUnreachable,
    CorruptRecordError,
    DataLossError,
    KafkaError,
    RequestTimedOut,
)

from ..support import GENEROUS_MS, GENEROUS_S, eventually_async

PARTITIONS = 4
MIXED = {1: "2.4", 2: "3.9", 3: "4.3"}
SMALL = ProduceOptions(batch_size=1_000)


def numbers(start: int, count: int) -> pa.Table:
    return pa.table(
        {
            "key": [str(i % 53) for i in range(start, start + count)],
            "value": [str(i) for i in range(start, start + count)],
        }
    )


def drain(batches: Iterator[pa.RecordBatch], offsets: list[int]) -> None:
    """Read to the end, keeping the offsets seen on the way to an error."""
    for batch in batches:
        offsets += batch.column("offset").to_pylist()


# ---- leader hints (KIP-951) ----------------------------------------------------------------------


def test_k02_a_hint_moves_writer_and_reader_without_waiting_for_metadata() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        tp = TopicPartition("t", 0)
        with Client(
            bootstrap_servers=cluster.bootstrap_servers,
            retry_backoff_ms=5_000,
            retry_backoff_max_ms=5_000,
        ) as client:
            client.produce("t", pa.table({"value": ["0"]}))
            batches = client.fetch(tp, 0, options=FetchOptions(fetch_max_wait_ms=20))
            assert next(batches).num_rows == 1
            # by Metadata it would not come to an end at all
            cluster.faults.drop("Metadata", times=-1)
            for turn in range(6):
                cluster.move_leader("t", 0, turn % 3 + 1)
                client.produce("t", pa.table({"value": [str(turn)]}))
                assert next(batches).column("value").to_pylist() == [str(turn).encode()]
            batches.close()


def test_without_hints_one_refresh_per_move_is_enough() -> None:
    with LocalCluster(brokers=3, release="2.4") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", pa.table({"value": ["0"]}))
            cluster.clear_requests()
            for turn in range(5):
                cluster.move_leader("t", 0, turn % 3 + 1)
                client.produce("t", pa.table({"value": [str(turn)]}))
            asked = cluster.requests("Metadata")
            assert len(asked) <= 5


# ---- what ends a call ----------------------------------------------------------------------------


def test_the_delivery_timeout_is_kept_and_stays_kept() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            cluster.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=-1)
            began = time.monotonic()
            with pytest.raises(RequestTimedOut, match="NOT_ENOUGH_REPLICAS") as caught:
                client.produce(
                    "t", numbers(10, 10), options=ProduceOptions(delivery_timeout_ms=700)
                )
            assert 0.6 < time.monotonic() - began < 60  # far from the default of two minutes
            assert "0 records were acknowledged" in caught.value.__notes__[0]
            cluster.faults.clear()
            client.produce("t", numbers(20, 10))
            values = [
                int(v)
                for b in client.fetch(TopicPartition("t", 0), EARLIEST, LATEST)
                for v in b["value"].to_pylist()
            ]
            assert values == [*range(10), *range(20, 30)]


async def test_a_delivery_timeout_is_kept_behind_a_call_that_has_a_longer_one() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            await client.produce("t", numbers(0, 10))
            cluster.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=-1)
            patient = asyncio.create_task(client.produce("t", numbers(10, 10)))
            await eventually_async(lambda: cluster.requests("Produce")[1:])
            hasty = ProduceOptions(delivery_timeout_ms=500)
            with pytest.raises(RequestTimedOut, match="within delivery_timeout_ms"):
                await asyncio.wait_for(client.produce("t", numbers(20, 10), options=hasty), 60)
            cluster.faults.clear()
            await patient
            await client.produce("t", numbers(30, 10))  # its sequences are numbered again
            end = await client.list_offsets({TopicPartition("t", 0): LATEST})
            assert end[TopicPartition("t", 0)].offset == 30


def test_an_error_that_will_not_pass_fails_the_call_and_not_the_next() -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            cluster.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
            with pytest.raises(BrokerError) as caught:
                client.produce("t", numbers(10, 10))
            assert (caught.value.code, caught.value.topic) == (29, "t")
            client.produce("t", numbers(20, 10))  # its sequences are numbered again
            assert (
                client.list_offsets({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset
                == 20
            )


def test_a_batch_that_is_too_large_is_sent_in_halves() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, configs={"max.message.bytes": "2000"})
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            for start in (0, 1_000):
                result = client.produce(
                    "t", numbers(start, 1_000), options=ProduceOptions(batch_size=100_000)
                )
                assert result.records == 1_000
                (ack,) = result.partitions.values()
                assert len(ack.batches) >= 8
                assert ack.base_offset == start
            values = [
                int(v)
                for b in client.fetch(TopicPartition("t", 0), 0, 2_000)
                for v in b["value"].to_pylist()
            ]
            assert values == list(range(2_000))
            with pytest.raises(
                BrokerError, match=r"batch has 30\d\d bytes; raise max.*of the topic"
            ) as caught:
                client.produce("t", pa.table({"value": ["x" * 3_000]}))
            assert caught.value.code == 10


def test_c16_all_brokers_away_and_back() -> None:
    with LocalCluster(brokers=2, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            for broker_id in (1, 2):
                cluster.kill_broker(broker_id)
            back = threading.Timer(
                0.8, lambda: [cluster.start_broker(broker_id) for broker_id in (2, 1)]
            )
            back.start()
            client.produce("t", numbers(10, 10))
            back.join()
            assert (
                client.list_offsets({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset
                == 20
            )


def test_no_broker_reachable_names_every_address_and_stage() -> None:
    with pytest.raises(BrokersUnreachable) as caught:
        Client(bootstrap_servers="127.0.0.1:1,no-such-host.invalid:9092").start()
    assert set(caught.value.failures) == {"127.0.0.1:1", "no-such-host.invalid:9092"}
    assert {error.stage for error in caught.value.failures.values()} == {"connect", "name lookup"}


def test_an_end_that_the_log_does_not_have_is_data_loss_in_time() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(
            bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=800
        ) as client:
            client.produce("t", numbers(0, 10))
            rows: list[int] = []
            with pytest.raises(DataLossError) as caught:
                drain(
                    client.fetch(TopicPartition("t", 0), 0, 20, FetchOptions(fetch_max_wait_ms=50)),
                    rows,
                )
            assert rows == list(range(10))
            assert (caught.value.expected_offset, caught.value.available_offset) == (20, 10)


def test_a_topic_that_is_re_created_is_not_read_on_silently() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            batches = client.fetch(
                TopicPartition("t", 0), 0, options=FetchOptions(fetch_max_wait_ms=20)
            )
            assert next(batches).num_rows == 10
            cluster.delete_topic("t")
            cluster.create_topic("t", partitions=1, replication_factor=3)
            with Client(bootstrap_servers=cluster.bootstrap_servers) as other:
                other.produce("t", numbers(100, 50))
            with pytest.raises(DataLossError, match="created again"):
                next(batches)
            client.produce("t", numbers(200, 5))  # the writer goes on in the new topic
            assert (
                client.list_offsets({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset
                == 55
            )


# ---- damaged records -----------------------------------------------------------------------------


def test_p19_a_corrupt_batch_names_its_offset_again_and_again_and_can_be_passed(
    tmp_path: os.PathLike[str],
) -> None:
    with LocalCluster(brokers=1, release="4.3", data_dir=tmp_path) as cluster:
        cluster.create_topic("t", partitions=1)
        tp = TopicPartition("t", 0)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            for start in (0, 10, 20):
                client.produce("t", numbers(start, 10))
            _damage(tmp_path, b"\x0415")
            for _ in range(2):
                rows: list[int] = []
                with pytest.raises(CorruptRecordError) as caught:
                    drain(client.fetch(tp, 0, 30), rows)
                assert rows == list(range(10))
                assert (caught.value.topic, caught.value.partition, caught.value.offset) == (
                    "t",
                    0,
                    10,
                )
            with pytest.raises(CorruptRecordError) as caught:
                list(client.fetch(tp, 15, 30))
            assert caught.value.offset == 15
            assert [o for b in client.fetch(tp, 20, 30) for o in b["offset"].to_pylist()] == list(
                range(20, 30)
            )


def _damage(directory: os.PathLike[str], text: bytes) -> None:
    """Change one byte of the record that holds `text`, wherever its log lies."""
    for path, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(path, name), "r+b") as file:
                at = file.read().find(text)
                if at >= 0:
                    file.seek(at + 1)
                    file.write(b"#")
                    return
    raise AssertionError(f"{text!r} lies nowhere")


def test_a_broker_that_finds_its_records_corrupt_is_believed() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            cluster.faults.fail("Fetch", "CORRUPT_MESSAGE")
            with pytest.raises(CorruptRecordError) as caught:
                list(client.fetch(TopicPartition("t", 0), 3, 10))
            assert (caught.value.partition, caught.value.offset) == (0, 3)


def test_c18_closing_fails_what_is_open_and_does_not_hang() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        client = Client(bootstrap_servers=cluster.bootstrap_servers)
        client.produce("t", numbers(0, 1))
        cluster.faults.delay("Produce", 10 * GENEROUS_MS)
        caught: list[BaseException] = []

        def write() -> None:
            try:
                client.produce("t", numbers(1, 10))
            except KafkaError as error:
                caught.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        while not cluster.requests("Produce")[1:]:
            threading.Event().wait(0.01)
        client.close()
        writer.join(GENEROUS_S)
        assert not writer.is_alive()
        assert "closed" in str(caught[0])


@pytest.mark.parametrize("why", ["closed", "overdue"])
async def test_a_call_ends_while_its_batch_is_being_rewritten(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*args: Any) -> list[list[OutBatch]]:
        begun.set()
        go_on.wait(GENEROUS_S)
        return rebatch(*args)

    monkeypatch.setattr("parley.client.produce.resend.rebatch", slow)
    tp = TopicPartition("t", 0)
    options = ProduceOptions(delivery_timeout_ms=500 if why == "overdue" else 120_000)
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            await client.produce("t", numbers(0, 1))
            cluster.faults.fail("Produce", "MESSAGE_TOO_LARGE")
            call = asyncio.create_task(client.produce("t", numbers(1, 10), options=options))
            await eventually_async(begun.is_set)
            if why == "closed":
                await client.close()
            try:
                with pytest.raises(KafkaError, match=r"was closed|within delivery_timeout_ms"):
                    await asyncio.wait_for(call, GENEROUS_S / 8)
            finally:
                go_on.set()
            if why == "overdue":
                for start in range(11, 17):  # more than a window
                    await client.produce("t", numbers(start, 1))
                assert (await client.list_offsets({tp: LATEST}))[tp].offset == 7
                (log,) = client._producing().sender.logs.values()
                assert all(batch.settled for batch in log.window)


def test_idempotence_that_is_asked_for_is_not_left_away_where_a_format_was_refused_before() -> None:
    with LocalCluster(brokers=1, release="2.4") as cluster:
        cluster.create_topic("t", partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            cluster.faults.fail("Produce", "UNSUPPORTED_FOR_MESSAGE_FORMAT")
            assert not client.produce("t", numbers(0, 1)).idempotent
            insists = ProduceOptions(enable_idempotence=True)
            cluster.faults.fail("Produce", "UNSUPPORTED_FOR_MESSAGE_FORMAT")
            with pytest.raises(BrokerError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
                client.produce("t", numbers(1, 1), options=insists)
            assert client.produce("t", numbers(1, 1), options=insists).idempotent
