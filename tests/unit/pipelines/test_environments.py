"""The demo's brokers: the embedded cluster, and brokers of one's own, which are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from parley.devcluster import LocalCluster
from parley.pipelines.demo.account import count_aggregates
from parley.pipelines.demo.counting import record_count, topic_records
from parley.pipelines.demo.environments import EmbeddedEnvironment, OwnEnvironment
from parley.pipelines.demo.scenario import Act, Step

RELEASES = {1: "2.4", 2: "3.9", 3: "4.2"}
STEPS = (Step(0.5, Act.STOP, 1), Step(0.6, Act.START, 1, "3.9"))


@pytest.fixture
def embedded() -> Iterator[EmbeddedEnvironment]:
    environment = EmbeddedEnvironment("new", RELEASES, STEPS)
    yield environment
    environment.close()


def test_the_embedded_brokers_speak_as_their_releases(embedded: EmbeddedEnvironment) -> None:
    assert [(one.cluster, one.broker, one.release) for one in embedded.broker_rows("t")] == [
        ("new", 1, "2.4.1"), ("new", 2, "3.9.1"), ("new", 3, "4.2.0"),
    ]  # fmt: skip
    assert embedded.leaders("t") == {}
    embedded.create_topic("t")
    rows = pa.table({"key": [str(n) for n in range(100)], "value": ["x"] * 100})
    embedded.client.produce("t", rows)
    assert record_count(embedded.client, "t") == 100
    assert set(embedded.leaders("t")) == {0, 1, 2, 3}
    led = [index for one in embedded.broker_rows("t") for index in one.leads]
    assert sorted(led) == [0, 1, 2, 3]
    facts = {fact.broker: fact.api_versions for fact in embedded.broker_facts()}
    assert facts[1]["Produce"] == "v8"
    assert facts[2]["Produce"] == "v11"
    assert embedded.takes_headers()
    assert embedded.registry is not None
    assert embedded.registry.startswith("http://127.0.0.1:")


def test_a_broker_that_was_upgraded_shows_both_releases(embedded: EmbeddedEnvironment) -> None:
    embedded.create_topic("t")
    reported, down = [], []

    def report(text: str) -> None:
        reported.append(text)
        down.append([one.running for one in embedded.broker_rows("t")])

    director = embedded.director("t", lambda: 1.0, report)
    director.run()
    assert director.error is None
    assert reported == ["new cluster: broker 1 stops for its upgrade",
                        "new cluster: broker 1 starts as 3.9"]  # fmt: skip
    assert down == [[True, True, True], [False, True, True]]
    assert embedded.broker_facts()[0].releases == ("2.4.1", "3.9.1")


@pytest.mark.parametrize(("release", "headers"), [("4.3", True), ("0.11", True), ("0.10.2", False)])
def test_brokers_of_ones_own_are_asked_what_they_can(release: str, headers: bool) -> None:
    with (
        LocalCluster(brokers=2, release=release) as cluster,
        closing(OwnEnvironment("old", cluster.bootstrap_servers, partitions=3)) as environment,
    ):
        client = environment.client
        environment.create_topic("t")
        assert environment.takes_headers() is headers
        assert set(environment.leaders("t")) == {0, 1, 2}
        assert environment.broker_rows("t") == ()
        assert environment.director("t", lambda: 0.0, lambda text: None) is None
        client.produce(
            "t",
            pa.table({"key": ["a", "b", "a"], "value": ['{"rows":1}', '{"rows":5}', '{"rows":2}']}),
        )
        assert record_count(client, "t") == 3
        if headers:  # aggregates are in transactions, which began with the same release
            assert count_aggregates(topic_records(client, "t")) == (3, 2, 7)
        facts = environment.broker_facts()
        assert all((fact.cluster, fact.releases) == ("old", ()) for fact in facts)
        # Metadata is asked of any one broker, records go to whoever leads their partition.
        assert {"Metadata", "Produce"} <= {api for fact in facts for api in fact.api_versions}


def test_a_topic_that_comes_later_has_no_leaders_yet() -> None:
    with (
        LocalCluster(brokers=1) as cluster,
        closing(OwnEnvironment("new", cluster.bootstrap_servers)) as environment,
    ):
        assert environment.leaders("t") == {}


def test_a_topic_that_exists_already_is_an_error() -> None:
    with (
        LocalCluster(brokers=1) as cluster,
        closing(OwnEnvironment("old", cluster.bootstrap_servers)) as environment,
    ):
        environment.create_topic("t")
        with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
            environment.create_topic("t")
