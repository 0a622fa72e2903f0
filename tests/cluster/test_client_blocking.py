"""The blocking wrapper: threads, forks, copies, one loop thread, and its
thread that only moves bytes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    Consumer,
    ConsumerRebalanceListener,
    FetchOptions,
    ProduceOptions,
    Producer,
    TopicPartition,
)
from parley.client.fetch import decode as fetch_decode
from parley.client.loop_thread import shared_loop
from parley.client.produce import producer
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, LocalProtocolError

from ..support import GENEROUS_MS, GENEROUS_S

TP = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release="4.3") as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    if "t" in cluster._cluster.state.image.topics:
        cluster.delete_topic("t")
    cluster.create_topic("t", partitions=2, replication_factor=3)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as made:
        yield made


def values(client: Client, tp: TopicPartition = TP) -> list[int]:
    return [
        int(v) for batch in client.fetch(tp, EARLIEST, LATEST) for v in batch["value"].to_pylist()
    ]


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"value": [str(i) for i in range(start, start + count)]})


def test_many_threads_share_one_client(client: Client) -> None:
    def work(index: int) -> int:
        for turn in range(5):
            client.produce(
                "t",
                rows(1_000 * index + 100 * turn, 100),
                partition=0,
                options=ProduceOptions(batch_size=300),
            )
        return sum(batch.num_rows for batch in client.fetch(TP, 0, 500))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [500] * 8
    found = values(client)
    assert len(found) == len(set(found)) == 4_000
    for index in range(8):  # each thread's rows in its own order
        mine = [value for value in found if value // 1_000 == index]
        assert mine == sorted(mine)


def test_clients_share_one_thread(cluster: LocalCluster, client: Client) -> None:
    before = {thread.name for thread in threading.enumerate()}
    others = [Client(bootstrap_servers=cluster.bootstrap_servers).start() for _ in range(3)]
    new = {thread.name for thread in threading.enumerate()} - before
    assert not [name for name in new if "parley network" in name]
    for other in others:
        other.close()


def test_records_are_encoded_and_decoded_in_the_callers_thread(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def watched(work):
        def call(*arguments, **keywords):
            threads.append(threading.current_thread())
            return work(*arguments, **keywords)

        return call

    monkeypatch.setattr(fetch_decode, "decode_columns", watched(fetch_decode.decode_columns))
    monkeypatch.setattr(producer, "encode", watched(producer.encode))
    client.produce("t", rows(0, 100), partition=0)
    assert values(client) == list(range(100))
    assert len(threads) >= 2
    assert set(threads) == {threading.current_thread()}


def test_c18_a_fork_begins_again_and_leaves_the_parent_alone(client: Client) -> None:
    client.produce("t", rows(0, 10), partition=0)
    endless = client.fetch(TP, 0, options=FetchOptions(fetch_max_wait_ms=100))
    assert next(endless).num_rows == 10
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            gc.collect()  # whatever the parent's loop left here must not close what the parent uses
            with client:
                client.produce("t", rows(10, 10), partition=0)
                answer = f"{len(values(client))}"
        except BaseException as error:
            answer = repr(error)
        os.write(write_end, answer.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        assert pipe.read() == "20"
    os.waitpid(child, 0)
    assert next(endless).num_rows == 10
    endless.close()
    client.produce("t", rows(20, 10), partition=0)
    assert values(client) == list(range(30))


def test_a_copy_carries_the_options_only(client: Client) -> None:
    copy = pickle.loads(pickle.dumps(client))
    assert copy.options == client.options
    with copy:
        copy.produce("t", rows(0, 3), partition=0)
        assert values(copy) == [0, 1, 2]


def test_it_starts_by_itself_and_a_closed_client_says_so(cluster: LocalCluster) -> None:
    client = Client(bootstrap_servers=cluster.bootstrap_servers)
    assert client.metadata().brokers
    client.close()
    client.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        client.metadata()


def test_a_blocking_call_inside_the_loop_is_refused(client: Client) -> None:
    async def inside() -> None:
        client.metadata()

    future = asyncio.run_coroutine_threadsafe(inside(), shared_loop().loop)
    with pytest.raises(LocalProtocolError, match="AsyncClient"):
        future.result(GENEROUS_S)


class Exits(ConsumerRebalanceListener):
    """Raises once what ends a program."""

    def __init__(self, error: type[BaseException]) -> None:
        self.errors = [error]

    def on_partitions_assigned(self, partitions: object) -> None:
        if self.errors:
            raise self.errors.pop()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_and_exits_in_a_listener_come_out_of_the_poll_and_end_no_loop(
    cluster: LocalCluster, client: Client, error: type[BaseException]
) -> None:
    client.produce("t", rows(0, 1), partition=0)
    found: list[object] = []

    def use() -> None:
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=f"g-{error.__name__}",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(["t"], listener=Exits(error))
            with pytest.raises(error):
                consumer.getone(timeout_ms=GENEROUS_MS)
            record = consumer.getone(timeout_ms=GENEROUS_MS)
            found.append(record and record.value)
        found.extend(values(client))

    ended_in_time(use)
    assert found == [b"0", 0]


def test_a_callback_that_exits_ends_no_loop_and_keeps_no_other_from_being_called(
    cluster: LocalCluster, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []

    def use() -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(3):
                callbacks = [lambda *_: sys.exit(3), lambda *_: called.append(1)]
                producer.produce(
                    "t", b"%d" % number, partition=0, on_delivery=callbacks[number > 0]
                )
            producer.flush()

    ended_in_time(use)
    assert called == [1, 1]
    assert values(client) == [0, 1, 2]
    assert "a callback of a producer raised" in caplog.text


def test_the_loop_outlives_what_would_end_it(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    shared_loop().loop.call_soon_threadsafe(sys.exit)
    ended_in_time(lambda: client.produce("t", rows(0, 1), partition=0))
    assert values(client) == [0]
    assert "goes on" in caplog.text


def ended_in_time(work: Callable[[], None]) -> None:
    """Run something that would wait forever if the loop had ended."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(GENEROUS_S)
    assert not thread.is_alive()
    assert not raised


