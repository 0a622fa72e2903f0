"""C15: transactions while answers are lost, brokers die and coordinators move: each
is seen whole, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from parley.client import (
    AsyncClient,
    Client,
    OffsetAndMetadata,
    TransactionProducer,
)
from parley.client.transactions.state import State
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    DataLossError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionFatalError,
)
from parley.versions import Feature

from .transaction_account import (
    COMMITTED,
    GROUP,
    PARTITIONS,
    PATIENT,
    TOPIC,
    TP,
    account,
    connect,
    coordinator,
    go_through,
    settled,
    transact,
    values,
    write,
)

RELEASES = ("0.11", "2.4", "3.9", "4.3")
STEPS = (
    "Metadata",
    "FindCoordinator",
    "InitProducerId",
    "AddPartitionsToTxn",
    "Produce",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
)
CHAOS = (("2.4", "3.9", "4.3"), ("4.3",) * 3, ("3.9",) * 3, ("0.11", "1.1", "2.4"))


@pytest.fixture(params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release=request.param) as running:
        running.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as made:
        yield made


@pytest.mark.parametrize("executed", [False, True], ids=["request lost", "answer lost"])
def test_c15_a_lost_connection_at_any_step_costs_nothing(
    cluster: LocalCluster, client: Client, executed: bool
) -> None:
    expected = []
    for number, step in enumerate(STEPS):
        with client.transactions.producer(f"id-{number}") as first:
            transact(first, 10 * number)
        cluster.faults.cut(step, executed=executed)
        with client.transactions.producer(f"id-{number}") as producer:
            transact(producer, 10 * number + 1)
            transact(producer, 10 * number + 2)
        cluster.faults.clear()
        expected += [10 * number, 10 * number + 1, 10 * number + 2]
    assert sorted(account(cluster)) == expected
    assert client.committed_offsets(GROUP, [TP])[TP] == OffsetAndMetadata(10 * len(STEPS) - 8)


@pytest.mark.parametrize("whom", ["coordinator", "leader", "other"])
def test_c15_a_broker_dies_at_any_step(cluster: LocalCluster, client: Client, whom: str) -> None:
    def die() -> int:
        victims = {"coordinator": coordinator(client, "id"), "leader": cluster.leaders(TOPIC)[0][0]}
        victim = victims.get(whom) or next(
            b.id for b in cluster.brokers if b.id not in victims.values()
        )
        cluster.kill_broker(victim)
        return victim

    done = 0
    for at in range(5):
        with client.transactions.producer("id") as producer:
            dead = die() if at == 0 else 0
            producer.begin_transaction()
            dead = die() if at == 1 else dead
            write(producer, 10 * at)
            dead = die() if at == 2 else dead
            producer.send_offsets_to_transaction({TP: OffsetAndMetadata(at)}, GROUP)
            dead = die() if at == 3 else dead
            producer.commit_transaction()
            dead = die() if at == 4 else dead
            producer.begin_transaction()
            write(producer, 10 * at + 1)
            producer.abort_transaction()
            cluster.start_broker(dead)
        done += 1
    assert sorted(account(cluster)) == [10 * at for at in range(done)]


def test_c15_the_coordinator_moves_between_any_two_steps(
    cluster: LocalCluster, client: Client
) -> None:
    def move() -> None:
        cluster.move_coordinator("id", coordinator(client, "id") % 3 + 1)

    for at in range(4):
        with client.transactions.producer("id") as producer:
            for number in (10 * at, 10 * at + 1):
                if at == 0:
                    move()
                producer.begin_transaction()
                if at == 1:
                    move()
                write(producer, number)
                if at == 2:
                    move()
                producer.send_offsets_to_transaction({TP: OffsetAndMetadata(number)}, GROUP)
                if at == 3:
                    move()
                producer.commit_transaction()
    assert sorted(account(cluster)) == [0, 1, 10, 11, 20, 21, 30, 31]


def test_an_offset_of_an_open_transaction_is_waited_for(
    cluster: LocalCluster, client: Client
) -> None:
    """KIP-447: else what a group reads next is read twice. Below 2.5 the
    offset before is reported.
    """
    waits = client.supports(Feature.REQUIRE_STABLE_OFFSETS)
    with client.transactions.producer("id") as producer, ThreadPoolExecutor(1) as pool:
        transact(producer, 1)
        settled(cluster)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TP: OffsetAndMetadata(2)}, GROUP)
        asked = pool.submit(client.committed_offsets, GROUP, [TP])
        if waits:
            while len(cluster.requests("OffsetFetch")) < 3:
                assert not asked.done()
        else:
            assert asked.result() == {TP: OffsetAndMetadata(1)}
        producer.commit_transaction()
        if waits:
            assert asked.result() == {TP: OffsetAndMetadata(2)}


def test_c15_a_producer_that_dies_leaves_nothing_to_its_successor(
    cluster: LocalCluster, client: Client
) -> None:
    for number in range(3):
        dead = connect(cluster).transactions.producer("id").start()
        dead.begin_transaction()
        write(dead, 100 + number)  # and nothing is heard of it any more
        with client.transactions.producer("id") as producer:
            transact(producer, number)
            with pytest.raises(ProducerFencedError):
                dead.commit_transaction()
    assert sorted(account(cluster)) == [0, 1, 2]
    assert not list(cluster.transactions()["id"].partitions)


def test_c15_zombies_are_fenced_at_every_step(cluster: LocalCluster, client: Client) -> None:
    def zombie(written: bool) -> TransactionProducer:
        made = client.transactions.producer("id").start()
        made.begin_transaction()
        if written:
            write(made, 66)
        client.transactions.fence(["id"])
        return made

    made = zombie(written=True)
    with pytest.raises((BrokerError, ProducerFencedError)):
        write(made, 66)
    made = zombie(written=False)
    with pytest.raises((BrokerError, ProducerFencedError)):
        write(made, 66)
    made = zombie(written=False)
    with pytest.raises((BrokerError, ProducerFencedError)):
        made.send_offsets_to_transaction({TP: OffsetAndMetadata(9)}, GROUP)
    for end in ("commit_transaction", "abort_transaction", None):
        made = zombie(written=True)
        with pytest.raises(ProducerFencedError):
            client.transactions.end(
                made.prepare_transaction(), committed=True
            ) if end is None else getattr(made, end)()
    assert not account(cluster)


@pytest.mark.parametrize("seed", range(4))
def test_c15_chaos(seed: int) -> None:
    """Any step may be cut, any broker die, any coordinator move; whoever cannot go on
    is replaced by a successor.
    """
    rng = random.Random(seed)
    releases = dict(zip((1, 2, 3), CHAOS[seed % len(CHAOS)], strict=True))
    committed, unknown, dead = set(), set(), 0
    with LocalCluster(brokers=3, releases=releases, seed=seed) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        with connect(cluster, request_timeout_ms=5_000) as client:
            producer = client.transactions.producer("id").start()
            for number in range(40):
                trouble = rng.randrange(4)
                if trouble == 0:
                    cluster.faults.cut(
                        rng.choice(STEPS), executed=rng.random() < 0.5, times=rng.choice((1, 2))
                    )
                elif trouble == 1:
                    cluster.move_coordinator(
                        "id", rng.choice([node for node in (1, 2, 3) if node != dead])
                    )
                elif trouble == 2 and not dead:
                    dead = rng.choice((1, 2, 3))
                    cluster.kill_broker(dead)
                elif dead:
                    cluster.start_broker(dead)
                    dead = 0
                aborting = rng.random() < 0.2
                try:
                    producer.begin_transaction()
                    write(producer, number)
                    if aborting:
                        producer.abort_transaction()
                    else:
                        producer.commit_transaction()
                        committed.add(number)
                except KafkaError:
                    if producer.state is State.COMMITTING:
                        unknown.add(number)
                    producer.close()
                    cluster.faults.clear()
                    producer = client.transactions.producer("id").start()
            producer.close()
        if dead:
            cluster.start_broker(dead)
        seen = set(account(cluster))
    assert committed <= seen <= committed | unknown
    assert len(committed) > 10


# -- topics that are not what they were ------------------------------------------------------------


def test_a_topic_created_again_in_a_transaction_fails_loudly_and_then_works_again(
    cluster: LocalCluster, client: Client
) -> None:
    """Contract (f): what the transaction had written is gone, so it must not be
    committed as if it were not.
    """
    release = cluster.brokers[0].release
    with client.transactions.producer("id") as producer:
        transact(producer, 1)
        producer.begin_transaction()
        write(producer, 3)
        cluster.scenes.recreate_topic(TOPIC)
        client.metadata([TOPIC])
        with pytest.raises(KafkaError) as caught:
            go_through(producer)
        if release.startswith("0.11"):  # its broker only says that a sequence is missing
            assert isinstance(caught.value, TransactionFatalError)
        else:
            errors = (caught.value, caught.value.__cause__)
            # no topic ids: the leader knows nothing of the producer
            reported_by_sequence = release.startswith("2.4")
            assert reported_by_sequence or any(isinstance(error, DataLossError) for error in errors)
            assert producer.state is State.ABORTABLE_ERROR
            producer.abort_transaction()
            transact(producer, 4)
    with client.transactions.producer("id") as successor:
        transact(successor, 5)
    assert sorted(account(cluster)) == ([5] if release.startswith("0.11") else [4, 5])


@pytest.mark.parametrize("release", ["3.9", "4.3"])  # without topic ids nobody could know
def test_a_topic_created_again_is_noticed_at_the_end_of_the_transaction_too(release: str) -> None:
    with LocalCluster(brokers=2, release=release) as cluster, connect(cluster) as client:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        for number, end in enumerate(("commit_transaction", "prepare_transaction")):
            with client.transactions.producer("id") as producer:
                producer.begin_transaction()
                write(producer, 10)
                cluster.scenes.recreate_topic(TOPIC)
                with pytest.raises(
                    TransactionAbortableError, match="was deleted, and maybe created again"
                ) as caught:
                    getattr(producer, end)()
                assert isinstance(caught.value.__cause__, DataLossError)
                producer.abort_transaction()
                transact(producer, number)
        assert sorted(account(cluster)) == [1]


def test_a_transaction_reads_as_nothing_until_it_is_committed(
    cluster: LocalCluster, client: Client
) -> None:
    with client.transactions.producer("id") as producer:
        producer.begin_transaction()
        write(producer, 1)
        assert not list(values(client, COMMITTED))
        producer.commit_transaction()
    assert sorted(account(cluster)) == [1]


@pytest.mark.parametrize("cluster", RELEASES[1:], indirect=True)  # 0.11 remembers one batch only
@pytest.mark.parametrize("code", [6, 7, 20])
async def test_after_an_abort_no_record_is_taken_for_a_repetition(
    cluster: LocalCluster, client: Client, code: int
) -> None:
    def row(value: str) -> pa.Table:
        return pa.table({"value": [value], "partition": pa.array([0], pa.int32())})

    writing = AsyncClient(bootstrap_servers=cluster.bootstrap_servers, **PATIENT)
    async with writing, writing.transactions.producer("id") as producer:
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.produce(TOPIC, row("1"))
                cluster.faults.delay("Produce", 300, times=1)  # so that two are in flight
                cluster.faults.fail("Produce", code, times=1, executed=True)
                await asyncio.gather(
                    producer.produce(TOPIC, row("2")), producer.produce(TOPIC, row("3"))
                )
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.produce(TOPIC, row("4"))
    settled(cluster)
    assert list(values(client)) == ["4"]
