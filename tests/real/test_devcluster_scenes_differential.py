"""B8: leaders die, followers return, an unclean election loses records: three real brokers and the
    embedded ones.

The same scene is played on both, and after every step epochs, in-sync replicas, high watermark, the
ends of all epochs and the records are the same. Metadata of a real cluster reports a change before
brokers have acted on it, so each side is asked until it says what is expected, and until a record
is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pytest

from parley import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    records,
)
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

ElectLeaders: Any = request_class(ApiKey.ELECT_LEADERS)
EpochEnd: Any = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
Fetch: Any = request_class(ApiKey.FETCH)
ListOffsets: Any = request_class(ApiKey.LIST_OFFSETS)
Metadata: Any = request_class(ApiKey.METADATA)
Produce: Any = request_class(ApiKey.PRODUCE)
TOPIC = "scenes"
SETTLED = "settled"  # the same replicas, min.insync.replicas 1
PATIENCE_S = GENEROUS_S
POLL_S = 0.05
"""Between two questions: without it the asking alone would keep a processor busy."""
QUICK = {
    "zookeeper.session.timeout.ms": "4000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    # a controller does it 5 s after it became one: leaders move by themselves
    "auto.leader.rebalance.enable": "false",
}
UNSETTLED = (3, 5, 6)  # right after a move the new leader may not know it yet

pytestmark = pytest.mark.real


class Side(Protocol):
    """What is done to a cluster, whatever it is made of."""

    def kill(self, broker_id: int) -> None: ...

    def start(self, broker_id: int) -> None: ...

    def elect_unclean(self, broker_id: int) -> None: ...

    def addresses(self) -> dict[int, str]: ...


class Real:
    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster

    def kill(self, broker_id: int) -> None:
        self._cluster.kill(broker_id)

    def start(self, broker_id: int) -> None:
        self._cluster.start_broker(broker_id)

    def elect_unclean(self, broker_id: int) -> None:
        partitions = [ElectLeaders.TopicPartitions(topic=TOPIC, partitions=[0])]

        def elected() -> bool:
            reported = view(self)
            with Wire(self.addresses()[reported["controller"]]) as wire:
                answer = wire.ask(
                    ElectLeaders(election_type=1, topic_partitions=partitions, timeout_ms=10_000), 1
                )
            results = [
                one for topic in answer.replica_election_results for one in topic.partition_result
            ]
            return (
                all(one.error_code in (0, 84) for one in results)
                and view(self)["leader"] == broker_id
            )

        eventually(elected)

    def addresses(self) -> dict[int, str]:
        return {
            i: n.address
            for i, n in self._cluster.nodes.items()
            if n.running and "broker" in n.roles
        }


class Embedded:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def kill(self, broker_id: int) -> None:
        self._cluster.kill(broker_id)
        self._cluster.replicas_agree()

    def start(self, broker_id: int) -> None:
        self._cluster.start_broker(broker_id)
        self._cluster.replicas_agree()

    def elect_unclean(self, broker_id: int) -> None:
        self._cluster.scenes.elect_unclean(TOPIC, 0, broker_id)
        self._cluster.replicas_agree()

    def addresses(self) -> dict[int, str]:
        return {broker.id: broker.address for broker in self._cluster.brokers if broker.running}


def eventually(condition: Callable[[], bool]) -> None:
    """Ask until it holds; a broker that is being restarted may refuse meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, StopIteration, LookupError) as error:
            last = error
        time.sleep(POLL_S)
    raise AssertionError(f"it did not come to be within {PATIENCE_S} s") from last


# -- what is seen ----------------------------------------------------------------------------------


