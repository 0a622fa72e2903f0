"""A cluster of 1,000 embedded brokers of five releases: all are asked, and one
view is made of the answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from parley.client.cluster.survey import looks_like, survey
from parley.devcluster import AsyncLocalCluster
from parley.host import raise_descriptor_limit
from parley.net import ConnectOptions
from parley.schema import ApiKey
from parley.versions import VersionRange
from parley.versions.view import ClusterView

from ..support import GENEROUS_MS, GENEROUS_S

BROKERS = 1_000
RELEASES = ("0.9.0.1", "0.10.2.2", "2.4.1", "3.9.1", "4.3.0")


async def test_a_thousand_brokers_of_five_releases_can_be_asked() -> None:
    assert raise_descriptor_limit(2 * BROKERS + 512) is None
    releases = {number: RELEASES[number % 5] for number in range(1, BROKERS + 1)}
    async with AsyncLocalCluster(BROKERS, releases=releases) as cluster:
        first = cluster.bootstrap_servers.partition(",")[0]
        options = ConnectOptions(
            bootstrap_servers=first, socket_connection_setup_timeout_ms=5 * GENEROUS_MS
        )
        findings = await asyncio.wait_for(survey(options), 5 * GENEROUS_S)
    assert [finding.node.id for finding in findings] == list(range(1, BROKERS + 1))
    assert not [finding.error for finding in findings if finding.error is not None]
    seen = Counter(
        looks_like(finding.versions).name for finding in findings if finding.versions is not None
    )
    assert seen == dict.fromkeys(RELEASES, BROKERS // 5)
    # 0.9
    assert {finding.node.id for finding in findings if finding.inferred} == set(
        range(5, BROKERS + 1, 5)
    )
    view = ClusterView(
        {finding.node.id: finding.versions.ranges for finding in findings if finding.versions}
    )
    # 0.9 and 0.10 end at 1 and 2; 4.3 says that it serves Produce from 0 on.
    assert view.ranges[ApiKey.PRODUCE] == VersionRange(0, 1)
    assert ApiKey.CREATE_TOPICS not in view.ranges
