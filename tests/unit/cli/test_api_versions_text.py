"""What brokers call themselves reaches a terminal as text, whatever is in it."""

from __future__ import annotations

from parley.cli.api_versions import kafka_text
from parley.client.cluster.survey import BrokerFinding
from parley.errors import NetworkError
from parley.types import Node
from parley.versions import BrokerVersions


def test_a_host_or_rack_that_a_terminal_would_obey_is_escaped() -> None:
    node = Node(1, "a\x1b[31mb", 9092, "r\nx")
    findings = [
        BrokerFinding(node, BrokerVersions.from_release("2.4")),
        BrokerFinding(node, None, error=NetworkError("gone")),
    ]
    text = "".join(kafka_text(findings))
    assert "\x1b" not in text
    assert text.count("a\\x1b[31mb:9092 (id: 1 rack: r\\nx isFenced: false) -> ") == 2
