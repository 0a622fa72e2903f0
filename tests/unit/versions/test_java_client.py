"""The text of Kafka's own tool, against what the real 4.3.0 tool printed of real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.versions import releases
from parley.versions.java_client import broker_block, java_apis

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_tools"


@pytest.mark.parametrize(("release", "port"), [("1.0.2", 29607), ("4.3.0", 29602)])
def test_the_block_is_what_the_real_tool_printed(release: str, port: int) -> None:
    ranges = releases()[release].ranges
    printed = (GOLDEN / f"api-versions.tool-4.3.0.broker-{release}.stdout").read_text()
    assert broker_block("127.0.0.1", port, 1, None, ranges) == printed


def test_an_api_that_the_client_does_not_know_is_listed_by_number() -> None:
    assert broker_block("h", 1, 1, "r", {337: (0, 4)}).endswith(",\n\tUNKNOWN(337): 0 to 4\n)\n")


def test_every_key_stands_once() -> None:
    assert sorted(java_apis()) == list(range(93))
