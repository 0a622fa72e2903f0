"""How long offsets are kept: real brokers and the embedded ones of their releases
drop the same ones (H20).
"""

from __future__ import annotations

import time

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
COMMITS: list[tuple[str, int, int, int]] = [
    ("v2-short", 2, -1, 1), ("v2-long", 2, -1, HOUR_MS), ("v2-usual", 2, -1, -1),
    ("v1-old", 1, LONG_AGO_MS, -1),
    ("v1-now", 1, -1, -1),
]  # fmt: skip
"""Group, version of OffsetCommit, how old it says it is, and how long it asks to be kept."""


def play(client: Client, lowest: int) -> set[str]:
    """Commit for each group; return those whose offset is there when the short one has gone."""
    wanted = [one for one in COMMITS if one[1] >= lowest]
    node = next(iter(client.metadata().brokers))
    for group, version, age_ms, kept_ms in wanted:
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=3
        )
        if age_ms >= 0:
            part.commit_timestamp = int(time.time() * 1000) - age_ms
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
        request = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, topics=[topic]
        )
        if kept_ms >= 0:
            request.retention_time_ms = kept_ms

        def done(request: OffsetCommitRequest = request, version: int = version) -> bool:
            client.request(node, FindCoordinatorRequest(key="g"), allowed=VersionRange(0, 0))
            answer = client.request(node, request, allowed=VersionRange(version, version))
            return answer.topics[0].partitions[0].error_code == 0

        eventually(done, f"{group} is committed")
    eventually(lambda: "v2-short" not in kept(client, wanted), "the short one expires")
    return kept(client, wanted)


def kept(client: Client, groups: list[tuple[str, int, int, int]]) -> set[str]:
    at = TopicPartition(TOPIC, 0)
    return {group for group, *_ in groups if client.committed_offsets(group, [at])[at] is not None}


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
