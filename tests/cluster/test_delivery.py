"""Writer and reader go on while there is trouble,
and one account shows what became of it (C1 to C12).

Brokers of 4.3, of 2.4, and a cluster of three releases: 0 lost, 0 duplicated, 0 reordered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pyarrow
import pytest

from parley.client import EARLIEST, LATEST, Client, ProduceOptions, TopicPartition
from parley.devcluster import LocalCluster
from parley.devcluster.faults.faults import EVERY_TIME
from parley.errors import RemoteProtocolError
from parley.testing.delivery import Delivery, Load, settle_account

TOPIC, PARTITIONS = "t", 4
MIXED = {1: "2.4", 2: "3.9", 3: "4.3"}
QUICK = {
    "request_timeout_ms": 1_500,
    "socket_connection_setup_timeout_ms": 1_500,
    "metadata_max_age_ms": 60_000,
}


def three_brokers(release: str = "4.3", releases: dict[int, str] | None = None) -> LocalCluster:
    """Return a cluster that is not started yet."""
    return LocalCluster(brokers=3, release=release, releases=releases, seed=1)


def deliver(cluster: LocalCluster, trouble: Callable[[Load], None], **options: object) -> Load:
    """Write and read through the trouble, and require a perfect account and replicas that agree."""
    load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, client_options=dict(options))
    account = load.run(trouble)
    assert account.perfect, str(account)
    assert account.acknowledged == load.sent > 0
    assert not account.unconfirmed, str(account)
    return load


@pytest.fixture(params=["4.3", "2.4", "mixed"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    mixed = request.param == "mixed"
    with three_brokers("4.3" if mixed else request.param, MIXED if mixed else None) as running:
        running.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        yield running


@pytest.fixture
def newest() -> Iterator[LocalCluster]:
    with three_brokers() as running:
        running.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        yield running


def test_the_account_names_each_kind_of_fault() -> None:
    """The checker must be able to fail."""
    assert settle_account(range(4), [[0, 1], [2, 3]]) == Delivery(4, 0, 0, 0, 0)
    assert settle_account(range(4), [[0, 1], [2]]).lost == 1
    assert settle_account(range(4), [[0, 1, 1], [2, 3, 0]]).duplicated == 2
    assert settle_account(range(4), [[1, 0], [2, 3]]).reordered == 1
    assert settle_account(range(2), [[0, 1, 2]]).unconfirmed == 1


def test_c01_leaders_are_killed_and_come_back(cluster: LocalCluster) -> None:
    def trouble(load: Load) -> None:
        for turn in range(5):
            load.go_on()
            leader, _ = cluster.leaders(TOPIC)[turn % PARTITIONS]
            cluster.kill_broker(leader)
            load.go_on()
            cluster.start_broker(leader)

    deliver(cluster, trouble)
    cluster.replicas_agree()


def test_c02_rolling_upgrades_and_a_downgrade() -> None:
    with three_brokers(releases={1: "2.4", 2: "2.8", 3: "3.3"}) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)

        def trouble(load: Load) -> None:
            for broker_id, release in ((1, "3.9"), (2, "4.0"), (3, "4.3"), (1, "4.3"), (2, "2.4")):
                load.go_on()
                cluster.stop_broker(broker_id)
                cluster.start_broker(broker_id, release)
            load.go_on()

        deliver(cluster, trouble)
        versions = cluster.versions_used()
        assert len({v for broker in (1, 2, 3) for v in versions[broker]["writer"]["Produce"]}) > 1


def test_c02_each_broker_restarts_three_times(cluster: LocalCluster) -> None:
    def trouble(load: Load) -> None:
        for broker_id in (1, 2, 3) * 3:
            load.go_on(200)
            cluster.stop_broker(broker_id)
            cluster.start_broker(broker_id)

    deliver(cluster, trouble)


def test_c03_a_broker_that_stands_still_is_found_out_by_the_request_timeout(
    newest: LocalCluster,
) -> None:
    """SIGSTOP: connections stay, nothing is answered. The others elect new leaders meanwhile."""

    def trouble(load: Load) -> None:
        for broker_id in (1, 2):
            load.go_on()
            newest.scenes.freeze(broker_id, noticed=True)
            load.go_on()
            newest.scenes.thaw(broker_id)

    deliver(newest, trouble, **QUICK)


def test_c04_acknowledgements_are_lost(cluster: LocalCluster) -> None:
    def trouble(load: Load) -> None:
        for _ in range(8):
            load.go_on()
            cluster.faults.cut("Produce", executed=True)
            cluster.faults.cut("Fetch", executed=True)

    deliver(cluster, trouble)


def test_c04_an_acknowledgement_is_cut_at_each_byte(newest: LocalCluster) -> None:
    def trouble(load: Load) -> None:
        for kept in range(60):  # an answer for one batch has about so many bytes
            newest.faults.cut("Produce", executed=True, after_bytes=kept)
            load.go_on(200)

    deliver(newest, trouble)


def test_c05_leaders_move_all_the_time(cluster: LocalCluster) -> None:
    rng = random.Random(1)

    def trouble(load: Load) -> None:
        for _ in range(20):
            load.go_on()
            cluster.move_leader(TOPIC, rng.randrange(PARTITIONS), rng.choice((1, 2, 3)))

    assert deliver(cluster, trouble).sent > 1_000


@pytest.mark.parametrize(
    "error",
    [
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR",
        "REQUEST_TIMED_OUT",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ],
)
def test_c06_a_tenth_of_all_requests_fails(newest: LocalCluster, error: str) -> None:
    """After NOT_ENOUGH_REPLICAS_AFTER_APPEND and REQUEST_TIMED_OUT the
    records may be in the log.
    """
    executed = error in ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT")

    def trouble(load: Load) -> None:
        newest.faults.fail("Produce", error, times=EVERY_TIME, probability=0.1, executed=executed)
        newest.faults.fail(
            "Fetch",
            error if "REPLICAS" not in error else "NOT_LEADER_OR_FOLLOWER",
            times=8,
            probability=0.1,
        )
        load.go_on(4_000)
        newest.faults.clear()

    deliver(newest, trouble)


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"])
def test_c08_sequences_begin_again(newest: LocalCluster, error: str) -> None:
    def trouble(load: Load) -> None:
        for _ in range(5):
            load.go_on()
            newest.faults.fail("Produce", error)

    deliver(newest, trouble)


def test_c08_acknowledgements_in_another_order_end_the_call_and_lose_nothing(
    newest: LocalCluster,
) -> None:
    """Kafka answers in order: a broker that does not cannot be believed, and the call says so."""

    def trouble(load: Load) -> None:
        for _ in range(8):
            load.go_on(200)
            newest.faults.reorder("Produce")

    options = ProduceOptions(batch_size=200)  # small, so that several requests wait at one leader
    load = Load(newest.bootstrap_servers, TOPIC, PARTITIONS, options, QUICK, records_per_call=400)
    with pytest.raises(RemoteProtocolError, match="out of order"):
        load.run(trouble)
    newest.faults.clear()
    with Client(bootstrap_servers=newest.bootstrap_servers) as client:
        tps = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        read = [
            [int(value) for batch in client.fetch(tp, EARLIEST, LATEST) for value in values(batch)]
            for tp in tps
        ]
    account = settle_account(range(load.sent), read)
    assert account.perfect, str(account)


def values(batch: pyarrow.RecordBatch) -> list[bytes]:
    return batch.column("value").to_pylist()


def test_c12_a_partition_without_a_leader_fails_no_records(newest: LocalCluster) -> None:
    """Its only replica is away: what is written to it waits, and nothing fails."""

    def trouble(load: Load) -> None:
        load.go_on()
        for broker_id in (2, 3):
            newest.kill_broker(broker_id)
        load.go_on()
        newest.kill_broker(1)
        for broker_id in (1, 2, 3):
            newest.start_broker(broker_id)
        load.go_on()

    deliver(newest, trouble)


@pytest.mark.parametrize("acks", ["1", "0"])
def test_without_idempotence_the_order_still_holds(acks: str) -> None:
    with three_brokers("3.9") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)

        def trouble(load: Load) -> None:
            for index in range(8):
                load.go_on()
                if acks == "1":
                    cluster.move_leader(TOPIC, index % PARTITIONS, index % 3 + 1)

        options = ProduceOptions(acks=acks, batch_size=1_000)
        account = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, options).run(trouble)
        assert account.perfect, str(account)


def test_a_leader_of_an_older_format_takes_over() -> None:
    """The partition moves between a broker of magic 1 and one of magic 2: batches are rewritten."""
    with LocalCluster(brokers=2, releases={1: "0.10.2", 2: "0.11.0.3"}) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)

        def trouble(load: Load) -> None:
            for index in range(12):
                load.go_on()
                cluster.move_leader(TOPIC, index % PARTITIONS, index % 2 + 1)

        account = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS).run(trouble)
        assert not account.lost, str(account)
