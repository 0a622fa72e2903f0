"""The protocol pages: complete, and true where the releases are known for a change."""

from __future__ import annotations

import json

import pytest

from parley.cli import main
from parley.versions import Feature, release, releases
from parley.versions.documentation import differences, entries, feature_differences, pages, previous


def test_there_is_a_page_for_every_release_with_a_line_for_every_api() -> None:
    written = pages()
    assert len(written) == len(releases()) + 1
    for name, found in releases().items():
        text = written[f"{name}.md"]
        assert all(f"\n| {key} | " in text for key in found.ranges)
        assert f"[{name}]({name}.md)" in written["index.md"]


def test_4_0_removed_old_versions_and_says_what_must_not_be_used() -> None:
    by_key = {entry.api_key: entry for entry in entries(release("4.0"))}
    assert by_key[1].change == "from 4"
    assert by_key[0].must_not_use == (0, 2)
    assert by_key[0].change == "up to 12"
    assert by_key[11].change == "from 2"


def test_kraft_lost_apis_that_came_back() -> None:
    """3.3.2 in KRaft mode had no SCRAM users and no delegation tokens."""
    zookeeper, kraft = release("3.2"), release("3.3")
    assert previous(kraft) is zookeeper
    assert {38, 50, 51} <= {d.api_key for d in differences(zookeeper, kraft) if d.change == "gone"}
    _, lost = feature_differences(zookeeper, kraft)
    assert Feature.SCRAM_USERS in lost
    assert Feature.FETCH_TOPIC_IDS in feature_differences(release("3.0"), release("3.1"))[0]


def test_the_command_compares_releases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "diff", "2.4", "4.3", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["api"]: row["change"] for row in rows}["Fetch"] == "up to 18, from 4"
    assert main(["protocol", "2.4"]) == 0
    assert "Metadata\t0-9" in capsys.readouterr().out


def test_the_command_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "4.9"]) == 2
    assert '"4.9" was not measured' in capsys.readouterr().err
    assert main(["protocol", "diff", "2.4"]) == 2
