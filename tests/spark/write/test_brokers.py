"""The exactly-once sink's driver and tasks against the embedded cluster, without Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.client import Client
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import ConfigError, UnsupportedVersionError

from . import scenes
from .sinks import Sink


@pytest.fixture
def sink(client: Client, topic: Callable[..., str]) -> Sink:
    """A query's sink into a topic of three partitions, on brokers of three releases."""
    name = topic(partitions=3)
    return Sink(client, name, prefix=name)


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.__name__)
def test_c15(scene: Callable[[Sink], None], client: Client, topic: Callable[..., str]) -> None:
    name = topic(scene.__name__, partitions=3)
    scene(Sink(client, name, prefix=name))


def test_s01_a_transaction_that_expired_after_the_intent_fails_loudly() -> None:
    with LocalCluster(brokers=1, releases={1: "3.9"}) as own:  # its clock is moved
        own.create_topic("t", partitions=2, replication_factor=1)
        with Client(bootstrap_servers=own.bootstrap_servers) as client:
            scenes.expired_after_the_intent(
                Sink(client, "t", prefix="q"), lambda: own.advance(60_000)
            )


def test_a_time_out_longer_than_the_broker_allows_is_refused_at_the_start(sink: Sink) -> None:
    sink.timeout_ms = 3_600_000
    with pytest.raises(
        ConfigError, match=r"time-out of 3600000 ms .* set kafka\.transaction\.timeout\.ms"
    ):
        sink.driver().plan()


def test_brokers_without_transactions_are_refused_at_start_with_the_release_that_has_them() -> None:
    with (
        LocalCluster(brokers=1, releases={1: "0.10.2"}) as old,
        Client(bootstrap_servers=old.bootstrap_servers) as client,
        pytest.raises(UnsupportedVersionError, match=r"0\.11") as caught,
    ):
        Sink(client, "t", prefix="q").driver().plan()
    assert caught.value.first_release == "0.11.0"


def test_the_coordinator_has_time_to_hand_each_identity_to_its_replicas(
    sink: Sink, cluster: LocalCluster
) -> None:
    """Real brokers wait as long as the transaction may last, and answer
    COORDINATOR_NOT_AVAILABLE after a short one.
    """
    sink.run(sink.driver(), 0, [["a"], ["b"]])
    asked = [one.message for one in cluster.requests("INIT_PRODUCER_ID")]
    limits = [
        one.transaction_timeout_ms
        for one in asked
        if (one.transactional_id or "").startswith(sink.prefix)
    ]
    # the query's, and for each task its turn and the id that it writes under
    assert len(limits) >= 5
    assert min(limits) >= 10_000


def test_a_broker_that_allows_only_short_transactions_still_fences() -> None:
    settings = ClusterSettings(transaction_max_timeout_ms=2_000)
    with (
        LocalCluster(brokers=1, release="3.9", settings=settings) as short,
        Client(bootstrap_servers=short.bootstrap_servers) as client,
    ):
        assert client.transactions.fence(["a"])["a"].producer_epoch == 0
        (first, second) = short.requests("INIT_PRODUCER_ID")
        assert (first.message.transaction_timeout_ms, second.message.transaction_timeout_ms) == (
            30_000,
            1_000,
        )


def test_the_sink_stays_below_the_second_generation_of_transactions() -> None:
    with LocalCluster(brokers=1, releases={1: "4.3"}) as newest:
        newest.create_topic("t", partitions=2, replication_factor=1)
        with Client(bootstrap_servers=newest.bootstrap_servers) as client:
            sink = Sink(client, "t", prefix="q")
            sink.run(sink.driver(), 0, [["a"], ["b"]])
            assert sink.committed() == ["a", "b"]
        assert {one.version for one in newest.requests("PRODUCE", topic="t")} == {11}
        assert {one.version for one in newest.requests("ADD_PARTITIONS_TO_TXN")} == {3}
        assert {one.version for one in newest.requests("END_TXN")} == {4}


def test_the_coordinators_ids_stay_as_many_as_tasks_over_many_batches(
    sink: Sink, cluster: LocalCluster
) -> None:
    driver = sink.driver()
    for batch in range(30):
        sink.run(driver, batch, [[f"{batch}-{task}"] for task in range(1 + batch % 3)])
    assert len(sink.committed()) == 10 * (1 + 2 + 3)
    assert (
        len([name for name in cluster.transactions() if name.startswith(sink.prefix)]) == 1 + 2 * 3
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_10_000_batches_leave_as_many_ids_as_tasks(sink: Sink, cluster: LocalCluster) -> None:
    driver = sink.driver()
    for batch in range(10_000):
        sink.run(driver, batch, [[f"{batch}-{task}"] for task in range(3)])
        if batch % 500 == 250:
            driver = sink.driver()  # restarted
    assert len(sink.committed()) == 30_000
    assert (
        len([name for name in cluster.transactions() if name.startswith(sink.prefix)]) == 1 + 2 * 3
    )
