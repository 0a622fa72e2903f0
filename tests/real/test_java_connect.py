"""Kafka Connect workers on the embedded cluster, from a file into a topic
and from there into a file.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from parley import Client, Consumer
from parley.devcluster import LocalCluster
from parley.errors import InconsistentGroupProtocolError
from parley.testing.realbroker.ports import PortPool

from ..support import GENEROUS_S, eventually
from ..support.java import java_running, properties_file

TOPIC, GROUP = "lines", "workers"
COUNT = 50
TEXT = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"key.converter": TEXT, "value.converter": TEXT, "offset.flush.interval.ms": "100"}
SHARED = {
    "group.id": GROUP,
    "session.timeout.ms": "6000",
    "scheduled.rebalance.max.delay.ms": "0",
    **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
    **{f"{kind}.storage.replication.factor": "3" for kind in ("config", "offset", "status")},
    **{f"{kind}.storage.partitions": "2" for kind in ("offset", "status")},
}
"""What workers of one group have in common: they keep everything in compacted topics."""


def artifacts(connect: str) -> tuple[str, ...]:
    names = ("connect-runtime", "connect-file", "connect-json")
    return tuple(f"org.apache.kafka:{name}:{connect}" for name in names)


@pytest.fixture
def connectors(tmp_path: Path) -> dict[str, dict[str, str]]:
    """A file source and a file sink, by their names."""
    kind = "org.apache.kafka.connect.file.FileStream{}Connector"
    (tmp_path / "from.txt").touch()
    source = {"file": str(tmp_path / "from.txt"), "topic": TOPIC}
    sink = {"file": str(tmp_path / "to.txt"), "topics": TOPIC}
    return {
        "reads-file": {"connector.class": kind.format("Source"), "tasks.max": "1", **source},
        "writes-file": {"connector.class": kind.format("Sink"), "tasks.max": "1", **sink},
    }


def moved(folder: Path, first: int) -> None:
    """Write lines into the first file, and return when the second has the same text."""
    with (folder / "from.txt").open("a") as out:
        out.writelines(f"line {number}\n" for number in range(first, first + COUNT))
    whole, arrived = (folder / "from.txt").read_text(), folder / "to.txt"
    eventually(lambda: arrived.exists() and arrived.read_text() == whole, "the lines' arrival")


def rest(port: int, method: str, path: str, body: object = None) -> object:
    """Return what a worker says; AssertionError as long as it does not answer well."""
    headers = {"Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=GENEROUS_S)) as connection:
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AssertionError(f"no answer to {method} {path}: {error!r}") from error
    assert answer.status in (200, 201), text
    return json.loads(text)


@pytest.fixture
def ports() -> Iterator[PortPool]:
    pool = PortPool()
    yield pool
    pool.release()


@pytest.mark.parametrize(
    ("connect", "release"),
    [
        pytest.param("4.3.0", "4.3", marks=pytest.mark.matrix),
        pytest.param("4.3.0", "2.8", marks=pytest.mark.matrix),
        pytest.param("3.9.1", "3.9", marks=pytest.mark.matrix),
        pytest.param("3.9.1", "2.1", marks=pytest.mark.matrix),
    ],
)
def test_a_standalone_worker_moves_lines(
    connect: str,
    release: str,
    connectors: dict[str, dict[str, str]],
    ports: PortPool,
    tmp_path: Path,
) -> None:
    with LocalCluster(brokers=2, release=release) as cluster:
        cluster.create_topic(TOPIC)
        settings = {
            **WORKER,
            "bootstrap.servers": cluster.bootstrap_servers,
            "listeners": f"http://127.0.0.1:{ports.take()}",
            "offset.storage.file.filename": str(tmp_path / "offsets"),
        }
        files = [properties_file(tmp_path / "worker.properties", settings)] + [
            properties_file(tmp_path / f"{name}.properties", {"name": name, **options})
            for name, options in connectors.items()
        ]
        main = ["org.apache.kafka.connect.cli.ConnectStandalone", *files]
        with java_running(artifacts(connect), main, tmp_path / "worker.log"):
            moved(tmp_path, 0)
            moved(tmp_path, COUNT)


@contextmanager
def worker(
    cluster: LocalCluster, connect: str, port: int, folder: Path, **more: str
) -> Iterator[None]:
    """A worker of the group, and its REST interface at `port`."""
    listener = f"http://127.0.0.1:{port}"
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "listeners": listener}
    settings = {**WORKER, **SHARED, **servers, **more}
    file = properties_file(folder / f"worker-{port}.properties", settings)
    main = ["org.apache.kafka.connect.cli.ConnectDistributed", file]
    with java_running(artifacts(connect), main, folder / f"worker-{port}.log"):
        yield


@pytest.mark.parametrize(
    ("connect", "release", "exactly_once"),
    [
        pytest.param("4.3.0", "4.3", "enabled", marks=pytest.mark.matrix),
        pytest.param("4.3.0", "2.8", "disabled", marks=pytest.mark.long),
        pytest.param("3.9.1", "3.9", "enabled", marks=pytest.mark.long),
        pytest.param("3.9.1", "2.1", "disabled", marks=pytest.mark.long),
    ],
)
def test_g72_two_workers_share_connectors_and_another_finds_them(
    connect: str,
    release: str,
    exactly_once: str,
    connectors: dict[str, dict[str, str]],
    ports: PortPool,
    tmp_path: Path,
) -> None:
    """Workers' groups are of the type `connect`; what they know is in compacted topics."""
    port, other_port = ports.take(), ports.take()
    how = {"exactly.once.source.support": exactly_once}
    with (
        LocalCluster(brokers=3, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC)
        with worker(cluster, connect, port, tmp_path, **how):
            with worker(cluster, connect, other_port, tmp_path, **how):
                for name, options in connectors.items():
                    where = f"/connectors/{name}/config"
                    eventually(lambda: rest(port, "PUT", where, options))  # noqa: B023
                eventually(lambda: running_at(other_port) == 2 * len(connectors))
                eventually(lambda: standing(client) == ("connect", "Stable", 2), "both are members")
                moved(tmp_path, 0)
                servers = cluster.bootstrap_servers
                with Consumer(bootstrap_servers=servers, group_id=GROUP) as stranger:
                    stranger.subscribe([TOPIC])
                    with pytest.raises(InconsistentGroupProtocolError):
                        stranger.getone()
            moved(tmp_path, COUNT)
        with worker(cluster, connect, other_port, tmp_path, **how):
            moved(tmp_path, 2 * COUNT)


def standing(client: Client) -> tuple[str, str, int]:
    (group,) = client.describe_groups([GROUP]).values()
    return group.protocol_type, group.state, len(group.members)


def running_at(port: int) -> int:
    """Return how many connectors and tasks run, as a worker sees it."""
    return json.dumps(rest(port, "GET", "/connectors?expand=status")).count('"RUNNING"')