def view(side: Side) -> dict[str, Any]:
    """Leader, epoch and in-sync replicas, as the first broker that answers reports them."""
    with Wire(next(iter(side.addresses().values()))) as wire:
        asked = Metadata(
            topics=[Metadata.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False
        )
        answer = wire.ask(asked, 9)
        partition = answer.topics[0].partitions[0]
    return {
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "isr": sorted(partition.isr_nodes),
        "controller": answer.controller_id,
    }


def leader(side: Side) -> Wire:
    return Wire(side.addresses()[view(side)["leader"]])


def high_watermark(side: Side) -> int:
    partition = ListOffsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = ListOffsets(
        replica_id=-1, topics=[ListOffsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    )
    with leader(side) as wire:
        found = wire.ask(asked, 5).topics[0].partitions[0]
    return int(found.offset) if found.error_code == 0 else -1


def epoch_ends(side: Side, newest: int) -> list[tuple[int, int, int]]:
    parts = [
        EpochEnd.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        for epoch in range(newest + 2)
    ]
    found = []
    with leader(side) as wire:
        for part in parts:  # one partition may be asked about once in a request
            asked = EpochEnd(
                replica_id=-1,
                topics=[EpochEnd.OffsetForLeaderTopic(topic=TOPIC, partitions=[part])],
            )
            answer = wire.ask(asked, 3).topics[0].partitions[0]
            found.append((answer.error_code, answer.leader_epoch, answer.end_offset))
    return found


def values(side: Side) -> list[tuple[int, bytes | None]]:
    part = Fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [Fetch.FetchTopic(topic=TOPIC, partitions=[part])]
    with leader(side) as wire:
        answer = wire.ask(Fetch(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics), 10)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    chunks = decode_columns(found.records, first_offset=0)
    return [(row.offset, row.value) for chunk in chunks for row in records(chunk.columns)]


# -- the scenes ------------------------------------------------------------------------------------


class Player:
    """Plays a scene on one side and keeps what is seen after each step.

    Scenes name brokers by their parts: 1 leads at first, 2 and 3 follow, and 3 is the controller,
    because with ZooKeeper the death of a leader raises the epoch twice when it was the controller.
    `ids` says who plays what.
    """

    def __init__(self, side: Side, ids: Sequence[int]) -> None:
        self.side = side
        self.ids = ids
        self.seen: list[tuple[str, Any]] = []

    def produce(self, *names: str, acks: int = -1, committed: bool = True) -> None:
        """Produce one batch; one that is taken is waited for until it is committed."""
        code, base = self._send(TOPIC, names, acks)
        if code == 0 and committed:
            eventually(lambda: high_watermark(self.side) == base + len(names))
        self.seen.append((f"produce {names} acks={acks}", (code, base)))

    def settle(self) -> None:
        """Wait until the leader has acted on the present in-sync replicas: it leads the
        other topic with the same.
        """
        eventually(lambda: self._send(SETTLED, ("x",), -1)[0] == 0)

    def _send(self, topic: str, names: Sequence[str], acks: int) -> tuple[int, int]:
        now = int(time.time() * 1000)
        rows = [Record(i, now, 0, None, name.encode()) for i, name in enumerate(names)]
        made = encode_batches(columns_from_records(rows, with_offsets=False), None, WriteOptions())
        part = Produce.PartitionProduceData(
            index=0, records=b"".join(bytes(one.data) for one in made)
        )
        topics = [Produce.TopicProduceData(name=topic, partition_data=[part])]
        request = Produce(acks=acks, timeout_ms=10_000, topic_data=topics)
        answers: list[tuple[int, int]] = []

        def answered() -> bool:
            with leader(self.side) as wire:
                reported = wire.ask(request, 7).responses[0].partition_responses[0]
            answers.append((reported.error_code, reported.base_offset))
            return reported.error_code not in UNSETTLED

        eventually(answered)
        return answers[-1]

    def look(self, step: str, leader_id: int, isr: list[int] | None) -> None:
        """Wait for a leader and its in-sync replicas (None: the release decides
        which), then note the rest.
        """
        parts = {broker_id: part for part, broker_id in enumerate(self.ids, start=1)}

        def reported() -> tuple[int, list[int], int]:
            now = view(self.side)
            return (
                parts.get(now["leader"], -1),
                sorted(parts[member] for member in now["isr"]),
                now["epoch"],
            )

        eventually(lambda: reported()[0] == leader_id and isr in (None, reported()[1]))
        self.seen.append((step, reported()))

    def kill(self, part: int) -> None:
        """Kill a broker by its part."""
        self.side.kill(self.ids[part - 1])

    def start(self, part: int) -> None:
        """Start a broker by its part."""
        self.side.start(self.ids[part - 1])

    def elect_unclean(self, part: int) -> None:
        """Let a broker lead that is not in sync."""
        self.side.elect_unclean(self.ids[part - 1])

    def note_epochs(self, step: str) -> None:
        """Note where epochs end: of what is not committed too."""
        self.seen.append((step, epoch_ends(self.side, view(self.side)["epoch"])))

    def note_log(self, step: str) -> None:
        """Note the log as its leader has it."""
        newest = view(self.side)["epoch"]
        eventually(lambda: high_watermark(self.side) >= 0)
        self.seen.append(
            (step, (high_watermark(self.side), epoch_ends(self.side, newest), values(self.side)))
        )


def play_leader_kills(one: Player) -> None:
    """min.insync.replicas=2 of three: leaders die until one is left, and come back."""
    one.look("created", 1, [1, 2, 3])
    one.produce("a", "b")
    one.produce("c")
    one.kill(1)
    one.look("leader 1 killed", 2, [2, 3])
    one.produce("d")
    one.kill(2)
    one.look("leader 2 killed", 3, [3])
    one.settle()
    one.produce("refused")
    # below min.insync.replicas: who sees it depends on the release
    one.produce("e", acks=1, committed=False)
    one.note_epochs("alone")
    one.start(1)
    one.look("1 is back", 3, [1, 3])
    one.produce("f")
    one.start(2)
    one.look("2 is back", 3, [1, 2, 3])
    one.produce("g")
    one.kill(1)
    one.look("follower 1 killed", 3, [2, 3])
    one.produce("h")
    one.note_log("at the end")


def play_unclean_election(one: Player) -> None:
    """The one in-sync replica dies with records that nobody else has; another
    leads, and it cuts its log.
    """
    one.look("created", 1, [1, 2, 3])
    one.produce("a", "b")
    one.kill(2)
    one.kill(3)
    one.look("followers killed", 1, [1])
    one.produce("lost", "lost too")
    one.produce("lost as well")
    one.note_log("before")
    one.kill(1)
    one.start(2)
    # [1], and nobody from 4.1 on: 1 is an eligible leader then
    one.look("nobody in sync", -1, None)
    one.elect_unclean(2)
    one.look("elected", 2, [2])
    one.produce("c", "d", "e", "f")
    one.note_log("another history")
    one.start(1)
    one.look("1 is back", 2, [1, 2])
    one.produce("g")
    one.kill(2)
    one.look("1 leads", 1, [1])
    one.produce("h")
    one.note_log("cut and caught up")


def play_allowed_unclean(one: Player) -> None:
    """The topic allows unclean elections: who returns first leads, without what it lacks."""
    one.look("created", 1, [1, 2, 3])
    one.produce("a", "b")
    one.kill(2)
    one.kill(3)
    one.look("followers killed", 1, [1])
    one.produce("lost", "lost too")
    one.kill(1)
    one.start(2)
    one.look("elected", 2, [2])
    one.produce("c")
    one.note_log("another history")
    one.start(1)
    one.look("1 is back", 2, [1, 2])
    one.note_log("cut and caught up")


SCENES = {
    "leader kills": play_leader_kills,
    "unclean election": play_unclean_election,
    "unclean election allowed": play_allowed_unclean,
}


def create(side: Side, ids: Sequence[int], scene: str) -> None:
    configs = {"min.insync.replicas": "2" if scene == "leader kills" else "1"}
    if scene == "unclean election allowed":
        configs["unclean.leader.election.enable"] = "true"
    with Client(bootstrap_servers=",".join(side.addresses().values())) as client:
        made = [NewTopic(SETTLED, replica_assignments={0: ids})]
        client.create_topics(
            [*made, NewTopic(TOPIC, replica_assignments={0: ids}, configs=configs)]
        )


def with_controller_last(side: Side) -> list[int]:
    with Wire(next(iter(side.addresses().values()))) as wire:
        controller = wire.ask(Metadata(topics=[]), 9).controller_id
    return sorted(side.addresses(), key=lambda broker_id: (broker_id == controller, -broker_id))


# One release in the ordinary suite: three brokers and their deaths take half a minute. Of 2.4.1:
# once its in-sync replicas stayed as they were after a return, until the test gave up; KAFKA-2729
# (leader and ZooKeeper disagree about a version) would explain it.
@pytest.fixture(
    params=[
        pytest.param("2.4.1", marks=pytest.mark.long),
        "3.9.1",
        pytest.param("4.3.0", marks=pytest.mark.long),
    ]
)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def real(release: str) -> Iterator[RealCluster]:
    with RealCluster(release, brokers=3, properties=QUICK, separate_controller=True) as cluster:
        yield cluster


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "scene",
    [
        "leader kills",
        pytest.param("unclean election", marks=pytest.mark.matrix),
        pytest.param("unclean election allowed", marks=pytest.mark.matrix),
    ],
)
def test_b08_leaders_die_and_return_as_in_a_real_cluster(
    real: RealCluster, release: str, scene: str
) -> None:
    with LocalCluster(brokers=3, release=release) as embedded:
        seen = []
        for side in (Embedded(embedded), Real(real)):
            ids = with_controller_last(side)
            create(side, ids, scene)
            one = Player(side, ids)
            SCENES[scene](one)
            seen.append(one.seen)
        assert seen[0] == seen[1]
