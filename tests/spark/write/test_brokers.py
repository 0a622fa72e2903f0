"""The exactly-once sink's driver and tasks against the embedded cluster, without Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.client import BlockingClient
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, UnsupportedVersionError

from . import scenes
from .sinks import Sink


@pytest.fixture
def sink(client: BlockingClient, topic: Callable[..., str]) -> Sink:
    """A query's sink into a topic of three partitions, on brokers of three releases."""
    name = topic(partitions=3)
    return Sink(client, name, prefix=name)


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.__name__)
def test_c15(scene: Callable[[Sink], None], client: BlockingClient, topic: Callable[..., str]) -> None:
    name = topic(scene.__name__, partitions=3)
    scene(Sink(client, name, prefix=name))


def test_s01_a_transaction_that_expired_after_the_intent_fails_loudly() -> None:
    with LocalCluster(brokers=1, releases={1: "3.9"}) as own:  # its clock is moved
        own.create_topic("t", partitions=2, replication_factor=1)
        with BlockingClient(bootstrap_servers=own.bootstrap_servers) as client:
            scenes.expired_after_the_intent(Sink(client, "t", prefix="q"), lambda: own.advance(60_000))


def test_a_time_out_longer_than_the_broker_allows_is_refused_at_the_start(sink: Sink) -> None:
    sink.timeout_ms = 3_600_000
    with pytest.raises(ConfigError, match=r"time-out of 3600000 ms .* set kafka\.transaction\.timeout\.ms"):
        sink.driver().plan()


def test_brokers_without_transactions_are_refused_at_the_start_with_the_release_that_has_them() -> None:
    with (
        LocalCluster(brokers=1, releases={1: "0.10.2"}) as old,
        BlockingClient(bootstrap_servers=old.bootstrap_servers) as client,
        pytest.raises(UnsupportedVersionError, match=r"0\.11") as caught,
    ):
        Sink(client, "t", prefix="q").driver().plan()
    assert caught.value.first_release == "0.11.0"


def test_the_sink_stays_below_the_second_generation_of_transactions() -> None:
    with LocalCluster(brokers=1, releases={1: "4.3"}) as newest:
        newest.create_topic("t", partitions=2, replication_factor=1)
        with BlockingClient(bootstrap_servers=newest.bootstrap_servers) as client:
            sink = Sink(client, "t", prefix="q")
            sink.run(sink.driver(), 0, [["a"], ["b"]])
            assert sink.committed() == ["a", "b"]
        assert {one.version for one in newest.requests("PRODUCE", topic="t")} == {11}
        assert {one.version for one in newest.requests("ADD_PARTITIONS_TO_TXN")} == {3}
        assert {one.version for one in newest.requests("END_TXN")} == {4}


def test_the_coordinators_ids_stay_as_many_as_tasks_over_many_batches(sink: Sink, cluster: LocalCluster) -> None:
    driver = sink.driver()
    for batch in range(30):
        sink.run(driver, batch, [[f"{batch}-{task}"] for task in range(1 + batch % 3)])
    assert len(sink.committed()) == 10 * (1 + 2 + 3)
    assert len([name for name in cluster.transactions() if name.startswith(sink.prefix)]) == 1 + 2 * 3


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_10_000_batches_leave_as_many_ids_as_tasks(sink: Sink, cluster: LocalCluster) -> None:
    driver = sink.driver()
    for batch in range(10_000):
        sink.run(driver, batch, [[f"{batch}-{task}"] for task in range(3)])
        if batch % 500 == 250:
            driver = sink.driver()  # restarted
    assert len(sink.committed()) == 30_000
    assert len([name for name in cluster.transactions() if name.startswith(sink.prefix)]) == 1 + 2 * 3
