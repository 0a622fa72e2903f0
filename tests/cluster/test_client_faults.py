"""The client while leaders move, brokers die and answers are lost: nothing lost, nothing twice, in order."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from parley.client import (
    EARLIEST,
    LATEST,
    BlockingClient,
    FetchOptions,
    ProduceOptions,
    TopicPartition,
)
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    BrokersUnreachable,
    CorruptRecordError,
    DataLossError,
    KafkaError,
    RequestTimedOut,
)

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


@dataclass
class Account:
    """A writer and a reader that run until told to stop, and what became of every value."""

    cluster: LocalCluster
    topic: str
    options: ProduceOptions = SMALL
    sent: int = 0
    seen: list[list[int]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    errors: list[BaseException] = field(default_factory=list)
    progress: threading.Condition = field(default_factory=threading.Condition)

    def go_on(self, records: int = 400) -> None:
        """Return when so many more records were acknowledged: trouble comes at places, not at times."""
        with self.progress:
            target = self.sent + records
            assert self.progress.wait_for(lambda: self.sent >= target or self.errors, timeout=60), "stuck"

    def run(self, trouble: Callable[[Account], None]) -> None:
        """Write and read while `trouble` runs; return when everything written was read, or after 60 s."""
        stop, done = threading.Event(), threading.Event()
        writer = threading.Thread(target=self._guarded, args=(self._write, stop))
        reader = threading.Thread(target=self._guarded, args=(self._read, done))
        writer.start()
        reader.start()
        try:
            trouble(self)
        finally:
            stop.set()
            writer.join(60)
            if not self.errors:
                with BlockingClient(bootstrap_servers=self.cluster.bootstrap_servers) as client:
                    client.produce(
                        self.topic,
                        pa.table({"value": ["-1"] * PARTITIONS, "partition": pa.array(range(PARTITIONS), pa.int32())}),
                    )
            reader.join(60 if not self.errors else 1)
        assert not self.errors, self.errors
        assert not writer.is_alive()
        assert not reader.is_alive()

    def _guarded(self, work: Callable[[threading.Event], None], event: threading.Event) -> None:
        try:
            work(event)
        except BaseException as error:
            with self.progress:
                self.errors.append(error)
                self.progress.notify_all()

    def _write(self, stop: threading.Event) -> None:
        with BlockingClient(bootstrap_servers=self.cluster.bootstrap_servers, client_id="writer") as client:
            while not stop.is_set():
                result = client.produce(self.topic, numbers(self.sent, 200), options=self.options)
                assert result.records == 200
                with self.progress:
                    self.sent += 200
                    self.progress.notify_all()

    def _read(self, done: threading.Event) -> None:
        tps = {TopicPartition(self.topic, index): 0 for index in range(PARTITIONS)}
        ended = 0
        with BlockingClient(bootstrap_servers=self.cluster.bootstrap_servers, client_id="reader") as client:
            for found in client.fetch_many(tps):
                values = [int(v) for v in found.batch.column("value").to_pylist()]
                ended += values.count(-1)
                self.seen[found.partition.partition] += [value for value in values if value >= 0]
                if ended == PARTITIONS:
                    done.set()
                    return

    def check(self, *, duplicates: bool = False) -> None:
        """Every value that was acknowledged is there; once and in order, unless duplicates may be."""
        everything = [value for part in self.seen for value in part]
        assert set(range(self.sent)) <= set(everything), "lost"
        if not duplicates:
            assert len(everything) == len(set(everything)) == self.sent, "duplicated"
            assert all(part == sorted(part) for part in self.seen), "reordered"


@pytest.fixture(params=["4.3", "2.4", "mixed"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    releases = MIXED if request.param == "mixed" else None
    with LocalCluster(brokers=3, release="4.3" if releases else request.param, releases=releases) as running:
        running.create_topic("t", partitions=PARTITIONS, replication_factor=3)
        yield running


def test_leaders_move_under_load(cluster: LocalCluster) -> None:
    dice = random.Random(1)

    def trouble(account: Account) -> None:
        for _ in range(20):
            account.go_on()
            cluster.move_leader("t", dice.randrange(PARTITIONS), dice.choice((1, 2, 3)))

    account = Account(cluster, "t")
    account.run(trouble)
    account.check()
    assert account.sent > 1_000


def test_brokers_are_killed_and_come_back(cluster: LocalCluster) -> None:
    def trouble(account: Account) -> None:
        for broker_id in (1, 2, 3, 1):
            account.go_on()
            cluster.kill_broker(broker_id)
            account.go_on()
            cluster.start_broker(broker_id)

    account = Account(cluster, "t")
    account.run(trouble)
    account.check()
    assert account.sent > 500


def test_answers_are_lost_after_the_write(cluster: LocalCluster) -> None:
    def trouble(account: Account) -> None:
        for _ in range(8):
            account.go_on()
            cluster.cut("Produce", executed=True)
            cluster.cut("Fetch", executed=True)

    account = Account(cluster, "t")
    account.run(trouble)
    account.check()


def test_each_broker_is_upgraded_in_turn() -> None:
    with LocalCluster(brokers=3, releases={1: "2.4", 2: "2.8", 3: "3.3"}) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, replication_factor=3)

        def trouble(account: Account) -> None:
            for broker_id, release in ((1, "3.9"), (2, "4.0"), (3, "4.3"), (1, "4.3"), (2, "2.4")):
                account.go_on()
                cluster.stop_broker(broker_id)
                cluster.start_broker(broker_id, release)
            account.go_on()

        account = Account(cluster, "t")
        account.run(trouble)
        account.check()
        versions = cluster.versions_used()
        assert len({v for broker in (1, 2, 3) for v in versions[broker]["writer"]["Produce"]}) > 1


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS",
        "LEADER_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
    ],
)
def test_errors_that_pass(error: str) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID make the client number its batches anew."""
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, replication_factor=3)

        def trouble(account: Account) -> None:
            for _ in range(5):
                account.go_on()
                cluster.fail("Produce", error)
                cluster.fail("Fetch", "NOT_LEADER_OR_FOLLOWER" if "SEQUENCE" in error or "PRODUCER" in error else error)

        account = Account(cluster, "t")
        account.run(trouble)
        account.check()


