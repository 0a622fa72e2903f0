"""How long offsets are kept: real brokers and the embedded ones of their releases
drop the same ones (H20).
"""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from parley.client import Client, NewTopic, TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster
from parley.messages import FindCoordinatorRequest, OffsetCommitRequest
from parley.schema import VersionRange
from parley.testing.realbroker import RealCluster

from ..support import eventually

pytestmark = pytest.mark.matrix
TOPIC = "events"
HOUR_MS, LONG_AGO_MS = 3_600_000, 400 * 24 * 3_600_000
CHECK = "offsets.retention.check.interval.ms"
SHORT_MS = 1


class Commit(NamedTuple):
    """One commit: the version it is sent in, how old it says it is, how long it is to be kept."""

    group: str
    version: int
    age_ms: int = -1
    kept_ms: int = -1


COMMITS = [
    Commit("v2-long", 2, kept_ms=HOUR_MS),
    Commit("v2-usual", 2),
    Commit("v1-old", 1, age_ms=LONG_AGO_MS),
    Commit("v1-now", 1),
]


def play(client: Client, lowest: int) -> set[str]:
    """Commit for each group; return those whose offset is there after a whole check."""
    wanted = [one for one in COMMITS if one.version >= lowest]
    for one in wanted:
        commit(client, one)
    # A check takes the groups in no order: only the second one to end began after the commits.
    for name in ("first-check", "second-check"):
        mark = Commit(name, 2, kept_ms=SHORT_MS)
        commit(client, mark)
        eventually(lambda mark=mark: not kept(client, [mark]), f"the offset of {name} expires")
    return kept(client, wanted)


def commit(client: Client, one: Commit) -> None:
    node = next(iter(client.metadata().brokers))
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    if one.age_ms >= 0:
        part.commit_timestamp = int(time.time() * 1000) - one.age_ms
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    request = OffsetCommitRequest(
        group_id=one.group, generation_id_or_member_epoch=-1, topics=[topic]
    )
    if one.kept_ms >= 0:
        request.retention_time_ms = one.kept_ms

    def done() -> bool:
        client.request(node, FindCoordinatorRequest(key="g"), allowed=VersionRange(0, 0))
        answer = client.request(node, request, allowed=VersionRange(one.version, one.version))
        return answer.topics[0].partitions[0].error_code == 0

    eventually(done, f"{one.group} is committed")


def kept(client: Client, commits: list[Commit]) -> set[str]:
    at = TopicPartition(TOPIC, 0)
    groups = [one.group for one in commits]
    return {group for group in groups if client.committed_offsets(group, [at])[at] is not None}


@pytest.mark.parametrize(
    ("release", "lowest", "expected"),
    [
        ("1.1.1", 1, {"v2-long", "v2-usual", "v1-now"}),
        ("2.4.1", 1, {"v2-long", "v2-usual", "v1-now"}),
        ("4.3.0", 2, {"v2-long", "v2-usual"}),
    ],
)
def test_real_and_embedded_brokers_drop_the_same_offsets(
    release: str, lowest: int, expected: set[str]
) -> None:
    with (
        RealCluster(release, properties={CHECK: "1000"}) as real,
        Client(bootstrap_servers=real.bootstrap_servers) as client,
    ):
        client.create_topics([NewTopic(TOPIC)])
        assert play(client, lowest) == expected
    settings = ClusterSettings(offsets_retention_check_interval_ms=1_000)
    with (
        LocalCluster(brokers=1, release=release, settings=settings) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC)
        assert play(client, lowest) == expected
