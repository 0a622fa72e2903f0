"""Groups of Java's members, parley's and other clients', on embedded and on
real brokers (G67-G71).
"""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from parley import Client, NewTopic
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import GroupIdNotFoundError, InconsistentGroupProtocolError
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.releases import broker_artifacts, tools_artifacts

from ..cluster.test_classic_groups_foreign import (
    GROUP,
    HEARTBEAT_MS,
    PARTITIONS,
    TOPIC,
    Aiokafka,
    Confluent,
    KafkaPython,
    Member,
    Parley,
    members,
    produce,
)
from ..support import GENEROUS_S, eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.coordinator.assignors import cooperative_sticky, roundrobin
    from kafka.coordinator.assignors.sticky.sticky_assignor import (
        StickyPartitionAssignor as KafkaPythonSticky,
    )

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Cluster = LocalCluster | RealCluster
ASSIGNORS = "org.apache.kafka.clients.consumer."
READ = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t")
FREQUENT = f"heartbeat.interval.ms={HEARTBEAT_MS}"
JAVA = "4.3.0"
SETTINGS = ClusterSettings(
    group_consumer_heartbeat_interval_ms=HEARTBEAT_MS, group_consumer_assignment_interval_ms=50
)
PROPERTIES = {
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}


class Java(Member):
    """Java's console consumer: what it reads it prints, what it has the
    group's description says.
    """

    options: Sequence[str] = ()

    def consume(self, leaving: Callable[[], bool]) -> None:
        arguments = ["--topic", TOPIC, "--group", GROUP, "--from-beginning"]
        for name in ("partition", "offset"):
            arguments += ["--formatter-property", f"print.{name}=true"]
        for option in ("client.id=java", *self.options):
            arguments += ["--command-property", option]
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        servers = ["--bootstrap-server", self.bootstrap]
        path = class_path((*broker_artifacts(JAVA), *tools_artifacts(JAVA)))
        command = java_command(path, [main, *servers, *arguments], heap_mb=128)
        with (
            Client(bootstrap_servers=self.bootstrap) as client,
            NamedTemporaryFile() as output,
            subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL) as process,
        ):
            printed = Path(output.name)
            try:
                while not leaving():
                    assert process.poll() is None, "Java's consumer ended by itself"
                    self.owned = assigned(client)
                    self.read = lines(printed)
            finally:
                process.terminate()  # it leaves the group first
                process.wait(GENEROUS_S)
                self.read = lines(printed)


def lines(printed: Path) -> list[tuple[int, int]]:
    return [(int(part), int(offset)) for part, offset in READ.findall(printed.read_text())]


def assigned(client: Client) -> frozenset[int]:
    """Return what Java's member has, as its group's description says."""
    try:
        (group,) = client.describe_groups([GROUP]).values()
    except GroupIdNotFoundError:  # it has not joined yet
        return frozenset()
    java = [one for one in group.members if one.client_id == "java"]
    return frozenset(tp.partition for one in java for tp in one.assignment or ())


def java_options(assignor: str) -> dict[str, object]:
    return {"options": (f"partition.assignment.strategy={ASSIGNORS}{assignor}", FREQUENT)}


@pytest.fixture(scope="module", params=[pytest.param("embedded", marks=pytest.mark.matrix), "real"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running(kind: str) -> Iterator[Cluster]:
    """A cluster of this kind, for all tests one after the other."""
    made: Cluster
    if kind == "embedded":
        made = LocalCluster(brokers=2, release="4.3", settings=SETTINGS)
    else:
        made = RealCluster(JAVA, properties=PROPERTIES)
    with made as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """The cluster with an empty topic; topic and group are gone afterwards."""
    with Client(bootstrap_servers=running.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS)])
        yield running
        if GROUP in {one.group_id for one in client.list_groups()}:
            client.delete_groups([GROUP])
        client.delete_topics([TOPIC])


def settled(cluster: Cluster, *among: Member) -> bool:
    """Whether the members, and no others, share the partitions evenly, and no rebalance goes on."""
    for one in among:
        if one.error is not None:
            raise RuntimeError(f"a member ended: {one.error!r}")
    counts = [len(one.owned) for one in among]
    parts = sorted(part for one in among for part in one.owned)
    even = parts == list(range(PARTITIONS)) and max(counts) - min(counts) <= 1
    return even and standing(cluster) == ("Stable", len(among))


def standing(cluster: Cluster) -> tuple[str, int]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        if GROUP not in {one.group_id for one in client.list_groups()}:
            return "absent", 0
        (group,) = client.describe_groups([GROUP]).values()
        return group.state, len(group.members)


def read_once_each(cluster: Cluster, each: int, *among: Member) -> None:
    """Write records for a group that has settled: each is read once, by one of the members."""
    before = [len(member.read) for member in among]
    produce(cluster, each)
    eventually(lambda: sum(len(member.read) for member in among) >= sum(before) + each * PARTITIONS)
    read = [at for member, old in zip(among, before, strict=True) for at in member.read[old:]]
    assert len(set(read)) == len(read) == each * PARTITIONS


