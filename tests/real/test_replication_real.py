"""Topics copied, proved and replayed between real brokers of far releases: Java's client of the
source wrote what Java's client of the target reads.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.client import Client, ClientOptions, NewTopic, TopicPartition
from parley.pipelines.replay import Replay, ReplayOptions
from parley.pipelines.replication import Replication, ReplicationOptions
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple

from .test_java_and_parley import (
    Row,
    codecs_for,
    from_hexadecimal,
    hexadecimal,
    java,
    rows_for,
)

Clusters = Callable[[str], RealCluster]
MISSING_MS = 1_700_000_000_000
"""What records without a timestamp get."""
PAIRS = [
    pytest.param("0.10.2.2", "4.3.0"),
    pytest.param("0.9.0.1", "3.9.1", marks=pytest.mark.matrix),
    pytest.param("2.4.1", "3.9.1", marks=pytest.mark.matrix),
    pytest.param("4.3.0", "0.11.0.3", marks=pytest.mark.matrix),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_what_java_wrote_is_what_java_reads(
    real_cluster: Clusters, topic_name: str, old: str, new: str
) -> None:
    source, target = real_cluster(old), real_cluster(new)
    topic, again = topic_name[-100:], f"{topic_name[-100:]}-again"
    rows = produced(source, old, topic)
    both = [
        ClientOptions(bootstrap_servers=side.bootstrap_servers, request_timeout_ms=60_000)
        for side in (source, target)
    ]
    with Client(both[0]) as client:
        client.alter_group_offsets(f"g-{topic}", {TopicPartition(topic, 0): 7})
    options = ReplicationOptions(
        name=f"copy-{topic}",
        topics=[topic],
        timestamp_when_missing=MISSING_MS,
        groups=[f"g-{topic}"],
    )
    with Replication(*both, options) as replication:
        replication.run(until_caught_up=True)
        assert replication.verify().equal
        found = replication.cutover(quiet_ms=1, execute=True)
        assert [one for one in found if one.state != "done"] == []
    assert consumed(target, new, topic, len(rows)) == rows
    with Client(both[1]) as client:
        held = client.list_group_offsets(f"g-{topic}", [TopicPartition(topic, 0)])
        (place,) = [one for one in held.values() if one is not None]
        # with transactions the first 40 offsets were aborted
        next_row = rows[0 if version_tuple(old) >= (0, 11) else 7]
        assert first_at(client, topic, place.offset) == next_row[2]

    replayed = ReplayOptions(name=f"replay-{topic}", topic=topic, to=again)
    with Replay(both[1], both[1], replayed) as replay:
        replay.run()
    unmarked = [
        (timestamp, key, value, headers[:-1])
        for timestamp, key, value, headers in consumed(target, new, again, len(rows))
    ]
    assert unmarked == rows


def produced(cluster: RealCluster, release: str, topic: str) -> list[Row]:
    """Write rows with Java's client, some of them in a transaction that it aborts; return what the
    copy has to have.
    """
    rows = rows_for(release)
    transactions = version_tuple(release) >= (0, 11)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        if version_tuple(release) >= (0, 10, 1):
            client.create_topics([NewTopic(topic)])
    lines = []
    for codec, begin in zip(codecs_for(release), range(0, 200, 40), strict=False):
        options = [f"compression.type={codec}", "max.block.ms=60000"]
        if transactions:
            options.append(f"transactional.id={topic}-{codec}")
        lines.append("\t".join(["open", *options]))
        for aborted in (True, False) if transactions else (False,):
            lines += ["begin"] * transactions
            for timestamp, key, value, headers in rows[begin : begin + 40]:
                pairs = ";".join(f"{name}={hexadecimal(data)}" for name, data in headers)
                fields = [topic, "0", str(timestamp), hexadecimal(key), hexadecimal(value), pairs]
                lines.append("\t".join(["send", *fields]))
            lines.append("flush")
            lines += ["abort" if aborted else "commit"] * transactions
    java(cluster, release, ["produce", cluster.bootstrap_servers], "\n".join(lines) + "\n")
    kept = rows[: 40 * len(codecs_for(release))]
    return [(MISSING_MS if ms < 0 else ms, key, value, headers) for ms, key, value, headers in kept]


def consumed(cluster: RealCluster, release: str, topic: str, count: int) -> list[Row]:
    """Return what Java's client reads."""
    arguments = ["consume", cluster.bootstrap_servers, "read_committed", f"{topic}={count}"]
    found: list[Row] = []
    for line in java(cluster, release, arguments).splitlines():
        _, _, timestamp, _, key, value, headers = line.split("\t")
        pairs = tuple(
            (name, from_hexadecimal(data))
            for name, data in (one.split("=") for one in headers.split(";") if one)
        )
        found.append((int(timestamp), from_hexadecimal(key), from_hexadecimal(value), pairs))
    return found


def first_at(client: Client, topic: str, offset: int) -> bytes | None:
    """Return the value of the first record from an offset on."""
    for batch in client.fetch(TopicPartition(topic, 0), offset, offset + 5):
        value: bytes | None = batch.column("value")[0].as_py()
        return value
    raise AssertionError("nothing is there")