@pytest.mark.parametrize("acks", ["1", "0"])
def test_without_idempotence_the_order_still_holds(acks: str) -> None:
    with LocalCluster(brokers=3, release="3.9") as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, replication_factor=3)

        def trouble(account: Account) -> None:
            for index in range(8):
                account.go_on()
                if acks == "1":
                    cluster.move_leader("t", index % PARTITIONS, index % 3 + 1)

        account = Account(cluster, "t", ProduceOptions(acks=acks, batch_size=1_000))
        account.run(trouble)
        account.check()


def test_a_leader_of_an_older_format_takes_over() -> None:
    """The partition moves between a broker of magic 1 and one of magic 2: batches are written anew."""
    with LocalCluster(brokers=2, releases={1: "0.10.2", 2: "0.11.0.3"}) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, replication_factor=2)

        def trouble(account: Account) -> None:
            for index in range(12):
                account.go_on()
                cluster.move_leader("t", index % PARTITIONS, index % 2 + 1)

        account = Account(cluster, "t")
        account.run(trouble)
        account.check(duplicates=True)


# ---- leader hints (KIP-951) ------------------------------------------------------------------------


def test_k02_a_hint_moves_writer_and_reader_without_waiting_for_metadata() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        tp = TopicPartition("t", 0)
        with BlockingClient(
            bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000
        ) as client:
            client.produce("t", pa.table({"value": ["0"]}))
            batches = client.fetch(tp, 0, options=FetchOptions(fetch_max_wait_ms=20))
            assert next(batches).num_rows == 1
            cluster.delay("Metadata", 5_000)
            for turn in range(6):
                cluster.move_leader("t", 0, turn % 3 + 1)
                began = time.monotonic()
                client.produce("t", pa.table({"value": [str(turn)]}))
                assert next(batches).column("value").to_pylist() == [str(turn).encode()]
                assert time.monotonic() - began < 4  # milliseconds on a quiet machine; by Metadata it would take 5 s
            batches.close()


def test_without_hints_one_refresh_per_move_is_enough() -> None:
    with LocalCluster(brokers=3, release="2.4") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", pa.table({"value": ["0"]}))
            cluster.clear_requests()
            for turn in range(5):
                cluster.move_leader("t", 0, turn % 3 + 1)
                client.produce("t", pa.table({"value": [str(turn)]}))
            asked = cluster.requests("Metadata")
            assert len(asked) <= 5


# ---- what ends a call ------------------------------------------------------------------------------


def test_the_delivery_timeout_is_kept_and_stays_kept() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            cluster.fail("Produce", "NOT_ENOUGH_REPLICAS", times=-1)
            began = time.monotonic()
            with pytest.raises(RequestTimedOut, match="NOT_ENOUGH_REPLICAS") as caught:
                client.produce("t", numbers(10, 10), options=ProduceOptions(delivery_timeout_ms=700))
            assert 0.6 < time.monotonic() - began < 5  # far from the default of two minutes
            assert "0 records were acknowledged" in caught.value.__notes__[0]
            cluster.clear_faults()
            client.produce("t", numbers(20, 10))
            values = [
                int(v) for b in client.fetch(TopicPartition("t", 0), EARLIEST, LATEST) for v in b["value"].to_pylist()
            ]
            assert values == [*range(10), *range(20, 30)]