STRATEGIES: dict[str, dict[type[Member], dict[str, object]]] = {
    "range": {Java: java_options("RangeAssignor"), Parley: {}, Confluent: {}, KafkaPython: {},
              Aiokafka: {}},
    "roundrobin": {
        Java: java_options("RoundRobinAssignor"),
        Parley: {"strategy": "roundrobin"},
        Confluent: {"strategy": "roundrobin"},
        KafkaPython: {"assignors": (roundrobin.RoundRobinPartitionAssignor,)},
        Aiokafka: {"assignors": (RoundRobinPartitionAssignor,)},
    },
    "sticky": {
        Java: java_options("StickyAssignor"),
        Parley: {"strategy": "sticky"},
        KafkaPython: {"assignors": (KafkaPythonSticky,)},
        Aiokafka: {"assignors": (StickyPartitionAssignor,)},
    },
    "cooperative-sticky": {
        Java: java_options("CooperativeStickyAssignor"),
        Parley: {"strategy": "cooperative-sticky"},
        Confluent: {"strategy": "cooperative-sticky"},
        KafkaPython: {"assignors": (cooperative_sticky.CooperativeStickyAssignor,)},
    },
    "consumer": {
        Java: {"options": ("group.protocol=consumer",)},
        Parley: {"protocol": "consumer"},
        Confluent: {"protocol": "consumer"},
    },
}  # fmt: skip
"""Which clients can share so, and the attributes of their members for it."""


def marks_of(strategy: str, leader: type[Member]) -> tuple[pytest.MarkDecorator, ...]:
    """Say where a combination runs: `make test` has Java leading, and longer suites the others."""
    if leader is Java:
        return () if strategy == "range" else (pytest.mark.matrix,)
    return (pytest.mark.matrix if leader is Parley else pytest.mark.long,)


COMBINATIONS = [
    pytest.param(
        strategy,
        leader,
        id=f"{strategy}-{leader.__name__}",
        marks=marks_of(strategy, leader),
    )
    for strategy, clients in STRATEGIES.items()
    for leader in clients
]


def member(cluster: Cluster, client: type[Member], strategy: str) -> Member:
    made = client(cluster, JAVA)  # type: ignore[arg-type]  # of which it takes the addresses
    for name, value in STRATEGIES[strategy][client].items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(("strategy", "leader"), COMBINATIONS)
def test_g67_g68_g70_all_clients_in_one_group_each_leading_in_turn(
    strategy: str, leader: type[Member], cluster: Cluster
) -> None:
    """Who comes first leads. With a sticky assignor who stays keeps what it has."""
    others = [client for client in STRATEGIES[strategy] if client is not leader]
    first = member(cluster, leader, strategy)
    with members(first):
        eventually(lambda: standing(cluster) == ("Stable", 1))
        joined = [member(cluster, client, strategy) for client in others]
        with members(*joined):
            every = [first, *joined]
            eventually(lambda: settled(cluster, *every), "an even share")
            read_once_each(cluster, 4, *every)
            staying = (first, joined[0])
            had = [one.owned for one in staying]
            for leaving in joined[1:]:
                leaving.leave()
            eventually(lambda: settled(cluster, *staying), "a share of the two")
            if strategy.endswith("sticky"):
                assert all(old <= one.owned for old, one in zip(had, staying, strict=True))
            read_once_each(cluster, 2, *every)


@pytest.mark.matrix
def test_g69_members_of_one_assignor_and_of_two(cluster: Cluster) -> None:
    """What all have in common is taken; who has nothing in common with the group is refused."""
    java, parley, eager = (member(cluster, client, "range") for client in (Java, Parley, Aiokafka))
    two = f"{ASSIGNORS}CooperativeStickyAssignor,{ASSIGNORS}RangeAssignor"
    java.options = f"partition.assignment.strategy={two}", FREQUENT
    parley.strategy = "cooperative-sticky,range"
    with members(java, parley, eager):
        eventually(lambda: settled(cluster, java, parley, eager))
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            assert client.describe_groups([GROUP])[GROUP].protocol == "range"
        with pytest.raises(InconsistentGroupProtocolError):
            member(cluster, Parley, "cooperative-sticky").consume(lambda: False)


@pytest.mark.matrix
def test_g71_members_of_both_protocols_in_one_group(cluster: Cluster) -> None:
    """The group began with the consumer protocol; the broker shares out for Java's member."""
    modern = [member(cluster, client, "consumer") for client in (Parley, Confluent)]
    with members(*modern):
        eventually(lambda: settled(cluster, *modern))
        classic = member(cluster, Java, "range")
        with members(classic):
            eventually(lambda: settled(cluster, classic, *modern))
            read_once_each(cluster, 3, classic, *modern)
        eventually(lambda: settled(cluster, *modern))
