"""Transactions over sockets: coordinators that move and die, expiry by the clock,
restarts, old and new readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.messages import request_class
from parley.net import ConnectOptions, ManualClock, open_connection
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

TOPIC = "events"
NAME = "pay"
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Batch = Callable[..., bytes]
InitProducerId: Any = request_class(ApiKey.INIT_PRODUCER_ID)
AddPartitions: Any = request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
EndTxn: Any = request_class(ApiKey.END_TXN)
FindCoordinator: Any = request_class(ApiKey.FIND_COORDINATOR)
ListTransactions: Any = request_class(ApiKey.LIST_TRANSACTIONS)
DescribeTransactions: Any = request_class(ApiKey.DESCRIBE_TRANSACTIONS)
NOT_COORDINATOR, CONCURRENT, FENCED, UNKNOWN_MAPPING = 16, 51, 90, 49


def begun(who: Any, name: str = NAME) -> Any:
    topic = AddPartitions.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    return AddPartitions(
        v3_and_below_transactional_id=name, v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.producer_epoch, v3_and_below_topics=[topic],
    )  # fmt: skip


def ended(who: Any, *, commit: bool = True, name: str = NAME) -> Any:
    return EndTxn(
        transactional_id=name,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        committed=commit,
    )


class Coordinator:
    """A connection to the coordinator of one transactional id."""

    def __init__(self, cluster: LocalCluster, name: str = NAME) -> None:
        self.cluster, self.name = cluster, name

    @property
    def broker(self) -> int:
        with Wire(self.cluster.bootstrap_servers.split(",")[0]) as wire:
            return int(wire.ask(FindCoordinator(key=self.name, key_type=1), 2).node_id)

    def ask(self, message: Any, version: int, broker: int | None = None) -> Any:
        with Wire(self.cluster.broker(broker or self.broker).address) as wire:
            return wire.ask(message, version)

    def init(self, timeout_ms: int = 60_000) -> Any:
        return self.ask(
            InitProducerId(transactional_id=self.name, transaction_timeout_ms=timeout_ms), 4
        )

    def begin(self, who: Any) -> int:
        answer = self.ask(begun(who, self.name), 3)
        return int(
            answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        )

    def end(self, who: Any, *, commit: bool = True) -> int:
        return int(self.ask(ended(who, commit=commit, name=self.name), 3).error_code)


def write(talk: Talk, batch: Batch, who: Any, sequence: int = 0, name: str = NAME) -> int:
    data = batch(1, producer_id=who.producer_id, producer_epoch=who.producer_epoch,
                 base_sequence=sequence,
                 transactional=True)  # fmt: skip
    request = talk.produce_request(data, version=8)
    request.transactional_id = name
    return int(talk.wire.ask(request, 8).responses[0].partition_responses[0].error_code)


def committed(talk: Talk) -> tuple[int, list[int]]:
    """Return the last stable offset, and where the aborted transactions begin that
    a reader must leave out.
    """
    found = talk.fetch(0, isolation_level=1)
    return found.last_stable_offset, [one.first_offset for one in found.aborted_transactions]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release="3.9") as made:
        made.create_topic(TOPIC, 1)
        if made.leaders(TOPIC)[0][0] != 1:
            made.move_leader(TOPIC, 0, 1)
        yield made


@pytest.fixture
def coordinator(cluster: LocalCluster) -> Coordinator:
    return Coordinator(cluster)


def test_only_the_coordinator_answers_and_it_can_be_moved(
    cluster: LocalCluster, coordinator: Coordinator
) -> None:
    first = coordinator.broker
    who = coordinator.init()
    for other in {1, 2, 3} - {first}:
        asked = InitProducerId(transactional_id=NAME, transaction_timeout_ms=60_000)
        assert coordinator.ask(asked, 4, other).error_code == NOT_COORDINATOR
        assert coordinator.ask(ended(who), 3, other).error_code == NOT_COORDINATOR
        states = coordinator.ask(
            DescribeTransactions(transactional_ids=[NAME]), 0, other
        ).transaction_states
        assert [state.error_code for state in states] == [NOT_COORDINATOR]
        listed = coordinator.ask(
            ListTransactions(state_filters=[], producer_id_filters=[]), 1, other
        )
        assert listed.transaction_states == []
    assert coordinator.begin(who) == 0
    second = first % 3 + 1
    cluster.move_coordinator(NAME, second)
    assert coordinator.broker == second
    assert coordinator.ask(ended(who), 3, first).error_code == NOT_COORDINATOR
    assert coordinator.end(who) == 0
    assert cluster.transactions()[NAME].state.value == "CompleteCommit"


def test_a_coordinator_that_dies_loses_nothing(
    cluster: LocalCluster, coordinator: Coordinator, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    who = coordinator.init()
    assert coordinator.begin(who) == 0
    assert write(talk_to(cluster, 1), batch, who) == 0
    cluster.kill_broker(coordinator.broker)
    leader = talk_to(cluster, cluster.leaders(TOPIC)[0][0])
    assert committed(leader) == (0, [])
    assert coordinator.end(who, commit=False) == 0
    assert coordinator.end(who, commit=False) == 0
    assert committed(leader) == (2, [0])


def test_a_partition_without_leader_gets_its_marker_with_the_next_one(
    cluster: LocalCluster, coordinator: Coordinator, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    cluster.delete_topic(TOPIC)
    cluster.create_topic(TOPIC, 1, replication_factor=1)
    leader = cluster.leaders(TOPIC)[0][0]
    cluster.move_coordinator(NAME, leader % 3 + 1)
    who = coordinator.init()
    assert coordinator.begin(who) == 0
    assert write(talk_to(cluster, leader), batch, who) == 0
    cluster.kill_broker(leader)
    assert coordinator.end(who) == 0
    assert coordinator.end(who) == CONCURRENT
    assert cluster.transactions()[NAME].state.value == "PrepareCommit"
    cluster.start_broker(leader)
    assert committed(talk_to(cluster, leader)) == (2, [])
    assert coordinator.end(who) == 0


def test_a_transaction_outlives_a_restart_of_the_cluster(
    tmp_path: Path, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    with LocalCluster(brokers=2, release="3.9", data_dir=tmp_path) as cluster:
        cluster.create_topic(TOPIC, 1)
        leader = cluster.leaders(TOPIC)[0][0]
        coordinator = Coordinator(cluster)
        who = coordinator.init()
        assert coordinator.begin(who) == 0
        assert write(talk_to(cluster, leader), batch, who) == 0
    with LocalCluster(brokers=2, release="3.9", data_dir=tmp_path) as cluster:
        leader = cluster.leaders(TOPIC)[0][0]
        talk, coordinator = talk_to(cluster, leader), Coordinator(cluster)
        assert committed(talk) == (0, [])
        assert write(talk, batch, who, 1) == 0
        assert coordinator.end(who) == 0
        assert committed(talk) == (3, [])
        assert write(talk, batch, who, 2) == 48, (
            "the transaction is over, and the partition not part of the next"
        )


async def test_a_transaction_expires_by_the_clock_that_is_given(batch: Batch) -> None:
    clock = ManualClock()
    settings = ClusterSettings(start_time_ms=1_700_000_000_000, connections_max_idle_ms=0)
    async with AsyncLocalCluster(
        brokers=1, release="3.9", clock=clock, settings=settings
    ) as cluster:
        cluster.create_topic(TOPIC)
        options = ConnectOptions(bootstrap_servers=cluster.bootstrap_servers)
        connection = await open_connection(cluster.broker(1).address, options)
        asked = InitProducerId(transactional_id=NAME, transaction_timeout_ms=5_000)
        who = (await connection.request(asked)).message
        await connection.request(begun(who), version=3)
        assert cluster.transactions()[NAME].state.value == "Ongoing"
        await clock.advance(5_000)
        assert cluster.transactions()[NAME].state.value == "Ongoing"
        await clock.advance(1)
        held = cluster.transactions()[NAME]
        assert (held.state.value, held.epoch) == ("CompleteAbort", who.producer_epoch + 1)
        assert (await connection.request(ended(who))).message.error_code == FENCED
        await connection.close()
        await clock.advance(settings.transactional_id_expiration_ms + 1)
        assert cluster.transactions() == {}
        connection = await open_connection(cluster.broker(1).address, options)
        assert (await connection.request(ended(who))).message.error_code == UNKNOWN_MAPPING
        await connection.close()


def test_the_longest_time_is_a_setting(talk_to: Callable[..., Talk]) -> None:
    settings = ClusterSettings(transaction_max_timeout_ms=1_000)
    with LocalCluster(brokers=1, release="3.9", settings=settings) as cluster:
        coordinator = Coordinator(cluster)
        assert coordinator.init(1_001).error_code == 50
        assert coordinator.init(1_000).error_code == 0


def test_a_waiting_reader_is_woken_by_the_marker(
    cluster: LocalCluster, coordinator: Coordinator, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    who = coordinator.init()
    assert coordinator.begin(who) == 0
    writer, reader = talk_to(cluster, 1), talk_to(cluster, 1)
    assert write(writer, batch, who) == 0
    asked = reader.fetch_request(0, version=11, isolation_level=1, max_wait_ms=60_000)
    reader.wire.send(asked, 11)
    assert coordinator.end(who) == 0
    found = reader.wire.receive(asked, 11).responses[0].partitions[0]
    assert (found.last_stable_offset, bool(found.records)) == (2, True)


def test_old_readers_see_no_markers(
    cluster: LocalCluster, coordinator: Coordinator, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    """Fetch v2 knows neither transactions nor markers: it is given the records
    alone, committed or not.
    """
    who = coordinator.init()
    assert coordinator.begin(who) == 0
    talk = talk_to(cluster, 1)
    assert write(talk, batch, who) == 0
    assert coordinator.end(who, commit=False) == 0
    records = bytes(talk.fetch(0, version=2).records)
    assert len(records) > 0
    assert records[16] == 1, "magic 1"
    assert (
        talk.fetch(1, version=2).records in (b"", None)
        or bytes(talk.fetch(1, version=2).records) == b""
    )


def test_a_broker_before_0_11_knows_no_transactions() -> None:
    with (
        LocalCluster(brokers=1, release="0.10.2") as cluster,
        Wire(cluster.bootstrap_servers) as wire,
    ):
        wire.send(InitProducerId(transactional_id=NAME, transaction_timeout_ms=1_000), 0)
        assert wire.receive_frame() == b"", "closed, as real ones do"


def test_a_leader_that_is_cut_off_begins_no_transaction(
    cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    """It cannot ask the coordinator, and says what makes a producer try again."""
    cluster.move_coordinator(NAME, 2)
    coordinator = Coordinator(cluster)
    who = coordinator.init()
    assert coordinator.begin(who) == 0
    talk = talk_to(cluster, 1)
    cluster.scenes.isolate(1)
    assert write(talk, batch, who) == 19
    cluster.scenes.heal()
    new = talk_to(cluster, cluster.leaders(TOPIC)[0][0])
    assert write(new, batch, who) == 0
    assert coordinator.ask(ended(who), 3, 2).error_code == 0
    assert committed(new) == (2, [])


def test_an_error_can_be_injected_where_a_busy_broker_would_say_it(
    cluster: LocalCluster, coordinator: Coordinator
) -> None:
    who = coordinator.init()
    assert coordinator.begin(who) == 0
    cluster.faults.fail("EndTxn", "CONCURRENT_TRANSACTIONS", times=2)
    assert [coordinator.end(who) for _ in range(3)] == [CONCURRENT, CONCURRENT, 0]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("pay", {"pay"}),
        ("p.*", {"pay", "play"}),
        ("[", 128),
        ("(?=p)", 128),
        ("x", set()),
        ("(p|pl|la)?(a|aa)?(a|ay)?" * 6 + "y?", {"pay", "play"}),
        (".*.*.*.*.*.*.*.*x", set()),
    ],
)
def test_transactions_are_listed_by_pattern(pattern: str, expected: Any) -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        for name in ("pay", "play"):
            Coordinator(cluster, name).init()
        asked = ListTransactions(
            state_filters=["Empty", "Odd"], producer_id_filters=[], transactional_id_pattern=pattern
        )
        found = Coordinator(cluster).ask(asked, 2, 1)
        if isinstance(expected, int):
            assert found.error_code == expected
        else:
            assert {state.transactional_id for state in found.transaction_states} == expected
            assert found.unknown_state_filters == ["Odd"]
