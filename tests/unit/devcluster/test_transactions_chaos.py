"""Transactions under anything that may happen to brokers:
readers of committed records see each of them once.

A plan is drawn from a seed: producers write, commit, abort, die and return, leaders and
coordinators move, brokers stop and start, the cluster is killed and started from its disk, time
passes. A model says what must be read.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.log.replica import Prepared, Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.records import ReadOptions, decode_columns, int64s

Prepare = Callable[..., Prepared]
PARTITIONS, BROKERS, STEPS = 3, 3, 160
TIMEOUT_MS = 1_000
SECOND_GENERATION = (False, True)


class Producer:
    """A transactional producer as its owner sees it: what it wrote since it
    began, and what was committed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.who: ProducerIdentity | None = None
        self.sequences: dict[int, int] = {}
        # partition and timestamp, which is the record's number
        self.open: list[tuple[int, int]] = []
        self.offset: int | None = None


class Plan:
    """One run: the cluster, its producers, and the model."""

    def __init__(self, seed: int, directory: Path, prepared: Prepare, *, second: bool) -> None:
        self.random, self.directory, self.prepared, self.second = (
            random.Random(seed),
            directory,
            prepared,
            second,
        )
        self.now_ms = 1_000
        self.numbers = itertools.count(10_000)
        self.lives = itertools.count(1)
        self.committed: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.offset = -1
        self.producers = [Producer(f"tx-{number}") for number in range(3)]
        self.down: dict[int, BrokerState] = {}
        self.state = self.start()
        self.state.create_topic("t",
                                [[i % 3 + 1, (i + 1) % 3 + 1,
                                              (i + 2) % 3 + 1] for i in range(PARTITIONS)], {},
                                now_ms=self.now_ms)  # fmt: skip

    def start(self) -> ClusterState:
        ids = itertools.count(1_000 * next(self.lives))
        state = ClusterState(
            cluster_id="c", new_topic_id=lambda: next(ids).to_bytes(16, "big"),
            check_crc=lambda batch: True,
            directory=self.directory,
        )  # fmt: skip
        made = {
            state.make_broker(i): BrokerImage(i, "localhost", 9000 + i)
            for i in range(1, BROKERS + 1)
        }
        state.brokers_up(made, now_ms=self.now_ms)
        return state

    def leader(self, index: int) -> Replica:
        return self.state.replication.brokers[
            self.state.image.topics["t"].partitions[index].leader
        ].find("t", index)

    # -- what producers do ---------------------------------------------------------------------

    def init(self, producer: Producer) -> None:
        transactions = self.state.transactions
        with suppress(Refused):  # CONCURRENT_TRANSACTIONS: the open one is aborted first
            transactions.initialise(producer.name, None, timeout_ms=TIMEOUT_MS, now_ms=self.now_ms)
        producer.who = transactions.initialise(
            producer.name, None, timeout_ms=TIMEOUT_MS, now_ms=self.now_ms
        )
        producer.sequences, producer.open, producer.offset = {}, [], None

    def write(self, producer: Producer) -> None:
        if producer.who is None:
            return self.init(producer)
        index, who = self.random.randrange(PARTITIONS), producer.who
        number = next(self.numbers)
        sequence = producer.sequences.get(index, 0)
        self.state.transactions.add(
            producer.name, who, [("t", index)], now_ms=self.now_ms, second_generation=self.second
        )
        batch = self.prepared(
            producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=sequence,
            transactional=True, timestamp_ms=number,
        )  # fmt: skip
        self.state.append(self.leader(index), [batch], now_ms=self.now_ms)
        producer.sequences[index] = sequence + 1
        producer.open.append((index, number))
        return None

    def commit_offset(self, producer: Producer) -> None:
        if producer.who is not None:
            self.state.transactions.add_group(
                producer.name, producer.who, "g", now_ms=self.now_ms, second_generation=self.second
            )
            producer.offset = next(self.numbers)
            offsets = {("t", 0): CommittedOffset(producer.offset)}
            self.state.group_coordinator.add_pending(producer.who, "g", offsets, now_ms=self.now_ms)

    def end(self, producer: Producer) -> None:
        if producer.who is None or not (producer.open or producer.offset):
            return
        commit, before = self.random.random() < 0.7, producer.who
        producer.who = self.state.transactions.end(
            producer.name, before, commit=commit, now_ms=self.now_ms, second_generation=self.second
        )
        if self.random.random() < 0.3:  # the answer was lost: asked again
            again = self.state.transactions.end(
                producer.name,
                before,
                commit=commit,
                now_ms=self.now_ms,
                second_generation=self.second,
            )
            assert again == producer.who
        if producer.who != before:
            producer.sequences = {}
        if commit:
            for index, number in producer.open:
                self.committed[index].append(number)
            # the one written last counts, whoever ends last
            self.offset = max(self.offset, producer.offset or -1)
        producer.open, producer.offset = [], None

    # -- what happens to the cluster -----------------------------------------------------------

    def move_leader(self) -> None:
        index = self.random.randrange(PARTITIONS)
        self.state.move_leader(
            "t", index, self.random.choice(list(self.state.replication.brokers)), now_ms=self.now_ms
        )

    def stop_or_start(self) -> None:
        if len(self.down) < BROKERS - 1 and self.random.random() < 0.6:
            broker = self.random.choice(list(self.state.replication.brokers))
            self.state.broker_down(broker, now_ms=self.now_ms).close()
            self.down[broker] = self.state.make_broker(broker)
        elif self.down:
            broker, state = self.down.popitem()
            self.state.brokers_up(
                {state: BrokerImage(broker, "localhost", 9000 + broker)}, now_ms=self.now_ms
            )

    def kill(self) -> None:
        while self.down:
            broker, state = self.down.popitem()
            self.state.brokers_up(
                {state: BrokerImage(broker, "localhost", 9000 + broker)}, now_ms=self.now_ms
            )
        for broker in self.state.replication.brokers.values():
            broker.close()
        assert self.state.keeper.journal is not None
        self.state.keeper.journal.close()
        self.state = self.start()

    def pass_time(self) -> None:
        """Let transactions expire; their producers begin again."""
        self.now_ms += self.random.choice((100, 400, TIMEOUT_MS + 1))
        self.state.transactions.expire(now_ms=self.now_ms)
        for producer in self.producers:
            held = self.state.transactions.get(producer.name)
            if held is not None and producer.who not in (None, held.identity):
                producer.who, producer.open, producer.offset = None, [], None

    def step(self) -> None:
        producer = self.random.choice(self.producers)
        steps: list[tuple[Callable[[], None], int]] = [
            (lambda: self.write(producer), 10), (lambda: self.end(producer), 5),
            (lambda: self.init(producer), 1),
            (lambda: self.commit_offset(producer), 2), (self.move_leader, 2),
            (self.stop_or_start, 2),
            (self.pass_time, 1), (self.kill, 1),
        ]  # fmt: skip
        (chosen,) = self.random.choices(
            [step for step, _ in steps], [weight for _, weight in steps]
        )
        chosen()

    # -- what readers see ----------------------------------------------------------------------

    def read(self, replica: Replica) -> list[int]:
        """Return the numbers of the records that a reader of committed records is given."""
        end = replica.last_stable_offset
        found = replica.log.read(0, 1 << 30, end_offset=end)
        aborted = [(one.producer_id, one.first_offset) for one in
                   replica.producers.transactions.aborted_within(0, found.next_offset)]  # fmt: skip
        data = b"".join(found.parts)
        numbers: list[int] = []
        for chunk in decode_columns(data, first_offset=0, aborted=aborted, options=ReadOptions()):
            if chunk.columns.timestamps is not None:
                numbers += int64s(chunk.columns.timestamps)
        return numbers


@pytest.mark.parametrize("second", SECOND_GENERATION, ids=["first-generation", "second-generation"])
@pytest.mark.parametrize("seed", range(8))
def test_readers_see_what_was_committed_once_and_nothing_else(
    tmp_path: Path, prepared: Prepare, seed: int, second: bool
) -> None:
    plan = Plan(seed, tmp_path, prepared, second=second)
    for _ in range(STEPS):
        plan.step()
    while plan.down:
        plan.stop_or_start()
    for producer in plan.producers:
        plan.init(producer)
    for index in range(PARTITIONS):
        for broker in plan.state.replication.brokers.values():
            replica = broker.find("t", index)
            assert replica.last_stable_offset == replica.log.end_offset, "nothing is open any more"
            assert sorted(plan.read(replica)) == sorted(plan.committed[index]), (
                f"partition {index} on {broker.id}"
            )
    found = plan.state.groups.committed("g", "t", 0)
    assert (-1 if found is None else found.offset) == plan.offset
    assert sum(map(len, plan.committed.values())) > 10, "the plan did something"
    plan.state.close()
