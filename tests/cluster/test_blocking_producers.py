"""The blocking producer: threads, callbacks, transactions."""

from __future__ import annotations

import pickle
import threading
from collections import defaultdict

import pyarrow as pa
import pytest

from parley import Client, Consumer, Producer, TopicPartition
from parley.client import EARLIEST, LATEST, FetchOptions, RecordMetadata
from parley.devcluster import LocalCluster
from parley.devcluster.faults.faults import EVERY_TIME
from parley.errors import (
    ConfigError,
    KafkaError,
    LocalProtocolError,
    RequestTimedOut,
    TransactionAbortableError,
)

from ..support import GENEROUS_MS, GENEROUS_S

PARTITIONS = 3


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = f"b{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=2)
    return name


def producer(cluster: LocalCluster, **options: object) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **options)


def committed(cluster: LocalCluster, topic: str) -> list[bytes]:
    """Return the values that read_committed shows, partition by partition."""
    options = FetchOptions(isolation_level="read_committed")
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        return [
            value
            for index in range(PARTITIONS)
            for batch in client.fetch(TopicPartition(topic, index), EARLIEST, LATEST, options)
            for value in batch.column("value").to_pylist()
        ]


def test_threads_share_a_producer_and_each_has_its_order(cluster: LocalCluster, topic: str) -> None:
    seen: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def send(sending: Producer, thread: int) -> None:
        for number in range(2_000):

            def delivered(
                error: KafkaError | None, found: RecordMetadata, at: int = number
            ) -> None:
                assert error is None
                seen[thread].append((at, found.offset))

            value = b"%d %d" % (thread, number)
            sending.produce(topic, value, partition=thread % PARTITIONS, on_delivery=delivered)

    with producer(cluster, batch_size=4_000) as sending:
        threads = [threading.Thread(target=send, args=(sending, n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GENEROUS_S)
        sending.flush()
        assert sum(map(len, seen.values())) == 8_000  # each called back before flush returned
    for found in seen.values():
        assert [number for number, _ in found] == list(range(2_000))
        offsets = [offset for _, offset in found]
        assert offsets == sorted(set(offsets))
    values = committed(cluster, topic)
    for thread in range(4):
        mine = [value for value in values if value.startswith(b"%d " % thread)]
        assert mine == [b"%d %d" % (thread, number) for number in range(2_000)]


def test_a_result_can_be_waited_for_and_the_wait_ended(cluster: LocalCluster, topic: str) -> None:
    with producer(cluster) as sending:
        assert sending.produce(topic, b"0", partition=1).result().offset == 0
        cluster.faults.delay("Produce", 300, times=1)
        slow = sending.produce(topic, b"1", partition=1)
        with pytest.raises(RequestTimedOut, match="still on its way"):
            slow.result(timeout_ms=1)
        assert slow.result(GENEROUS_MS).offset == 1
        assert slow.exception() is None
        table = pa.table({"value": [b"2", b"3"]})
        last = sending.produce(topic, b"1b", partition=1)
        assert sending.send_batch(topic, table, 1).records == 2
        assert last.result().offset == 2
    with pytest.raises(LocalProtocolError, match="closed"):
        sending.produce(topic, b"late")
    with pytest.raises(LocalProtocolError, match="another process"):
        pickle.dumps(sending)


def test_serializers_interceptors_and_a_partitioner_of_ones_own(
    cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    acknowledged: list[tuple[int, str | None]] = []

    class Marking:
        def on_send(self, record):
            if record.value == "broken":
                raise RuntimeError("not the record's fault")
            if record.value == "forgotten":
                return None
            return record._replace(value=f"{record.value}!")

        def on_acknowledgement(self, metadata, error):
            acknowledged.append((metadata.partition, error and type(error).__name__))

    asked: list[object] = []

    def last(topic, key, partitions, available):
        asked.append((topic, key, list(partitions), list(available)))
        return 99 if key == b"nowhere" else partitions[-1]

    def encode(value: object) -> bytes:
        return str(value).encode()

    options = {
        "value_serializer": encode,
        "key_serializer": encode,
        "partitioner": last,
        "interceptors": [Marking()],
    }
    with producer(cluster, **options) as sending:
        assert sending.produce(topic, "a", 7).result().partition == PARTITIONS - 1
        sending.produce(topic, "broken").result()
        sending.produce(topic, "forgotten").result()
        sending.produce(topic, "b", partition=0).result()
        with pytest.raises(ConfigError, match=r"partitioner returned 99 .*3 partitions"):
            sending.produce(topic, "c", "nowhere")
    assert asked[0] == (topic, b"7", [0, 1, 2], [0, 1, 2])
    assert "interceptor Marking returned None (NoneType), not a Prod" in caplog.text
    assert sorted(committed(cluster, topic)) == [b"a!", b"b!", b"broken", b"forgotten"]
    assert sorted(acknowledged) == [(-1, "ConfigError"), (0, None), *[(2, None)] * 3]


def test_records_of_a_transaction_appear_together_or_not_at_all(
    cluster: LocalCluster, topic: str
) -> None:
    name = f"tx-{topic}"
    with producer(cluster, transactional_id=name, linger_ms=GENEROUS_MS) as sending:
        with pytest.raises(LocalProtocolError, match="no transaction is open"):
            sending.produce(topic, b"outside")
        with sending.transaction():
            first = [sending.produce(topic, b"kept %d" % n, b"%d" % n) for n in range(500)]
            sending.send_offsets_to_transaction({TopicPartition(topic, 0): 5}, f"group-{topic}")
        assert all(one.done() and one.result().offset >= 0 for one in first)
        lost = []

        def give_up() -> None:
            with sending.transaction():
                lost.append(sending.produce(topic, b"lost", partition=0))
                sending.flush()
                lost.append(sending.produce(topic, b"lost, too", partition=0))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            give_up()
        assert lost[0].exception() is None  # it was written, and is not shown
        assert isinstance(lost[1].exception(), TransactionAbortableError)
        with sending.transaction():
            sending.send_batch(topic, pa.table({"value": [b"arrow"]}), 0)
            sending.produce(topic, b"after", partition=0)
        with producer(cluster, transactional_id=name) as successor:
            with pytest.raises(KafkaError), sending.transaction():
                sending.produce(topic, b"fenced")
            with pytest.raises(KafkaError):
                sending.begin_transaction()
            with successor.transaction():
                successor.produce(topic, b"successor", partition=0)
    found = committed(cluster, topic)
    assert sorted(found) == sorted(
        [*(b"kept %d" % n for n in range(500)), b"arrow", b"after", b"successor"]
    )
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        partition = TopicPartition(topic, 0)
        assert client.committed_offsets(f"group-{topic}", [partition])[partition].offset == 5


def test_a_flush_that_has_no_time_leaves_its_records_on_their_way(
    cluster: LocalCluster, topic: str
) -> None:
    with producer(cluster) as sending:
        cluster.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=EVERY_TIME)
        sent = sending.produce(topic, b"late")
        with pytest.raises(RequestTimedOut, match="within 50 ms; they are still on their way"):
            sending.flush(timeout_ms=50)
        assert not sent.done()
        cluster.faults.clear()
        sending.flush(timeout_ms=GENEROUS_MS)
        assert sent.exception() is None


def test_what_a_producer_and_its_acknowledgements_show(cluster: LocalCluster, topic: str) -> None:
    secret = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    named = Client(
        bootstrap_servers="a:1", sasl_plain_username="u", sasl_plain_password="p", **secret
    )
    assert repr(named) == "<Client of a:1, open>"
    with producer(cluster, linger_ms=60_000) as sending:
        sent = sending.produce(topic, b"x", partition=1)
        assert repr(sent) == f"<Acknowledgement of a record for {topic}, not known yet>"
        sending.flush()
        assert repr(sent) == f"<Acknowledgement of {topic}-1, offset 0>"
        assert repr(sending) == f"<Producer of {cluster.bootstrap_servers}, open>"
    assert repr(sending).endswith(", closed>")
    assert repr(Consumer(bootstrap_servers="a:1")) == "<Consumer of a:1, open>"


def test_ctrl_c_while_a_block_begins_leaves_no_transaction_open(
    cluster: LocalCluster, topic: str
) -> None:
    class Interrupted(Producer):
        interrupted = False

        def begin_transaction(self) -> None:
            super().begin_transaction()
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt

    with Interrupted(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="interrupted"
    ) as sending:
        with pytest.raises(KeyboardInterrupt), sending.transaction():
            raise AssertionError("it did not begin")
        with sending.transaction():
            sending.produce(topic, b"next")
    assert committed(cluster, topic) == [b"next"]
