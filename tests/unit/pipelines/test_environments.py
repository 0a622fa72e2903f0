"""The demo's brokers: the embedded cluster, and brokers of one's own, which are left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.pipelines.account import count_aggregates
from parley.pipelines.counting import topic_records
from parley.pipelines.environments import EmbeddedEnvironment, OwnEnvironment


@pytest.fixture
def embedded() -> Iterator[EmbeddedEnvironment]:
    environment = EmbeddedEnvironment()
    yield environment
    environment.close()


def test_the_embedded_brokers_speak_as_their_releases(embedded: EmbeddedEnvironment) -> None:
    assert [(row.broker, row.release, row.running) for row in embedded.broker_rows()] == [
        (1, "2.4.1", True), (2, "3.9.1", True), (3, "4.2.0", True),
    ]  # fmt: skip
    with Client(bootstrap_servers=embedded.bootstrap_servers) as client:
        embedded.create_topics(client, ["t"])
        client.produce("t", pa.table({"key": [str(n) for n in range(100)], "value": ["x"] * 100}))
    assert set(embedded.leaders("t")) == {0, 1, 2, 3}
    facts = {fact.broker: fact.api_versions for fact in embedded.broker_facts()}
    assert facts[1]["Produce"] == "v8"
    assert facts[2]["Produce"] == "v11"
    assert embedded.takes_headers()


def test_a_broker_that_was_upgraded_shows_both_releases(embedded: EmbeddedEnvironment) -> None:
    director = embedded.director("t", lambda: 0.0, lambda text: None)
    with Client(bootstrap_servers=embedded.bootstrap_servers) as client:
        embedded.create_topics(client, ["t"])
    cluster = director._cluster
    cluster.stop_broker(1)
    assert not embedded.broker_rows()[0].running
    cluster.start_broker(1, "3.9")
    assert embedded.broker_facts()[0].releases == ("2.4.1", "3.9.1")


@pytest.mark.parametrize(("release", "headers"), [("4.3", True), ("0.11", True), ("0.10.2", False)])
def test_brokers_of_ones_own_are_asked_what_they_can(release: str, headers: bool) -> None:
    with (
        LocalCluster(brokers=2, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        environment = OwnEnvironment(cluster.bootstrap_servers, client, partitions=3)
        environment.create_topics(client, ["t"])
        assert environment.takes_headers() is headers
        assert set(environment.leaders("t")) == {0, 1, 2}
        assert environment.broker_rows() == ()
        assert environment.director("t", lambda: 0.0, lambda text: None) is None
        client.produce(
            "t",
            pa.table({"key": ["a", "b", "a"], "value": ['{"rows":1}', '{"rows":5}', '{"rows":2}']}),
        )
        assert count_aggregates(topic_records(client, "t")) == (3, 2, 7)
        facts = environment.broker_facts()
        assert all(fact.releases == () for fact in facts)
        # Metadata is asked of any one broker, records go to whoever leads their partition.
        assert {"Metadata", "Produce"} <= {api for fact in facts for api in fact.api_versions}


def test_a_topic_that_exists_already_is_an_error() -> None:
    with (
        LocalCluster(brokers=1) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        environment = OwnEnvironment(cluster.bootstrap_servers, client)
        environment.create_topics(client, ["t"])
        with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
            environment.create_topics(client, ["t"])
