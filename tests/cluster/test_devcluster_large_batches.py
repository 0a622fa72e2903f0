"""Produce requests that take long to check: they wait, and nobody else does."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.devcluster.handlers import old_readers, produce_ahead
from parley.devcluster.state.log import appending
from parley.messages import MetadataRequest, ProduceRequest
from parley.records import Record, WriteOptions, columns_from_records, encode_batches, offsets_of
from parley_laboratory.hostile import codec_shapes, record_shapes
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

Talk = Any
Batch = Callable[..., bytes]
pytestmark = pytest.mark.usefixtures("events")


class Gate:
    """Checks of record sets that wait until they may go on; `threads` are those that checked."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self._prepare = produce_ahead.prepare

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        self.reached.set()
        assert self.opened.wait(GENEROUS_S)
        return self._prepare(*arguments, **named)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(produce_ahead, "prepare", made)
    yield made
    made.opened.set()


def test_others_are_answered_while_a_large_batch_is_checked(
    leader: Talk, batch: Batch, gate: Gate
) -> None:
    request = leader.produce_request(batch(100, size=1_000), version=8)
    leader.wire.send(request, 8)
    assert gate.reached.wait(GENEROUS_S)
    with Wire(leader.cluster.broker(1).address) as other:
        assert other.ask(MetadataRequest(topics=None), 9).topics
        assert not gate.opened.is_set()
    gate.opened.set()
    assert leader.wire.receive(request, 8).responses[0].partition_responses[0].base_offset == 0
    assert len(set(gate.threads)) == len(gate.threads) == 1, "checked once, and in a thread"


def test_what_follows_on_the_connection_waits_for_it(
    leader: Talk, batch: Batch, gate: Gate
) -> None:
    large = leader.produce_request(batch(100, size=1_000), version=8)
    small = leader.produce_request(batch(1), version=8)
    leader.wire.send(large, 8)
    assert gate.reached.wait(GENEROUS_S)
    leader.wire.send(small, 8)
    gate.opened.set()
    leader.wire.correlation_id -= 1
    first = leader.wire.receive(large, 8)
    leader.wire.correlation_id += 1
    second = leader.wire.receive(small, 8)
    answers = [one.responses[0].partition_responses[0] for one in (first, second)]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 100)]


@pytest.mark.parametrize("where", ["memory", "files"])
def test_what_is_too_large_to_be_copied_in_the_loop_is_kept_as_it_came(
    where: str, tmp_path: Path, talk_to: Callable[..., Talk]
) -> None:
    rows = [
        Record(0, 1_000, 0, None, random.Random(seed).randbytes(1_000_000)) for seed in range(6)
    ]
    options = WriteOptions(max_batch_bytes=2**31 - 1)
    (sent,) = encode_batches(columns_from_records(rows, with_offsets=False), None, options)
    assert len(sent.data) > produce_ahead.COPIED_AHEAD_BYTES
    folder = tmp_path if where == "files" else None
    with LocalCluster(2, "3.9", data_dir=folder) as cluster:
        cluster.create_topic("t", 1, configs={"max.message.bytes": str(2**31 - 1)})
        cluster.move_leader("t", 0, 1)
        writer, epoch = talk_to(cluster, 1, "t"), cluster.leaders("t")[0][1]
        assert [writer.produce(bytes(sent.data)).base_offset for _ in range(2)] == [0, 6]
        cluster.move_leader("t", 0, 2)
        reader = talk_to(cluster, 2, "t")
        for base in (0, 6):
            found = bytearray(reader.fetch(base, partition_max_bytes=1).records)
            assert found[0:8] == base.to_bytes(8, "big")
            assert found[12:16] == epoch.to_bytes(4, "big")
            assert found[16:] == sent.data[16:]


def test_a_large_batch_that_is_damaged_is_refused(leader: Talk, batch: Batch) -> None:
    damaged = bytearray(batch(100, size=1_000))
    damaged[-1] ^= 1
    assert leader.produce(bytes(damaged)).error_code == 2
    assert leader.produce(batch(100, size=1_000)).base_offset == 0


SMALL_ON_THE_WIRE = {
    "zstd": record_shapes.compressed_records(4)(100_000).data,
    "gzip": record_shapes.compressed_records(1)(1_000_000).data,
    "many records": record_shapes.compressed_records(2)(2_000).data,
    "gzip that holds no records": record_shapes.raw_batch(
        codec_shapes.gzip_zeros(20_000), 1, codec=1
    ),
}


@pytest.mark.parametrize("name", SMALL_ON_THE_WIRE)
def test_what_becomes_large_is_checked_in_a_thread(leader: Talk, gate: Gate, name: str) -> None:
    gate.opened.set()
    data = SMALL_ON_THE_WIRE[name]
    assert len(data) < 2**17
    leader.produce(data)
    assert all(thread.startswith("asyncio_") for thread in gate.threads), gate.threads
    assert gate.threads


def test_small_batches_need_no_thread(leader: Talk, batch: Batch, gate: Gate) -> None:
    gate.opened.set()
    for number, codec in enumerate((0, 1, 2, 3)):
        assert leader.produce(batch(10, codec=codec)).base_offset == 10 * number
    assert not any(thread.startswith("asyncio_") for thread in gate.threads), gate.threads
    assert offsets_of(leader.fetch(0).records) == list(range(40))


def _threads_of(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[str]:
    """Return the list to which each call of the function adds its thread."""
    threads: list[str] = []
    function = getattr(module, name)

    def recorded(*arguments: Any, **named: Any) -> Any:
        threads.append(threading.current_thread().name)
        return function(*arguments, **named)

    monkeypatch.setattr(module, name, recorded)
    return threads


@pytest.mark.parametrize("version", [1, 3])
def test_a_large_fetch_is_converted_in_a_thread(
    leader: Talk, batch: Batch, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    threads = _threads_of(monkeypatch, old_readers, "convert")
    leader.produce(batch(10))
    leader.fetch(0, version=version)
    assert not any(thread.startswith("asyncio_") for thread in threads), "a small one is not"
    threads.clear()
    leader.produce(batch(100, size=1_000))
    found = offsets_of(leader.fetch(0, version=version).records)
    assert found == list(range(len(found)))
    assert len(found) > 100, "brokers cut what they convert at the size that it had"
    assert threads
    assert all(thread.startswith("asyncio_") for thread in threads), threads


def test_offsets_are_written_into_compressed_messages_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker of 0.9 knows a set's offsets when it is appended; they stand
    inside what is compressed.
    """
    threads = _threads_of(monkeypatch, appending, "assign_offsets")
    rows = [
        Record(0, -1, -1, None, random.Random(number).randbytes(1_000)) for number in range(100)
    ]
    options = WriteOptions(magic=0, codec=1)
    (data,) = encode_batches(columns_from_records(rows, with_offsets=False), None, options)
    with LocalCluster(1, "0.9") as cluster, Wire(cluster.broker(1).address) as wire:
        cluster.create_topic("t", 1)
        for base in (0, 100):
            part = ProduceRequest.PartitionProduceData(index=0, records=bytes(data.data))
            topic = ProduceRequest.TopicProduceData(name="t", partition_data=[part])
            answer = wire.ask(ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[topic]), 1)
            found = answer.responses[0].partition_responses[0]
            assert (found.error_code, found.base_offset) == (0, base)
    assert len(threads) == 2
    assert all(thread.startswith("asyncio_") for thread in threads), threads
