"""The properties files of brokers, controllers and ZooKeeper: pure functions from facts to text.

Unknown properties only produce a warning, so one template serves all releases.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parley.testing.realbroker.releases import short_version, uses_kraft, version_tuple

HOST = "127.0.0.1"

_COMMON = {
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "delete.topic.enable": "true",  # the default since 1.0
    "offsets.topic.num.partitions": "4",  # the default of 50 makes the first group wait
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",  # 10 s by default
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # A member of a share group learns its partitions with its second heartbeat, and locks end: 5 s
    # and 15 s at least.
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    # A crashed broker is forgotten after 4 s (9 s in KRaft and 6 to 18 s in ZooKeeper by default).
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "zookeeper.session.timeout.ms": "4000",
    # Records that a test dates years back would go with the first check, 30 s after the start.
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "10000000",  # 128 MB by default, a quarter of the heap
    "log.cleaner.backoff.ms": "200",  # how long a compacted topic waits to be looked at: 15 s
}

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """All that a node's properties file is made of."""

    id: int
    release: str
    directory: Path
    ports: Mapping[str, int]
    """Each listener's port by name, in the properties' order; CONTROLLER where there is one."""
    roles: Sequence[str]
    oldest_release: str
    """The oldest release of the cluster: what brokers say to each other is held at its level."""
    mixed: bool
    controller: tuple[int, int] = (0, 0)
    """Id and port of the KRaft controller."""
    zookeeper_port: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)


def node_properties(facts: NodeFacts) -> dict[str, str]:
    """Return the properties of a node; `facts.extra` has the last word."""
    brokers_listeners = [name for name in facts.ports if name != "CONTROLLER"]
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in facts.ports.items()}
    properties = {
        "log.dirs": str(facts.directory / "data"),
        "listeners": ",".join(listeners.values()),
        **_COMMON,
    }
    if brokers_listeners:
        properties["advertised.listeners"] = ",".join(listeners[name] for name in brokers_listeners)
        properties["inter.broker.listener.name"] = "PLAINTEXT"
    if uses_kraft(facts.release):
        controller_id, controller_port = facts.controller
        properties |= {
            "node.id": str(facts.id),
            "process.roles": ",".join(facts.roles),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{controller_id}@{HOST}:{controller_port}",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in _PROTOCOLS)]
            ),
        }
    else:
        properties |= {
            "broker.id": str(facts.id),
            "zookeeper.connect": f"{HOST}:{facts.zookeeper_port}",
        }
        if version_tuple(facts.release) < (0, 10, 2):
            del properties["inter.broker.listener.name"]
        if facts.mixed:
            properties["inter.broker.protocol.version"] = short_version(facts.oldest_release)
            properties["log.message.format.version"] = short_version(facts.oldest_release)
    return properties | dict(facts.extra)


def zookeeper_properties(directory: Path, port: int) -> dict[str, str]:
    """Return ZooKeeper's properties; without its admin server, which would take port 8080."""
    return {
        "dataDir": str(directory),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "maxClientCnxns": "0",
        "tickTime": "1000",  # sessions may be as short as two ticks
        "admin.enableServer": "false",
    }


def properties_text(properties: Mapping[str, str]) -> str:
    """Return a properties file's text. A backslash would begin an escape, so it is doubled."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def new_cluster_id() -> str:
    """Return a random cluster id: 22 characters, no leading dash (that is an option's)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