def test_an_error_that_will_not_pass_fails_the_call_and_not_the_next() -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster:
        cluster.create_topic("t", partitions=1)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            cluster.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
            with pytest.raises(BrokerError) as caught:
                client.produce("t", numbers(10, 10))
            assert (caught.value.code, caught.value.topic) == (29, "t")
            client.produce("t", numbers(20, 10))  # its sequences are numbered anew
            assert client.list_offsets({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset == 20


def test_a_batch_that_is_too_large_is_sent_in_halves() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, configs={"max.message.bytes": "2000"})
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            for start in (0, 1_000):
                result = client.produce("t", numbers(start, 1_000), options=ProduceOptions(batch_size=100_000))
                assert result.records == 1_000
                (ack,) = result.partitions.values()
                assert len(ack.batches) >= 8
                assert ack.base_offset == start
            values = [int(v) for b in client.fetch(TopicPartition("t", 0), 0, 2_000) for v in b["value"].to_pylist()]
            assert values == list(range(2_000))
            with pytest.raises(BrokerError) as caught:
                client.produce("t", pa.table({"value": ["x" * 3_000]}))
            assert caught.value.code == 10


def test_all_brokers_away_and_back() -> None:
    with LocalCluster(brokers=2, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            for broker_id in (1, 2):
                cluster.kill_broker(broker_id)
            back = threading.Timer(0.8, lambda: [cluster.start_broker(broker_id) for broker_id in (2, 1)])
            back.start()
            client.produce("t", numbers(10, 10))
            back.join()
            assert client.list_offsets({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset == 20


def test_no_broker_reachable_names_every_address_and_stage() -> None:
    with pytest.raises(BrokersUnreachable) as caught:
        BlockingClient(bootstrap_servers="127.0.0.1:1,no-such-host.invalid:9092").start()
    assert set(caught.value.failures) == {"127.0.0.1:1", "no-such-host.invalid:9092"}
    assert {error.stage for error in caught.value.failures.values()} == {"connect", "name lookup"}


def test_an_end_that_the_log_does_not_have_is_data_loss_in_time() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=800) as client:
            client.produce("t", numbers(0, 10))
            rows: list[int] = []
            with pytest.raises(DataLossError) as caught:
                drain(client.fetch(TopicPartition("t", 0), 0, 20, FetchOptions(fetch_max_wait_ms=50)), rows)
            assert rows == list(range(10))
            assert (caught.value.expected_offset, caught.value.available_offset) == (20, 10)


def test_a_topic_that_is_re_created_is_not_read_on_silently() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            batches = client.fetch(TopicPartition("t", 0), 0, options=FetchOptions(fetch_max_wait_ms=20))
            assert next(batches).num_rows == 10
            cluster.delete_topic("t")
            cluster.create_topic("t", partitions=1, replication_factor=3)
            with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as other:
                other.produce("t", numbers(100, 50))
            with pytest.raises(DataLossError, match="created again"):
                next(batches)
            client.produce("t", numbers(200, 5))  # the writer goes on in the new topic
            assert client.list_offsets({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset == 55


# ---- damaged records -------------------------------------------------------------------------------


def test_p19_a_corrupt_batch_names_its_offset_again_and_again_and_can_be_passed(tmp_path: os.PathLike[str]) -> None:
    with LocalCluster(brokers=1, release="4.3", data_dir=tmp_path) as cluster:
        cluster.create_topic("t", partitions=1)
        tp = TopicPartition("t", 0)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            for start in (0, 10, 20):
                client.produce("t", numbers(start, 10))
            _damage(tmp_path, b"\x0415")
            for _ in range(2):
                rows: list[int] = []
                with pytest.raises(CorruptRecordError) as caught:
                    drain(client.fetch(tp, 0, 30), rows)
                assert rows == list(range(10))
                assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 10)
            with pytest.raises(CorruptRecordError) as caught:
                list(client.fetch(tp, 15, 30))
            assert caught.value.offset == 15
            assert [o for b in client.fetch(tp, 20, 30) for o in b["offset"].to_pylist()] == list(range(20, 30))


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
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("t", numbers(0, 10))
            cluster.fail("Fetch", "CORRUPT_MESSAGE")
            with pytest.raises(CorruptRecordError) as caught:
                list(client.fetch(TopicPartition("t", 0), 3, 10))
            assert (caught.value.partition, caught.value.offset) == (0, 3)


def test_closing_fails_what_is_open_and_does_not_hang() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1)
        client = BlockingClient(bootstrap_servers=cluster.bootstrap_servers)
        client.produce("t", numbers(0, 1))
        cluster.delay("Produce", 10_000)
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
        began = time.monotonic()
        client.close()
        writer.join(5)
        assert time.monotonic() - began < 3
        assert not writer.is_alive()
        assert "closed" in str(caught[0])
