"""C15: transactions while answers are lost, brokers die and coordinators move: each is seen whole, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AsyncClient,
    BlockingClient,
    BlockingTransactionProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from parley.client.transaction_state import State
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    DataLossError,
    KafkaError,
    LocalProtocolError,
    ProducerFencedError,
    RequestTimedOut,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionError,
    TransactionFatalError,
    UnsupportedVersionError,
)

from .transaction_account import COMMITTED, PARTITIONS, PATIENT, SMALL, TOPIC, account, coordinator, rows, values, write

RELEASES = ("0.11", "2.4", "3.9", "4.3")
STEPS = (
    "FindCoordinator",
    "InitProducerId",
    "AddPartitionsToTxn",
    "Produce",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
)
CHAOS = (("2.4", "3.9", "4.3"), ("4.3",) * 3, ("3.9",) * 3, ("0.11", "1.1", "2.4"))
GROUP, TP = "g", TopicPartition(TOPIC, 0)


@pytest.fixture(params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release=request.param) as running:
        running.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[BlockingClient]:
    with connect(cluster) as made:
        yield made


def connect(cluster: LocalCluster, **options: Any) -> BlockingClient:
    return BlockingClient(bootstrap_servers=cluster.bootstrap_servers, **{**PATIENT, **options})


def transact(producer: BlockingTransactionProducer, number: int) -> None:
    """Write one transaction with its offsets."""
    with producer.transaction():
        write(producer, number)
        producer.send_offsets_to_transaction({TP: OffsetAndMetadata(number)}, GROUP)


def go_through(producer: BlockingTransactionProducer) -> None:
    """Go on with an open transaction to its end: every request is sent, unless one before it fails."""
    write(producer, 2)
    producer.send_offsets_to_transaction({TP: OffsetAndMetadata(2)}, GROUP)
    producer.commit_transaction()


@pytest.mark.parametrize("executed", [False, True], ids=["request lost", "answer lost"])
def test_c15_a_lost_connection_at_any_step_costs_nothing(
    cluster: LocalCluster, client: BlockingClient, executed: bool
) -> None:
    expected = []
    for number, step in enumerate(STEPS):
        with client.transaction_producer(f"id-{number}") as first:
            transact(first, 10 * number)
        cluster.cut(step, executed=executed)
        with client.transaction_producer(f"id-{number}") as producer:
            transact(producer, 10 * number + 1)
            transact(producer, 10 * number + 2)
        cluster.clear_faults()
        expected += [10 * number, 10 * number + 1, 10 * number + 2]
    assert sorted(account(cluster)) == expected
    assert client.committed_offsets(GROUP, [TP])[TP] == OffsetAndMetadata(62)


@pytest.mark.parametrize("whom", ["coordinator", "leader", "other"])
def test_c15_a_broker_dies_at_any_step(cluster: LocalCluster, client: BlockingClient, whom: str) -> None:
    def die() -> int:
        victims = {"coordinator": coordinator(client, "id"), "leader": cluster.leaders(TOPIC)[0][0]}
        victim = victims.get(whom) or next(b.id for b in cluster.brokers if b.id not in victims.values())
        cluster.kill_broker(victim)
        return victim

    done = 0
    for at in range(5):
        with client.transaction_producer("id") as producer:
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


def test_c15_the_coordinator_moves_between_any_two_steps(cluster: LocalCluster, client: BlockingClient) -> None:
    def move() -> None:
        cluster.move_coordinator("id", coordinator(client, "id") % 3 + 1)

    for at in range(4):
        with client.transaction_producer("id") as producer:
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


def test_c15_a_producer_that_dies_leaves_nothing_to_its_successor(
    cluster: LocalCluster, client: BlockingClient
) -> None:
    for number in range(3):
        dead = connect(cluster).transaction_producer("id").start()
        dead.begin_transaction()
        write(dead, 100 + number)  # and nothing is heard of it any more
        with client.transaction_producer("id") as producer:
            transact(producer, number)
            with pytest.raises(ProducerFencedError):
                dead.commit_transaction()
    assert sorted(account(cluster)) == [0, 1, 2]
    assert not list(cluster.transactions()["id"].partitions)


def test_c15_zombies_are_fenced_at_every_step(cluster: LocalCluster, client: BlockingClient) -> None:
    def zombie(written: bool) -> BlockingTransactionProducer:
        made = client.transaction_producer("id").start()
        made.begin_transaction()
        if written:
            write(made, 66)
        client.fence(["id"])
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
            client.end_transaction(made.prepare_transaction(), committed=True) if end is None else getattr(made, end)()
    assert not account(cluster)


@pytest.mark.parametrize("seed", range(4))
def test_c15_chaos(seed: int) -> None:
    """Any step may be cut, any broker die, any coordinator move; whoever cannot go on is replaced by a successor."""
    dice = random.Random(seed)
    releases = dict(zip((1, 2, 3), CHAOS[seed % len(CHAOS)], strict=True))
    committed, unknown, dead = set(), set(), 0
    with LocalCluster(brokers=3, releases=releases, seed=seed) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        with connect(cluster, request_timeout_ms=5_000) as client:
            producer = client.transaction_producer("id").start()
            for number in range(40):
                trouble = dice.randrange(4)
                if trouble == 0:
                    cluster.cut(dice.choice(STEPS), executed=dice.random() < 0.5, times=dice.choice((1, 2)))
                elif trouble == 1:
                    cluster.move_coordinator("id", dice.choice([node for node in (1, 2, 3) if node != dead]))
                elif trouble == 2 and not dead:
                    dead = dice.choice((1, 2, 3))
                    cluster.kill_broker(dead)
                elif dead:
                    cluster.start_broker(dead)
                    dead = 0
                aborting = dice.random() < 0.2
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
                    cluster.clear_faults()
                    producer = client.transaction_producer("id").start()
            producer.close()
        if dead:
            cluster.start_broker(dead)
        seen = set(account(cluster))
    assert committed <= seen <= committed | unknown
    assert len(committed) > 10


# -- one error code after the other ----------------------------------------------------------------


_RETRIED = [
    (api, code)
    for api in ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
    for code in (14, 15, 16, 51)
    if (api, code) not in {("TxnOffsetCommit", 51)}
] + [("FindCoordinator", 15), ("AddPartitionsToTxn", 3), ("Produce", 6), ("Produce", 7), ("Produce", 19)]


@pytest.fixture(scope="module")
def old() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release="3.9") as running:
        running.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
        yield running


@pytest.mark.parametrize(("api", "code"), _RETRIED)
def test_errors_that_pass_are_not_seen(old: LocalCluster, api: str, code: int) -> None:
    with connect(old) as client:
        old.fail(api, code, times=3)
        with client.transaction_producer(f"{api}-{code}") as producer:
            transact(producer, 1)
        assert len(old.requests(api)) >= 4, "the fault was met"
    old.clear_faults()


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("AddPartitionsToTxn", 29),
        ("AddPartitionsToTxn", 49),
        ("AddPartitionsToTxn", 59),
        ("AddPartitionsToTxn", 120),
        ("Produce", 10),
        ("Produce", 29),
        ("Produce", 45),
        ("Produce", 47),
        ("Produce", 120),
        ("AddOffsetsToTxn", 30),
        ("TxnOffsetCommit", 22),
        ("TxnOffsetCommit", 30),
        ("EndTxn", 120),
    ],
)
def test_errors_after_which_the_transaction_is_aborted_and_the_producer_works_again(
    old: LocalCluster, api: str, code: int
) -> None:
    with connect(old) as client, client.transaction_producer(f"{api}-{code}") as producer:
        transact(producer, 1)
        producer.begin_transaction()
        old.fail(api, code, times=1 if code != 10 else -1)
        with pytest.raises((BrokerError, TransactionAbortableError)) as caught:
            go_through(producer)
        assert caught.value.code == code
        old.clear_faults()
        assert producer.state is State.ABORTABLE_ERROR
        with pytest.raises(TransactionAbortableError, match="call abort_transaction"):
            producer.commit_transaction()
        producer.abort_transaction()
        before = len(old.requests("EndTxn"))
        transact(producer, 3)
        assert len(old.requests("EndTxn")) == before + 1
        assert producer.state is State.READY


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("AddPartitionsToTxn", 47),
        ("AddPartitionsToTxn", 48),
        ("AddPartitionsToTxn", 53),
        ("AddPartitionsToTxn", 90),
        ("Produce", 90),
        ("Produce", 53),
        ("AddOffsetsToTxn", 90),
        ("TxnOffsetCommit", 90),
        ("EndTxn", 47),
        ("EndTxn", 48),
        ("EndTxn", 90),
    ],
)
def test_errors_after_which_only_a_new_producer_goes_on(old: LocalCluster, api: str, code: int) -> None:
    with connect(old) as client:
        with client.transaction_producer(f"{api}-{code}") as producer:
            producer.begin_transaction()
            old.fail(api, code)
            with pytest.raises(TransactionFatalError) as caught:
                go_through(producer)
            assert isinstance(caught.value, ProducerFencedError) is (code in (47, 90))
            old.clear_faults()
            count = len(old.requests())
            for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(TransactionFatalError):
                    call()
            assert len(old.requests()) == count, "a producer that is done for asks nothing any more"
        with client.transaction_producer(f"{api}-{code}") as successor:
            transact(successor, 3)


@pytest.mark.parametrize("code", [31, 47, 50, 53, 90])
def test_a_coordinator_that_refuses_the_id_is_quoted(old: LocalCluster, code: int) -> None:
    with connect(old) as client:
        old.fail("InitProducerId", code)
        with pytest.raises(BrokerError) as caught:
            client.transaction_producer("refused").start()
        assert caught.value.code == code
        with client.transaction_producer("refused") as producer:
            transact(producer, 1)


def test_a_commit_without_an_answer_may_be_asked_again_and_never_aborted(old: LocalCluster) -> None:
    with connect(old, default_api_timeout_ms=1_500, request_timeout_ms=400) as client:
        producer = client.transaction_producer("late").start()
        producer.begin_transaction()
        write(producer, 1)
        old.drop("EndTxn", times=-1, executed=True)
        with pytest.raises(RequestTimedOut):
            producer.commit_transaction()
        old.clear_faults()
        with pytest.raises(LocalProtocolError, match="call commit_transaction again"):
            producer.abort_transaction()
        producer.commit_transaction()
        assert old.transactions()["late"].state.value == "CompleteCommit"


def test_end_transaction_names_each_outcome(old: LocalCluster) -> None:
    with connect(old) as client:
        producer = client.transaction_producer("two", max_generation=1).start()
        producer.begin_transaction()
        write(producer, 1)
        prepared = producer.prepare_transaction()
        with pytest.raises(LocalProtocolError, match="closed"):
            producer.commit_transaction()
        for code in (14, 15, 16, 51):
            old.fail("EndTxn", code, times=2)
        old.cut("EndTxn", executed=True)
        client.end_transaction(prepared, committed=True)
        old.fail("EndTxn", 53)
        with pytest.raises(BrokerError) as refused:
            client.end_transaction(prepared, committed=True)
        assert refused.value.code == 53
        old.fail("EndTxn", 48)
        with pytest.raises(TransactionAbortedError) as caught:
            client.end_transaction(prepared, committed=True)
        found: TransactionError = caught.value
        assert (found.transactional_id, found.producer_id, found.code) == ("two", prepared.producer_id, 48)


# -- topics that are not what they were ------------------------------------------------------------


def test_a_topic_created_anew_in_a_transaction_fails_loudly_and_then_works_again(
    cluster: LocalCluster, client: BlockingClient
) -> None:
    """Contract (f): what the transaction had written is gone, so it must not be committed as if it were not."""
    release = cluster.brokers[0].release
    with client.transaction_producer("id") as producer:
        transact(producer, 1)
        producer.begin_transaction()
        write(producer, 3)
        cluster.recreate_topic(TOPIC)
        client.metadata([TOPIC])
        with pytest.raises(KafkaError) as caught:
            go_through(producer)
        if release.startswith("0.11"):  # its broker only says that a sequence is missing
            assert isinstance(caught.value, TransactionFatalError)
        else:
            errors = (caught.value, caught.value.__cause__)
            told_by_sequence = release.startswith("2.4")  # no topic ids: the leader knows nothing of the producer
            assert told_by_sequence or any(isinstance(error, DataLossError) for error in errors)
            assert producer.state is State.ABORTABLE_ERROR
            producer.abort_transaction()
            transact(producer, 4)
    with client.transaction_producer("id") as successor:
        transact(successor, 5)
    assert sorted(account(cluster)) == ([5] if release.startswith("0.11") else [4, 5])


@pytest.mark.parametrize("release", ["3.9", "4.3"])  # without topic ids nobody could tell
def test_a_topic_created_anew_is_noticed_at_the_end_of_the_transaction_too(release: str) -> None:
    with LocalCluster(brokers=2, release=release) as cluster, connect(cluster) as client:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        for number, end in enumerate(("commit_transaction", "prepare_transaction")):
            with client.transaction_producer("id") as producer:
                producer.begin_transaction()
                write(producer, 10)
                cluster.recreate_topic(TOPIC)
                with pytest.raises(TransactionAbortableError, match="was deleted, and maybe created again") as caught:
                    getattr(producer, end)()
                assert isinstance(caught.value.__cause__, DataLossError)
                producer.abort_transaction()
                transact(producer, number)
        assert sorted(account(cluster)) == [1]


def test_a_transaction_reads_as_nothing_until_it_is_committed(cluster: LocalCluster, client: BlockingClient) -> None:
    with client.transaction_producer("id") as producer:
        producer.begin_transaction()
        write(producer, 1)
        assert not list(values(client, COMMITTED))
        producer.commit_transaction()
    assert sorted(account(cluster)) == [1]


@pytest.mark.parametrize("release", ["0.9", "0.10", "0.10.2"])
def test_brokers_before_0_11_are_refused_before_a_byte(release: str) -> None:
    with LocalCluster(brokers=1, release=release) as cluster, connect(cluster) as client:
        for call in (
            lambda: client.transaction_producer("id").start(),
            lambda: client.fence(["id"]),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"Kafka 0\.11\.0 is the first release") as caught:
                call()
            assert (caught.value.feature, caught.value.first_release) == ("exactly-once", "0.11.0")
        asked = {entry.api for entry in cluster.requests()}
        assert asked <= {"ApiVersions", "Metadata", "ListGroups"}, "nothing but what tells a broker's release"


# -- life, and the asynchronous face ---------------------------------------------------------------


async def test_the_asynchronous_face(old: LocalCluster) -> None:
    async with AsyncClient(bootstrap_servers=old.bootstrap_servers, **PATIENT) as client:
        async with client.transaction_producer("async") as producer:
            async with producer.transaction():
                await producer.produce(TOPIC, rows(1))
                await producer.send_offsets_to_transaction({TP: OffsetAndMetadata(3)}, "async-group")
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.produce(TOPIC, rows(2))
                    raise ZeroDivisionError
            assert producer.state is State.READY
            await producer.begin_transaction()
            writes = [asyncio.create_task(producer.produce(TOPIC, rows(3), options=SMALL)) for _ in range(3)]
            await asyncio.sleep(0)  # they have begun
            await asyncio.gather(producer.commit_transaction(), *writes)
            assert old.transactions()["async"].state.value == "CompleteCommit"
            await producer.begin_transaction()
            writing = asyncio.create_task(producer.produce(TOPIC, rows(4), options=SMALL))
            await asyncio.sleep(0)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            with pytest.raises(TransactionAbortableError, match="given up"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            prepared = producer.prepare_transaction
            await producer.begin_transaction()
            await producer.produce(TOPIC, rows(5))
            handed_over = await prepared()
        await client.end_transaction(handed_over, committed=True)
        found = await client.committed_offsets("async-group", [TP])
        assert found[TP] == OffsetAndMetadata(3)
        listed = {one.transactional_id: one.state for one in await client.list_transactions()}
        assert listed["async"] == "CompleteCommit"
        described = (await client.describe_transactions(["async"]))["async"]
        assert described is not None
        assert (described.producer_id, described.state) == (handed_over.producer_id, "CompleteCommit")


async def test_a_commit_and_an_abort_at_once_end_the_transaction_once(old: LocalCluster) -> None:
    client = AsyncClient(bootstrap_servers=old.bootstrap_servers, **PATIENT)
    async with client, client.transaction_producer("both") as producer:
        await producer.begin_transaction()
        await producer.produce(TOPIC, rows(1))
        done = await asyncio.gather(producer.commit_transaction(), producer.abort_transaction(), return_exceptions=True)
        assert done[0] is None
        assert isinstance(done[1], LocalProtocolError)
        assert old.transactions()["both"].state.value == "CompleteCommit"


def test_a_client_that_is_closed_aborts_what_is_open(old: LocalCluster) -> None:
    with connect(old) as client:
        producer = client.transaction_producer("left").start()
        producer.begin_transaction()
        write(producer, 1)
    assert old.transactions()["left"].state.value == "CompleteAbort"
    with pytest.raises(LocalProtocolError, match="closed"):
        producer.commit_transaction()
    producer.close()


def test_an_identity_is_taken_over_from_another_process(old: LocalCluster) -> None:
    with connect(old) as client:
        given = client.fence(["resumed"], transaction_timeout_ms=60_000)["resumed"]
        producer = client.transaction_producer("resumed").resume(given.producer_id, given.producer_epoch)
        transact(producer, 1)
        assert (producer.producer_id, producer.producer_epoch) == (given.producer_id, given.producer_epoch)
        with pytest.raises(LocalProtocolError):
            producer.resume(given.producer_id, given.producer_epoch)
        late = client.transaction_producer("resumed").resume(given.producer_id, given.producer_epoch)
        client.fence(["resumed"])
        late.begin_transaction()
        with pytest.raises(ProducerFencedError):
            write(late, 2)


# -- coordinators ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "requests"), [("2.4", 6), ("3.9", 1)])
def test_coordinators_are_looked_up_together_where_a_broker_can(release: str, requests: int) -> None:
    with LocalCluster(brokers=3, release=release) as cluster, connect(cluster) as client:
        names = [f"id-{number}" for number in range(6)]
        fenced = client.fence(names)
        assert [found.transactional_id for found in fenced.values()] == names
        assert len({found.producer_id for found in fenced.values()}) == 6
        assert len(cluster.requests("FindCoordinator")) == requests
        again = client.fence(names)
        assert all(again[name].producer_epoch == fenced[name].producer_epoch + 1 for name in names)
        assert len(cluster.requests("FindCoordinator")) == requests, "they are remembered"


def test_a_cluster_in_the_middle_of_its_upgrade_to_0_11_is_asked_where_it_can() -> None:
    with LocalCluster(brokers=3, releases={1: "0.10.2", 2: "0.10.2", 3: "0.11"}) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        cluster.move_leader(TOPIC, 0, 3)
        with BlockingClient(bootstrap_servers=cluster.bootstrap_servers, **PATIENT) as client:
            cluster.move_coordinator("id", 3)
            with client.transaction_producer("id") as producer, producer.transaction():
                producer.produce(TOPIC, pa.table({"value": ["a"]}))
            cluster.move_leader(TOPIC, 0, 1)
            client.metadata([TOPIC])
            with client.transaction_producer("id") as producer:
                producer.begin_transaction()
                with pytest.raises(UnsupportedVersionError, match=r"0\.11"):
                    producer.produce(TOPIC, pa.table({"value": ["b"]}))
                producer.abort_transaction()


def test_generations_change_with_the_brokers_from_one_transaction_to_the_next() -> None:
    """A leader that is older than what is finalized gets the first generation, whoever found out when."""
    with LocalCluster(brokers=2, release="4.3") as cluster, connect(cluster) as client:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
        with client.transaction_producer("id") as producer:
            cluster.move_coordinator("id", 1)
            transact(producer, 0)
            assert producer.generation == 2
            for number, release in enumerate(("3.9", "4.3", "2.4", "4.3"), start=1):
                cluster.stop_broker(2)
                cluster.start_broker(2, release)
                for partition in range(PARTITIONS):
                    cluster.move_leader(TOPIC, partition, 2)
                client.metadata([TOPIC])
                transact(producer, number)
                assert producer.generation == (2 if release == "4.3" else 1)
        assert sorted(account(cluster)) == [0, 1, 2, 3, 4]
