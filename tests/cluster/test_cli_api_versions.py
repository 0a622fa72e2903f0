"""`parley api-versions` and `parley features` against mixed embedded
clusters: output and exit codes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from parley.cli import main
from parley.devcluster import LocalCluster
from parley.devcluster.handlers import SERVED
from parley.devcluster.release.profile import make_profile
from parley.versions.java_client import broker_block


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(4, releases={1: "0.9", 2: "0.10.0", 3: "2.4", 4: "4.3"}) as running:
        yield running


def parley(cluster: LocalCluster, *arguments: str) -> int:
    return main([*arguments, "--bootstrap-server", cluster.bootstrap_servers])


def test_every_broker_has_a_column_and_differences_are_marked(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parley(cluster, "api-versions") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "KEY",
        "API",
        *["BROKER", "1", "BROKER", "2", "BROKER", "3", "BROKER", "4"],
    ]
    fetch = next(line for line in lines if " Fetch " in line)
    assert [word for word in fetch.split() if word != "→"] == [
        "1",
        "Fetch",
        "0-1",
        "1",
        "0-2",
        "2",
        "0-11",
        "11",
        "4-18",
        "18",
        "*",
    ]
    assert "0.9.0.1 inferred" in lines[2]


def test_json_is_complete_and_says_what_was_inferred(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parley(cluster, "api-versions", "--format", "json") == 0
    brokers = json.loads(capsys.readouterr().out)["brokers"]
    assert [(b["id"], b["inferred"], b["looks_like"]) for b in brokers] == [
        (1, True, "0.9.0.1"), (2, False, "0.10.0.1"), (3, False, "2.4.1"), (4, False, "4.3.0"),
    ]  # fmt: skip
    produce = brokers[3]["apis"][0]
    assert produce == {
        "key": 0,
        "name": "Produce",
        "advertised": [0, 13],
        "in_use": 13,
        "why_unusable": None,
    }
    assert "KIP-951" in brokers[3]["kips"]
    assert "KIP-951" not in brokers[2]["kips"]


def test_kafka_format_is_the_tools_text_for_each_broker(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parley(cluster, "api-versions", "--format", "kafka") == 0
    printed = capsys.readouterr().out
    assert printed.count(" isFenced: false) -> (\n") == 4
    last = cluster.broker(4)
    ranges = make_profile(last.release, SERVED).ranges
    host, _, port = last.address.rpartition(":")
    assert broker_block(host, int(port), 4, None, ranges) in printed


def test_a_missing_requirement_ends_with_4_and_names_broker_and_release(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parley(cluster, "api-versions", "--require", "topic-ids") == 4
    said = capsys.readouterr().err
    assert "broker 3 " in said
    assert "came with Kafka 2.8" in said
    assert parley(cluster, "features", "--require", "controller-id", "--format", "json") == 4
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert (row["broker_1"], row["broker_2"], row["broker_4"]) == (False, True, True)


def test_an_unknown_feature_is_a_usage_error_with_the_nearest_name(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parley(cluster, "features", "--require", "topic-idz") == 2
    assert 'Did you mean "topic-ids"' in capsys.readouterr().err


def test_a_broker_that_went_away_is_reported_and_the_others_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with LocalCluster(2, release="3.9") as cluster:
        servers = cluster.bootstrap_servers
        cluster.faults.cut("ApiVersions", broker=2, times=-1)
        assert main(["api-versions", "-b", servers.split(",")[0]]) == 1
        printed = capsys.readouterr()
        assert "failed" in printed.out
        assert "broker 2 (" in printed.err
        assert "3.9.1" in printed.out
    assert main(["api-versions", "-b", servers]) == 3
    said = capsys.readouterr().err
    assert all(address in said for address in servers.split(","))


def test_data_goes_to_stdout_only_and_no_colour_into_a_pipe(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parley(cluster, "features", "--format", "table") == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out
    assert printed.err == ""
