"""`parley api-versions --format kafka` against what Kafka 4.3.0's own
tool prints, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from parley.cli import main
from parley.testing.realbroker import RealCluster

TOOL = "org.apache.kafka.tools.BrokerApiVersionsCommand"
BLOCK = re.compile(r"^\S+:\d+ \(id: .*?^\)\n", re.MULTILINE | re.DOTALL)
RELEASES = ["0.10.0.1", "1.0.2", "2.4.1", "3.9.1", "4.3.0"]


def blocks(text: str) -> list[str]:
    """Return the block of each broker in the order of their ids; the tool's own order is any."""
    found = BLOCK.findall(text)
    assert "".join(found) == text, "there is text outside of the blocks"
    return sorted(found)


def tools_text(cluster: RealCluster) -> str:
    done = cluster.run_java(
        [TOOL, "--bootstrap-server", cluster.bootstrap_servers], release="4.3.0"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def our_text(cluster: RealCluster, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert (
        main(["api-versions", "--format", "kafka", "--bootstrap-server", cluster.bootstrap_servers])
        == 0
    )
    return capsys.readouterr().out


@pytest.mark.parametrize("release", RELEASES)
def test_one_broker(
    release: str, real_cluster: Callable[[str], RealCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = real_cluster(release)
    expected = blocks(tools_text(cluster))
    assert len(expected) == 1
    assert blocks(our_text(cluster, capsys)) == expected


@pytest.mark.long
def test_brokers_of_two_releases(capsys: pytest.CaptureFixture[str]) -> None:
    with RealCluster(brokers=2, releases={1: "3.9.1", 2: "3.7.2"}) as cluster:
        expected = blocks(tools_text(cluster))
        assert len(expected) == 2
        assert blocks(our_text(cluster, capsys)) == expected
