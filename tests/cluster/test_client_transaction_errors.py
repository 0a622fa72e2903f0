"""What a transactional producer makes of every error, how it begins and ends, and
which generation it speaks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    AsyncClient,
    Client,
    OffsetAndMetadata,
    TransactionProducer,
)
from parley.client.transactions.state import State
from parley.client.transactions.writer import TransactionWriter
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    LocalProtocolError,
    ProducerFencedError,
    RequestTimedOut,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionError,
    TransactionFatalError,
    UnsupportedVersionError,
)

from .transaction_account import (
    GROUP,
    PARTITIONS,
    PATIENT,
    SMALL,
    TOPIC,
    TP,
    account,
    connect,
    go_through,
    rows,
    transact,
    write,
)

# -- one error code after the other ----------------------------------------------------------------


_RETRIED = [
    (api, code)
    for api in (
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "EndTxn",
    )
    for code in (14, 15, 16, 51)
    if (api, code) not in {("TxnOffsetCommit", 51)}
] + [
    ("FindCoordinator", 15),
    ("AddPartitionsToTxn", 3),
    ("Produce", 6),
    ("Produce", 7),
    ("Produce", 19),
]


@pytest.fixture(scope="module")
def old() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release="3.9") as running:
        running.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
        yield running


@pytest.mark.parametrize(("api", "code"), _RETRIED)
def test_errors_that_pass_are_not_seen(old: LocalCluster, api: str, code: int) -> None:
    with connect(old) as client:
        old.faults.fail(api, code, times=3)
        with client.transactions.producer(f"{api}-{code}") as producer:
            transact(producer, 1)
        assert len(old.requests(api)) >= 4, "the fault was met"
    old.faults.clear()


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
    with connect(old) as client, client.transactions.producer(f"{api}-{code}") as producer:
        transact(producer, 1)
        producer.begin_transaction()
        old.faults.fail(api, code, times=1 if code != 10 else -1)
        with pytest.raises((BrokerError, TransactionAbortableError)) as caught:
            go_through(producer)
        assert caught.value.code == code
        assert code != 30 or getattr(caught.value, "resource", None) == f"group {GROUP}"
        old.faults.clear()
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
def test_errors_after_which_only_a_new_producer_goes_on(
    old: LocalCluster, api: str, code: int
) -> None:
    with connect(old) as client:
        with client.transactions.producer(f"{api}-{code}") as producer:
            producer.begin_transaction()
            old.faults.fail(api, code)
            with pytest.raises(TransactionFatalError) as caught:
                go_through(producer)
            assert isinstance(caught.value, ProducerFencedError) is (code in (47, 90))
            old.faults.clear()
            count = len(old.requests())
            for call in (
                producer.begin_transaction,
                producer.commit_transaction,
                producer.abort_transaction,
            ):
                with pytest.raises(TransactionFatalError):
                    call()
            assert len(old.requests()) == count, "a producer that is done for asks nothing any more"
        with client.transactions.producer(f"{api}-{code}") as successor:
            transact(successor, 3)


@pytest.mark.parametrize("code", [31, 47, 50, 53, 90])
def test_a_coordinator_that_refuses_the_id_is_quoted(old: LocalCluster, code: int) -> None:
    with connect(old) as client:
        old.faults.fail("InitProducerId", code)
        with pytest.raises(BrokerError) as caught:
            client.transactions.producer("refused").start()
        assert (caught.value.code, caught.value.resource) == (code, "transactional id refused")
        with client.transactions.producer("refused") as producer:
            transact(producer, 1)


def test_a_commit_without_an_answer_may_be_asked_again_and_never_aborted(old: LocalCluster) -> None:
    with connect(old, default_api_timeout_ms=1_500, request_timeout_ms=400) as client:
        producer = client.transactions.producer("late").start()
        producer.begin_transaction()
        write(producer, 1)
        old.faults.drop("EndTxn", times=-1, executed=True)
        with pytest.raises(RequestTimedOut):
            producer.commit_transaction()
        old.faults.clear()
        with pytest.raises(LocalProtocolError, match="call commit_transaction again"):
            producer.abort_transaction()
        producer.commit_transaction()
        assert old.transactions()["late"].state.value == "CompleteCommit"


def test_end_transaction_names_each_outcome(old: LocalCluster) -> None:
    with connect(old) as client:
        producer = client.transactions.producer("two", max_generation=1).start()
        producer.begin_transaction()
        write(producer, 1)
        prepared = producer.prepare_transaction()
        with pytest.raises(LocalProtocolError, match="closed"):
            producer.commit_transaction()
        for code in (14, 15, 16, 51):
            old.faults.fail("EndTxn", code, times=2)
        old.faults.cut("EndTxn", executed=True)
        client.transactions.end(prepared, committed=True)
        old.faults.fail("EndTxn", 53)
        with pytest.raises(BrokerError) as refused:
            client.transactions.end(prepared, committed=True)
        assert refused.value.code == 53
        old.faults.fail("EndTxn", 48)
        with pytest.raises(TransactionAbortedError) as caught:
            client.transactions.end(prepared, committed=True)
        found: TransactionError = caught.value
        assert (found.transactional_id, found.producer_id, found.code) == (
            "two",
            prepared.producer_id,
            48,
        )


@pytest.mark.parametrize("release", ["0.9", "0.10", "0.10.2"])
def test_brokers_before_0_11_are_refused_before_a_byte(release: str) -> None:
    with LocalCluster(brokers=1, release=release) as cluster, connect(cluster) as client:
        for call in (
            lambda: client.transactions.producer("id").start(),
            lambda: client.transactions.fence(["id"]),
        ):
            with pytest.raises(
                UnsupportedVersionError, match=r"Kafka 0\.11\.0 is the first release"
            ) as caught:
                call()
            assert (caught.value.feature, caught.value.first_release) == ("exactly-once", "0.11.0")
        asked = {entry.api for entry in cluster.requests()}
        assert asked <= {"ApiVersions", "Metadata", "ListGroups"}, (
            "nothing but what shows a broker's release"
        )


# -- life, and the asynchronous face ---------------------------------------------------------------


async def test_the_asynchronous_face(old: LocalCluster) -> None:
    async with AsyncClient(bootstrap_servers=old.bootstrap_servers, **PATIENT) as client:
        async with client.transactions.producer("async") as producer:
            async with producer.transaction():
                await producer.produce(TOPIC, rows(1))
                await producer.send_offsets_to_transaction(
                    {TP: OffsetAndMetadata(3)}, "async-group"
                )
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.produce(TOPIC, rows(2))
                    raise ZeroDivisionError
            assert producer.state is State.READY
            await producer.begin_transaction()
            writes = [
                asyncio.create_task(producer.produce(TOPIC, rows(3), options=SMALL))
                for _ in range(3)
            ]
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
        await client.transactions.end(handed_over, committed=True)
        found = await client.committed_offsets("async-group", [TP])
        assert found[TP] == OffsetAndMetadata(3)
        listed = {one.transactional_id: one.state for one in await client.transactions.list()}
        assert listed["async"] == "CompleteCommit"
        described = (await client.transactions.describe(["async"]))["async"]
        assert described is not None
        assert (described.producer_id, described.state) == (
            handed_over.producer_id,
            "CompleteCommit",
        )


async def test_a_commit_and_an_abort_at_once_end_the_transaction_once(old: LocalCluster) -> None:
    client = AsyncClient(bootstrap_servers=old.bootstrap_servers, **PATIENT)
    async with client, client.transactions.producer("both") as producer:
        await producer.begin_transaction()
        await producer.produce(TOPIC, rows(1))
        done = await asyncio.gather(
            producer.commit_transaction(), producer.abort_transaction(), return_exceptions=True
        )
        assert done[0] is None
        assert isinstance(done[1], LocalProtocolError)
        assert old.transactions()["both"].state.value == "CompleteCommit"


def test_a_client_that_is_closed_aborts_what_is_open(old: LocalCluster) -> None:
    with connect(old) as client:
        producer = client.transactions.producer("left").start()
        producer.begin_transaction()
        write(producer, 1)
    assert old.transactions()["left"].state.value == "CompleteAbort"
    with pytest.raises(LocalProtocolError, match="closed"):
        producer.commit_transaction()
    producer.close()


def test_an_identity_is_taken_over_from_another_process(old: LocalCluster) -> None:
    with connect(old) as client:
        given = client.transactions.fence(["resumed"], transaction_timeout_ms=60_000)["resumed"]
        producer = client.transactions.producer("resumed").resume(
            given.producer_id, given.producer_epoch
        )
        transact(producer, 1)
        assert (producer.producer_id, producer.producer_epoch) == (
            given.producer_id,
            given.producer_epoch,
        )
        with pytest.raises(LocalProtocolError):
            producer.resume(given.producer_id, given.producer_epoch)
        late = client.transactions.producer("resumed").resume(
            given.producer_id, given.producer_epoch
        )
        client.transactions.fence(["resumed"])
        late.begin_transaction()
        with pytest.raises(ProducerFencedError):
            write(late, 2)


# -- coordinators ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "requests"), [("2.4", 6), ("3.9", 1)])
def test_coordinators_are_looked_up_together_where_a_broker_can(
    release: str, requests: int
) -> None:
    with LocalCluster(brokers=3, release=release) as cluster, connect(cluster) as client:
        names = [f"id-{number}" for number in range(6)]
        fenced = client.transactions.fence(names)
        assert [found.transactional_id for found in fenced.values()] == names
        assert len({found.producer_id for found in fenced.values()}) == 6
        assert len(cluster.requests("FindCoordinator")) == requests
        again = client.transactions.fence(names)
        assert all(again[name].producer_epoch == fenced[name].producer_epoch + 1 for name in names)
        assert len(cluster.requests("FindCoordinator")) == requests, "they are remembered"


def test_a_cluster_in_the_middle_of_its_upgrade_to_0_11_is_asked_where_it_can() -> None:
    with LocalCluster(brokers=3, releases={1: "0.10.2", 2: "0.10.2", 3: "0.11"}) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        cluster.move_leader(TOPIC, 0, 3)
        with Client(bootstrap_servers=cluster.bootstrap_servers, **PATIENT) as client:
            cluster.move_coordinator("id", 3)
            with client.transactions.producer("id") as producer, producer.transaction():
                producer.produce(TOPIC, pa.table({"value": ["a"]}))
            cluster.move_leader(TOPIC, 0, 1)
            client.metadata([TOPIC])
            with client.transactions.producer("id") as producer:
                producer.begin_transaction()
                with pytest.raises(UnsupportedVersionError, match=r"0\.11"):
                    producer.produce(TOPIC, pa.table({"value": ["b"]}))
                producer.abort_transaction()


def test_generations_change_with_the_brokers_from_one_transaction_to_the_next() -> None:
    """A leader that is older than what is finalized gets the first generation,
    whoever found out when.
    """
    with LocalCluster(brokers=2, release="4.3") as cluster, connect(cluster) as client:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
        with client.transactions.producer("id") as producer:
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


def test_ctrl_c_at_the_beginning_of_a_write_leaves_nothing_that_an_abort_waits_for(
    old: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TransactionProducer._run

    def interrupted(self: TransactionProducer, work: Any) -> Any:
        found = run(self, work)
        if isinstance(found, TransactionWriter):
            monkeypatch.undo()
            raise KeyboardInterrupt
        return found

    with connect(old) as client, client.transactions.producer("interrupted") as producer:
        monkeypatch.setattr(TransactionProducer, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            transact(producer, 1)
        assert producer.state is State.READY
        transact(producer, 3)
