"""Trouble for producers: connections cut after so many bytes, leaders that move, brokers killed."""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, KafkaError
from parley.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from parley.net import AsyncioBackend
from parley.net.address import Address
from parley.net.stream import Place, Receiver, Segment, Stream
from parley.types import TopicPartition

from .brokers import REPLICAS, Cluster

MOVE_SECONDS = 0.2
LEAST_BYTES, MOST_BYTES = 300, 300_000


class _CutReceiver:
    """A receiver that gets so many bytes of a connection, and then its end."""

    def __init__(self, receiver: Receiver, arrived: Callable[[int], int]) -> None:
        self._receiver, self._arrived = receiver, arrived
        self.get_buffer = receiver.get_buffer
        self.connection_lost = receiver.connection_lost

    def buffer_updated(self, received_bytes: int) -> None:
        """Hand on what the connection may still bring."""
        allowed = self._arrived(received_bytes)
        if allowed > 0:
            self._receiver.buffer_updated(allowed)


class CuttingBackend(AsyncioBackend):
    """The real network, whose connections end after K bytes in both directions together.

    K is drawn for each connection. A request may be cut in the middle, so that the broker has its
    beginning; an answer too, so that what the broker has done is never heard of.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self.active, self.cuts = True, 0

    async def connect(
        self,
        address: Address,
        place: Place,
        receiver: Receiver,
        tls: ssl.SSLContext | None,
        entered: Callable[[str], None],
    ) -> Stream:
        """Connect, and count from there on."""
        left = round(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** self._rng.random())
        stream: Stream | None = None

        def spend(count: int) -> int:
            nonlocal left
            if not self.active:
                return count
            allowed, left = min(count, left), left - count
            return max(0, allowed)

        def ended() -> bool:
            return self.active and left <= 0

        def arrived(count: int) -> int:
            was_over = left <= 0
            allowed = spend(count)
            if ended() and stream is not None:
                self.cuts += not was_over
                stream.abort(reset=True)
            return allowed

        stream = await super().connect(
            address, place, _CutReceiver(receiver, arrived), tls, entered
        )
        write = stream.write

        def written(segments: Sequence[Segment]) -> None:
            if ended():
                return
            for segment in segments:
                allowed = spend(len(segment))
                write([segment[:allowed]])
                if ended():
                    self.cuts += 1
                    stream.close()
                    return

        stream.write = written  # type: ignore[method-assign]
        return stream


class Trouble:
    """Moves leaders every 200 ms and kills brokers, in threads of its own, until it is ended."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, seed: int, kills: int
    ) -> None:
        self._cluster, self._topic, self._partitions = cluster, topic, partitions
        self._wanted_kills = kills
        self._rngs = random.Random(seed), random.Random(seed + 1)
        self._over = threading.Event()
        self._down = threading.Event()
        self.moves = self.kills = 0
        self.failures: list[BaseException] = []
        self.killed_enough = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (self._move, self._kill)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop; return when all brokers run again. Raises what a thread failed with."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failures.append(error)
            self.killed_enough.set()

    def _move(self) -> None:
        rng = self._rngs[0]
        with Client(
            bootstrap_servers=self._cluster.bootstrap_servers, default_api_timeout_ms=5_000
        ) as client:
            while not self._over.wait(MOVE_SECONDS):
                partition = TopicPartition(self._topic, rng.randrange(self._partitions))
                self.moves += moved(self._cluster, client, partition, rng.randint(1, REPLICAS))

    def _kill(self) -> None:
        rng = self._rngs[1]
        while self.kills < self._wanted_kills and not self._over.wait(rng.uniform(1, 3)):
            broker = rng.randint(1, REPLICAS)
            self._cluster.kill_broker(broker)
            self.kills += 1
            self._over.wait(rng.uniform(0, 2))
            self._cluster.start_broker(broker)
        self.killed_enough.set()


def moved(cluster: Cluster, client: Client, partition: TopicPartition, broker: int) -> bool:
    """Have a broker lead a partition; return whether it does now, and did not before."""
    if not isinstance(cluster, LocalCluster):
        return move_real_leader(client, partition, broker)
    topic, index = partition
    led = cluster.leaders(topic)[index][0] == broker
    try:
        cluster.move_leader(topic, index, broker)
    except ConfigError:  # it is down, or not in sync
        return False
    return not led


def move_real_leader(client: Client, partition: TopicPartition, broker: int) -> bool:
    """Make a broker the first replica of a partition and have it elected, as operators do; return
    whether the brokers say that it leads. One that is down, or behind, does not.
    """
    made = AlterPartitionReassignmentsRequest
    others = [one for one in range(1, REPLICAS + 1) if one != broker]
    replicas = made.ReassignablePartition(
        partition_index=partition.partition, replicas=[broker, *others]
    )
    topics = [made.ReassignableTopic(name=partition.topic, partitions=[replicas])]
    wanted = ElectLeadersRequest.TopicPartitions(
        topic=partition.topic, partitions=[partition.partition]
    )
    elect = ElectLeadersRequest(election_type=0, topic_partitions=[wanted], timeout_ms=2_000)
    try:
        controller = client.metadata([partition.topic]).controller_id
        client.request(controller, made(topics=topics, timeout_ms=2_000), 3_000)
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            answer = client.request(controller, elect, 3_000)
            codes = [
                part.error_code
                for result in answer.replica_election_results
                for part in result.partition_result
            ]
            if codes == [0]:
                return True
            if codes != [84]:  # ELECTION_NOT_NEEDED: the new order may not have arrived yet
                return False
            view = client.metadata([partition.topic]).partition(partition)
            if view is not None and view.leader == broker:
                return False  # it led before
            time.sleep(0.02)
    except KafkaError:
        pass  # the controller, or who answers, has just been killed
    return False
