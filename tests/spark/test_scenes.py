"""S5–S14 through Spark: what a query reads when its topics, its limits or
its brokers are disturbed.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster, Security

pytestmark = pytest.mark.timeout(240)


def put(client: Client, topic: str, partition: int, values: list[Any]) -> None:
    client.produce(
        topic, pa.table({"value": [str(value) for value in values]}), partition=partition
    )


def test_s05_truncation_while_the_query_was_stopped(spark: Any, stream: Any) -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("cut", partitions=1, replication_factor=3)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            put(client, "cut", 0, ["a", "b"])
            put(client, "cut", 0, ["c", "d"])
            query = stream(servers=cluster.bootstrap_servers, subscribe="cut")
            query.run()
            cluster.scenes.elect_unclean("cut", 0, lose=2)
            put(client, "cut", 0, ["x", "y", "z"])
            with pytest.raises(
                Exception, match=r"log of cut-0 was truncated: offset 4 .* divergent offset 2"
            ):
                query.run()
            query.run(failOnDataLoss="false")
            put(client, "cut", 0, ["end"])
            query.run(failOnDataLoss="true")
    assert sorted(value for _, _, value in query.rows()) == [
        "a",
        "b",
        "c",
        "d",
        "end",
        "x",
        "y",
        "z",
    ]


def test_s08_partitions_that_are_added_are_read_from_their_beginning(
    stream: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    name = topic(partitions=1)
    put(client, name, 0, ["a"])
    query = stream(subscribe=name)
    query.run()
    cluster.add_partitions(name, 3)
    client.metadata([name])  # the client that writes is to know them at once
    for partition in range(3):
        put(client, name, partition, [f"p{partition}", f"q{partition}"])
    query.run()
    assert sorted(value for _, _, value in query.rows()) == [
        "a",
        "p0",
        "p1",
        "p2",
        "q0",
        "q1",
        "q2",
    ]


@pytest.mark.matrix
def test_s09_topics_that_come_and_go_under_a_pattern(
    stream: Any, client: Client, cluster: LocalCluster, topic: Any
) -> None:
    stem = topic("first", partitions=1).removesuffix("first")
    rng = random.Random(9)
    put(client, stem + "first", 0, ["0"])
    query = stream(subscribePattern=stem.replace(".", r"\.") + ".*", failOnDataLoss="false")
    query.run()
    written = {"0"}
    alive = {stem + "first"}
    for step in range(1, 16):
        if len(alive) > 1 and rng.random() < 0.35:
            gone = rng.choice(sorted(alive - {stem + "first"}))
            cluster.delete_topic(gone)
            alive.discard(gone)
        else:
            name = stem + f"t{rng.randint(1, 3)}"
            if name not in alive:
                cluster.create_topic(name, partitions=rng.randint(1, 3), replication_factor=3)
                alive.add(name)
            put(client, name, 0, [str(step)])
            written.add(str(step))
        put(client, stem + "first", 0, [f"f{step}"])
        written.add(f"f{step}")
        if step % 5 == 0:
            query.run()
    values = [value for _, _, value in query.rows()]
    assert len(values) == len(set(values))
    assert set(values) <= written
    assert {"0", *(f"f{step}" for step in range(1, 16))} <= set(values)


def test_s10_two_queries_and_a_group_on_one_topic_do_not_disturb_each_other(
    spark: Any, client: Client, cluster: LocalCluster, topic: Any, tmp_path: Path, stream: Any
) -> None:
    name = topic(partitions=2)
    put(client, name, 0, list(range(50)))
    one, two = (
        stream(subscribe=name, maxOffsetsPerTrigger=20),
        stream(subscribe=name, maxOffsetsPerTrigger=30),
    )
    one.folder, two.folder = tmp_path / "one", tmp_path / "two"
    one.run()
    put(client, name, 1, list(range(50, 100)))
    for found in (two, one):
        found.run()
        assert sorted(int(value) for _, _, value in found.rows()) == list(range(100))
    used = {entry.api for entry in cluster.requests() if entry.client_id == "parley"}
    assert not any("JOIN_GROUP" in str(api) for api in used)


@pytest.mark.matrix
def test_s11_other_limits_after_a_restart(stream: Any, client: Client, topic: Any) -> None:
    name = topic(partitions=2)
    put(client, name, 0, list(range(40)))
    query = stream(subscribe=name, maxOffsetsPerTrigger=15)
    query.run()
    put(client, name, 1, list(range(40, 60)))
    query.run(maxOffsetsPerTrigger=7, minPartitions=5)
    put(client, name, 0, list(range(60, 80)))
    query.options.pop("maxOffsetsPerTrigger")
    query.run(maxRecordsPerPartition=3, maxBytesPerTrigger="1m")
    assert sorted(int(value) for _, _, value in query.rows()) == list(range(80))
    ends = [found[name] for found in query.offsets()]
    assert all(before[n] <= after[n] for before, after in itertools.pairwise(ends) for n in before)


CANARY = "canary-8b1f"


def test_s14_a_password_is_nowhere_to_be_seen(
    spark: Any, stream: Any, tmp_path: Path, capfd: Any
) -> None:
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users={"alice": CANARY}
    )
    with LocalCluster(brokers=1, release="4.3", security=security) as cluster:
        cluster.create_topic("secret", partitions=1)
        login = (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" '
            f'password="{CANARY}";'
        )
        options = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": login,
        }
        properties = cluster.client_properties("alice")
        with Client(
            bootstrap_servers=cluster.bootstrap_servers, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=properties["sasl.jaas.config"],
        ) as client:  # fmt: skip
            put(client, "secret", 0, ["a", "b"])
        query = stream(servers=cluster.bootstrap_servers, subscribe="secret", **options)
        ran = query.run()
        assert [value for _, _, value in query.rows()] == ["a", "b"]
        frame = query.frame()
        shown = [str(ran.recentProgress), frame._jdf.queryExecution().toString(), repr(frame)]
        wrong = {**options, "kafka.sasl.jaas.config": login.replace('="alice"', '="mallory"')}
        batch = spark.read.format("parley").option(
            "kafka.bootstrap.servers", cluster.bootstrap_servers
        )
        with pytest.raises(Exception, match="AuthenticationError") as refused:
            batch.option("subscribe", "secret").options(**wrong).load().collect()
        shown.append(str(refused.value))
    files = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    captured = capfd.readouterr()
    assert not [text for text in (*shown, *files, captured.out, captured.err) if CANARY in text]
