"""A client and a cluster in virtual time, what may be
done to them, and what must hold whatever was done.

The cluster's own logs are the oracle: they are looked at directly, never through the client under
test.

1. No acknowledged record is lost silently: it is in its leader's log, unless a re-creation took it,
   or an unclean election, which the test has done itself: what the elected replica did not have at
   that moment, and what brokers took afterwards that had not heard of it.
2. Nothing is there twice, and the values of a partition are in the order in which they were given.
3. What the reader has handed out for an offset is what lies at that offset when all is quiet again;
   it goes up to the end. Where the log lost records that were handed out, the reader has said so.
4. Leader epochs in the client's cache never go backwards, but for an event that the application
   heard.
5. Metadata requests are bounded by the time that has passed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pyarrow as pa

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    PossibleDataLoss,
    ProduceOptions,
    TopicPartition,
    TopicRecreated,
)
from parley.devcluster import AsyncLocalCluster
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.errors import ConfigError, KafkaError
from parley.records import ReadOptions, decode_columns, records
from parley_laboratory.virtual import VirtualTime

TOPIC = "t"
PARTITIONS = 2
BROKERS = 3
OPTIONS = ProduceOptions(delivery_timeout_ms=300_000, batch_size=200)
CLIENT = {
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 30_000,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
}
QUIET_MS = 120_000
"""Time of the clock within which everything that was wanted has happened, once
nothing is wrong any more.
"""


class World:
    """A cluster, a client that writes and one that reads, and the account of both."""

    def __init__(self, releases: tuple[str, ...], seed: int = 0) -> None:
        self.time = VirtualTime(seed)
        self.cluster = AsyncLocalCluster(
            brokers=BROKERS,
            releases=dict(enumerate(releases, 1)),
            clock=self.time.clock,
            seed=seed,
            backend=self.time.network,
        )
        self.returns_ids = all(
            tuple(map(int, release.split("."))) >= (2, 8) for release in releases
        )
        self.heard: list[Any] = []
        self.seen = Counter[str]()
        self.values = 0
        self.calls: list[tuple[Any, TopicPartition, list[int]]] = []
        self.after: dict[TopicPartition, dict[int, int]] = {tp: {} for tp in partitions()}
        """For the first value of each call: the values below this one were
        acknowledged when it began.
        """
        self.acked: dict[TopicPartition, set[int]] = {tp: set() for tp in partitions()}
        self.may_be_gone: dict[TopicPartition, set[int]] = {tp: set() for tp in partitions()}
        self.handed_out: dict[TopicPartition, dict[int, int]] = {tp: {} for tp in partitions()}
        self.deposed: dict[TopicPartition, set[int]] = {tp: set() for tp in partitions()}
        """Brokers that were away from an unclean election, and may have gone
        on in the other history.
        """
        self.epochs: dict[TopicPartition, int] = {}
        # whether a re-creation happened that no client of these releases can see
        self.blind = False
        self.time.run(self.cluster.start())
        self.cluster.create_topic(TOPIC, PARTITIONS, BROKERS)
        servers = ",".join(str(broker.address) for broker in self.cluster.brokers)
        self.writer, self.reader = (
            AsyncClient(
                bootstrap_servers=servers,
                backend=self.time.network,
                clock=self.time.clock,
                rng=self.time.rng,
                on_event=self.heard.append,
                **CLIENT,
            )
            for _ in range(2)
        )
        self.consumer = AsyncConsumer(
            self.reader, auto_offset_reset="earliest", fetch_max_wait_ms=100
        )
        self.time.run(self._begin())
        self._asked = self._count_metadata()
        self._allowed = 0.0

    async def _begin(self) -> None:
        await self.writer.start()
        await self.consumer.start()
        self.consumer.assign(partitions())

    # -- what the clients do -----------------------------------------------------------------------

    def produce(self, partition: int, count: int) -> None:
        """Give the writer some values; what becomes of them is seen later."""
        tp = TopicPartition(TOPIC, partition)
        values = list(range(self.values, self.values + count))
        self.values += count
        rows = pa.table({"value": [str(value) for value in values]})
        waiting = [given[0] for _, other, given in self.calls if other == tp]
        self.after[tp][values[0]] = min(waiting, default=values[0])
        self.calls.append(
            (self.time.start(self.writer.produce(TOPIC, rows, partition, OPTIONS)), tp, values)
        )
        self._settle_calls()

    def poll(self) -> None:
        """Let the reader hand out what it has."""
        for tp, batches in self.time.run(self._poll()).items():
            for value, offset in batches:
                self.handed_out[tp][offset] = value

    async def _poll(self) -> dict[TopicPartition, list[tuple[int, int]]]:
        found: dict[TopicPartition, list[tuple[int, int]]] = {}
        for tp, rows in (await self.consumer.getmany(timeout_ms=0)).items():
            found[tp] = [(int(record.value), record.offset) for record in rows]
        return found

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        self.time.advance(duration_ms)
        self._allowed += duration_ms
        self._settle_calls()

    def _settle_calls(self) -> None:
        for call in [call for call in self.calls if call[0].done()]:
            self.calls.remove(call)
            task, tp, values = call
            task.result()  # raises: nothing that happens here may reach the application
            self.acked[tp] |= set(values)

    # -- what is done to the cluster ---------------------------------------------------------------

    def do(self, name: str, *arguments: Any, **named: Any) -> bool:
        """Call a method of the cluster, or of a part of it (`scenes.lag`);
        False where it cannot be.
        """
        self._note_cut_off()
        try:
            result = attrgetter(name)(self.cluster)(*arguments, **named)
            if hasattr(result, "__await__"):
                self.time.run(result)
        except ConfigError:
            return False
        self.seen[name] += 1
        return True

    def lose_leaders(self, partition: int, to: int | None, lose: int) -> bool:
        """Elect uncleanly; what was there or acknowledged and is not in the elected
        replica's log may be gone.
        """
        tp = TopicPartition(TOPIC, partition)
        away = {broker.id for broker in self.cluster.brokers if not self._hears(broker.id)}
        held = self.acked[tp] | {
            value for replica in self._replicas(tp).values() for value in values_of(replica)
        }
        if not self.do("scenes.elect_unclean", TOPIC, partition, to, lose=lose):
            return False
        self.may_be_gone[tp] |= held - set(self.log(tp).values())
        self.deposed[tp] |= away
        return True

    def _hears(self, broker_id: int) -> bool:
        running = self.cluster.broker(broker_id).running
        return running and self.cluster.state.replication.links.hears_controller(broker_id)

    def _note_cut_off(self) -> None:
        """Let those records be lost that a deposed broker holds outside the elected
        history: it cuts them off.
        """
        for tp, away in self.deposed.items():
            if not away:
                continue
            kept = set(self.log(tp).values())
            for broker_id, replica in self._replicas(tp).items():
                if broker_id in away:
                    self.may_be_gone[tp] |= set(values_of(replica)) - kept

    def _replicas(self, tp: TopicPartition) -> dict[int, Replica]:
        """Return the partition's replicas by broker, those of stopped brokers too."""
        key = ReplicaKey(self.cluster.state.image.topics[tp.topic].topic_id, tp.partition)
        states = {
            broker.id: broker.state for broker in self.cluster.brokers if broker.state is not None
        }
        states |= self.cluster._brokers.stopped_states
        return {
            broker_id: state.replicas[key]
            for broker_id, state in states.items()
            if key in state.replicas
        }

    def recreate(self) -> None:
        """Delete the topic and create it again."""
        if not self.do("scenes.recreate_topic", TOPIC):
            return
        self.blind = self.blind or not self.returns_ids
        for tp in partitions():
            self.may_be_gone[tp] |= self.acked[tp]
            self.may_be_gone[tp] |= {
                value for _, other, values in self.calls if other == tp for value in values
            }
            self.handed_out[tp].clear() if self.blind else None

    # -- what must hold ----------------------------------------------------------------------------

    def log(self, tp: TopicPartition) -> dict[int, int]:
        """Return offset → value of a partition's leader, or of its newest replica
        where it has no leader.
        """
        image = self.cluster.state.image.topics[tp.topic]
        key = ReplicaKey(image.topic_id, tp.partition)
        replicas = [
            b.state.replicas[key]
            for b in self.cluster.brokers
            if b.state and key in b.state.replicas
        ]
        leader = self.cluster.state.replication.leader_of(key)
        if leader is None and not replicas:
            return {}
        replica = leader or max(replicas, key=lambda r: (r.leader_epoch, r.log.end_offset))
        return dict(rows_of(replica))

    def check_always(self) -> None:
        """What holds at every moment."""
        for tp in partitions():
            leader = self.writer._cluster.leader(tp)
            known = self.writer._cluster.cache.last_seen_epoch(tp)
            if known is not None:
                reported = any(
                    tp in event.partitions
                    if isinstance(event, PossibleDataLoss)
                    else event.topic == tp.topic
                    for event in self.heard
                    if isinstance(event, PossibleDataLoss | TopicRecreated)
                )
                assert reported or known >= self.epochs.get(tp, -1), (
                    f"{tp}: epoch {known} after {self.epochs[tp]}"
                )
                # a hint may be taken back, an answer never
                if tp not in self.writer._cluster.cache._known.hinted:
                    self.epochs[tp] = known
            assert leader.epoch >= -1
        asked, self._asked = self._count_metadata() - self._asked, self._count_metadata()
        # two clients, each with pauses that begin at 80 ms; a few more for questions of a moment
        self._allowed -= asked * 35.0
        assert self._allowed > -600, f"{asked} metadata requests in so little time"
        self._allowed = min(self._allowed, 2_000.0)

    def _count_metadata(self) -> int:
        return len(self.cluster.requests("Metadata"))

    def heal(self) -> None:
        """End everything that is wrong with the cluster."""
        self.cluster.faults.clear()
        for broker in self.cluster.brokers:
            if not broker.running:
                self.do("start_broker", broker.id)
        self.do("scenes.heal")
        self.cluster.scenes.release_metadata()
        self.cluster.scenes.catch_up()
        for partition, (leader, _) in self.cluster.leaders(TOPIC).items():
            if leader < 0:
                self.lose_leaders(partition, None, 0)

    def check_quiet(self) -> None:
        """Heal the cluster, wait until everything given is acknowledged and read, and compare."""
        self.heal()
        self.time.until(lambda: all(task.done() for task, _, _ in self.calls), limit_ms=QUIET_MS)
        self._settle_calls()
        for tp in partitions():
            log = self.log(tp)
            values = list(log.values())
            assert len(values) == len(set(values)), f"{tp}: twice in the log"
            self._check_order(tp, values)
            lost = self.acked[tp] - set(values) - self.may_be_gone[tp]
            assert not lost, f"{tp}: {sorted(lost)[:5]} were acknowledged and are gone"
            # given again by the writer, or never lost: from now on it must stay
            self.may_be_gone[tp] -= set(values)
            self.deposed[tp].clear()
        self._drain()
        self._asked = self._count_metadata()
        self.cluster.clear_requests()
        self._asked = 0
        self._allowed = 0.0

    def _check_order(self, tp: TopicPartition, values: list[int]) -> None:
        """Values of one call are in order, and behind those of every call that
        had ended when it began.
        """
        starts = sorted(self.after[tp])
        newest_of: dict[int, int] = {}
        ended = -1  # values below had been acknowledged before some call whose values were seen
        for value in values:
            call = starts[bisect_right(starts, value) - 1]
            assert newest_of.get(call, -1) < value, f"{tp}: {value} is out of order within its call"
            assert value >= ended, (
                f"{tp}: {value} is behind what was given after its acknowledgement"
            )
            newest_of[call] = value
            ended = max(ended, self.after[tp][call])

    def _drain(self) -> None:
        began_ms = self.time.clock.now_ms()
        while not all(self._agrees(tp) for tp in partitions()):
            self.poll()
            self.time.advance(50)
            if self.time.clock.now_ms() > began_ms + QUIET_MS:
                for tp in partitions():
                    assert self._agrees(tp), f"{tp}: the reader is in another history"
                return

    def _agrees(self, tp: TopicPartition) -> bool:
        """Whether what was handed out for the offsets that are there is what lies there."""
        log = self.log(tp)
        return (
            self.blind
            or {at: value for at, value in self.handed_out[tp].items() if at in log} == log
        )

    def close(self) -> None:
        """End everything."""
        self.time.run(self.consumer.stop())
        for client in (self.writer, self.reader):
            self.time.run(client.close())
        for task, _, _ in self.calls:
            task.cancel()
        self.time.run(self.cluster.close())
        self.time.close()


def rows_of(replica: Replica) -> Iterator[tuple[int, int]]:
    """Yield offset and value of everything in a replica's log."""
    parts = replica.log.read(
        0, 2**31 - 1, end_offset=replica.log.end_offset, at_least_one=True
    ).parts
    for chunk in decode_columns(
        b"".join(bytes(part) for part in parts), first_offset=0, options=ReadOptions()
    ):
        for record in records(chunk.columns):
            yield record.offset, int(record.value or b"")


def values_of(replica: Replica) -> list[int]:
    """Return the values in a replica's log."""
    return [value for _, value in rows_of(replica)]


def partitions() -> list[TopicPartition]:
    """Return the partitions of the topic."""
    return [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]


__all__ = ["BROKERS", "PARTITIONS", "TOPIC", "KafkaError", "World", "partitions"]