def test_leaving_an_iterator_early_ends_its_requests(cluster: LocalCluster, client: Client) -> None:
    client.produce("t", rows(0, 10), partition=0)
    batches = client.fetch(TP, 0, options=FetchOptions(fetch_max_wait_ms=50))
    assert next(batches).num_rows == 10
    batches.close()
    client.metadata()
    cluster.clear_requests()
    threading.Event().wait(0.3)
    assert not cluster.requests("Fetch")


def test_rows_may_come_one_batch_after_the_other(client: Client) -> None:
    def made() -> Iterator[pa.RecordBatch]:
        for start in range(0, 5_000, 100):
            yield from rows(start, 100).to_batches()

    assert client.produce("t", made(), partition=0).records == 5_000
    assert values(client) == list(range(5_000))


def test_an_error_of_the_rows_surfaces_and_leaves_the_client_usable(client: Client) -> None:
    def made() -> Iterator[pa.RecordBatch]:
        yield from rows(0, 10).to_batches()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.produce("t", made(), partition=1)
    with pytest.raises(ConfigError, match="valu"):
        client.produce("t", pa.table({"valu": ["x"]}))
    client.produce("t", rows(100, 10), partition=0)
    assert values(client) == list(range(100, 110))


def test_an_interrupted_call_gives_its_turn_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the turn and its use: numbers are taken back, and the next
    call is not kept waiting.
    """
    encode = producer.encode
    calls = 0

    def interrupted(*arguments, **keywords):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return encode(*arguments, **keywords)

    monkeypatch.setattr(producer, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.produce("t", (rows(start, 10).to_batches()[0] for start in (0, 10)), partition=0)
    client.produce("t", rows(100, 10), partition=0)
    found = values(client)
    assert found[-10:] == list(range(100, 110))
    assert found[:-10] in ([], list(range(10)))  # what was handed over before may have been sent


def test_a_reader_that_rests_is_not_read_ahead_for_without_end(
    cluster: LocalCluster, client: Client
) -> None:
    payload = pa.array([b"x" * 10_000] * 500)
    for _ in range(8):
        client.produce("t", pa.table({"value": payload}), partition=0)
    cluster.clear_requests()
    options = FetchOptions(max_partition_fetch_bytes=1 << 20, prefetch_max_bytes=2 << 20)
    batches = client.fetch(TP, 0, 4_000, options)
    rows_read = next(batches).num_rows
    asked = -1
    while len(requests := cluster.requests("Fetch")) != asked:  # until it has stopped asking
        asked = len(requests)
        threading.Event().wait(0.2)
    furthest = max(entry.message.topics[0].partitions[0].fetch_offset for entry in requests)
    # one answer in hand, prefetch_max_bytes waiting, one answer under way: 5 MiB
    assert furthest < 600
    assert rows_read + sum(batch.num_rows for batch in batches) == 4_000


def test_many_messages_wait_their_turn_in_the_buffer(client: Client) -> None:
    payload = pa.array([b"x" * 10_000] * 1_000)
    options = ProduceOptions(buffer_memory=300_000, batch_size=100_000)
    assert (
        client.produce(
            "t",
            (b for _ in range(5) for b in pa.table({"value": payload}).to_batches()),
            options=options,
        ).records
        == 5_000
    )
