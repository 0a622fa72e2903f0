"""A model of everything around the exactly-once sink:
brokers, Spark, and what goes wrong at which step.

Every request is a step, counted before and after its effect. At a step the one who runs may be
killed, get an error, or be paused: then Spark takes it for dead and starts another, and it goes on
at a later step as if nothing had happened. Only one thread runs at a time, so that a run is decided
by its faults alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from parley.errors import KafkaError, LocalProtocolError, NetworkError, ProducerFencedError
from parley.spark.write.attempt import attempt
from parley.spark.write.driver import Driver
from parley.spark.write.intent import (
    BatchOfQuery,
    Entry,
    Intent,
    Mark,
    Newest,
    decode,
    encode,
    newest,
)
from parley.spark.write.interfaces import Outcome, ToEnd
from parley.spark.write.messages import Plan
from parley.spark.write.turns import Identity

from ...support import GENEROUS_S

ATTEMPTS = 4
"""spark.task.maxFailures."""


class Kind(Enum):
    """What goes wrong."""

    KILL = "kill -9"
    ERROR = "an error instead of an answer"
    PAUSE = "paused"


class Fault(NamedTuple):
    """Something that goes wrong at a step; what is paused goes on `later` steps after."""

    step: int
    kind: Kind
    later: int = 0


class Killed(BaseException):
    """kill -9: nothing is caught, nothing is cleaned up."""


class Puppet:
    """A driver or an attempt in a thread of its own that runs only while somebody waits for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.paused = self.zombie = False
        self._go, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self.error = error
        self.paused = False
        self._stopped.set()

    def run(self) -> Puppet:
        """Run until the end or a pause."""
        self._stopped.clear()
        if self._thread.ident is None:
            self._thread.start()
        else:
            self.paused, self.zombie = False, True
            self._go.set()
        assert self._stopped.wait(GENEROUS_S)
        return self

    def pause(self) -> None:
        """Stop here until `run` is called again. Called by the puppet itself."""
        self.paused = True
        self._go.clear()
        self._stopped.set()
        assert self._go.wait(GENEROUS_S)


@dataclass
class Producer:
    """A transactional id as its coordinator knows it."""

    identity: Identity
    open: list[Any] | None = None
    ended: bool | None = None
    """How the last transaction ended: committed or not."""


@dataclass
class World:
    """Brokers, checkpoint and faults. Implements `Coordination` and `Journal`."""

    faults: Sequence[Fault] = ()
    ids: dict[str, Producer] = field(default_factory=dict)
    visible: list[Any] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    planned: set[int] = field(default_factory=set)
    """The offset log."""
    done: int = 0
    """The commit log: number of the next batch."""
    step: int = 0
    attempts: int = 0
    errors: list[BaseException] = field(default_factory=list)
    _current: list[Puppet] = field(default_factory=list)
    _sleeping: list[tuple[int, Puppet]] = field(default_factory=list)

    # -- time and faults ---------------------------------------------------------------------------

    def tick(self) -> None:
        if not self._current or self._current[-1].zombie:
            return
        me = self._current[-1]
        self.step += 1
        for entry in [entry for entry in self._sleeping if entry[0] <= self.step]:
            self._sleeping.remove(entry)
            self._play(entry[1])
        for fault in self.faults:
            if fault.step == self.step:
                if fault.kind is Kind.KILL:
                    raise Killed
                if fault.kind is Kind.ERROR:
                    raise NetworkError("the connection was lost")
                self._sleeping.append((self.step + fault.later, me))
                me.pause()

    def _play(self, puppet: Puppet) -> Puppet:
        self._current.append(puppet)
        puppet.run()
        self._current.remove(puppet)
        if puppet.error is not None:
            self.errors.append(puppet.error)
            if not isinstance(puppet.error, Killed | KafkaError):
                raise puppet.error
        return puppet

    # -- coordinators ------------------------------------------------------------------------------

    def init(self, transactional_ids: Sequence[str]) -> list[Identity]:
        found = []
        for name in transactional_ids:
            self.tick()
            producer = self.ids.setdefault(name, Producer(Identity(1000 + len(self.ids), -1)))
            if producer.open is not None:
                producer.open, producer.ended = None, False
            producer.identity = Identity(producer.identity.producer_id, producer.identity.epoch + 1)
            producer.ended = None
            found.append(producer.identity)
            self.tick()
        return found

    def end(self, transactions: Sequence[ToEnd], *, commit: bool) -> list[Outcome]:
        outcomes = []
        for name, identity in transactions:
            self.tick()
            outcomes.append(self._end(name, identity, commit))
            self.tick()
        return outcomes

    def _end(self, name: str, identity: Identity, commit: bool) -> Outcome:
        producer = self.ids.get(name)
        if producer is None:
            return Outcome.FORGOTTEN
        if producer.identity != identity:
            return Outcome.FENCED
        if producer.open is None:
            return Outcome.ENDED if producer.ended is commit else Outcome.OTHERWISE
        for row in producer.open if commit else ():
            if isinstance(row, str):
                self.entries.append(decode(row))
            else:
                self.visible.append(row)
        producer.open, producer.ended = None, commit
        return Outcome.ENDED

    def append(self, name: str, identity: Identity, row: Any) -> None:
        self.tick()
        producer = self.ids[name]
        if producer.identity != identity:
            raise ProducerFencedError("fenced")
        producer.open = [*(producer.open or ()), row]
        self.tick()

    def expire(self, names: Sequence[str]) -> None:
        """Let transactions time out, as coordinators do it: with an epoch that nobody gets."""
        for name in names:
            producer = self.ids[name]
            assert producer.open is not None
            identity = producer.identity
            producer.open, producer.ended = None, False
            producer.identity = Identity(identity.producer_id, identity.epoch + 1)

    # -- the journal -------------------------------------------------------------------------------

    def read(self) -> Newest:
        self.write(Mark())
        return newest(self.entries)

    def write(self, entry: Entry) -> None:
        self.tick()
        self.entries.append(decode(encode(entry)))
        self.tick()

    def decide(self, intent: Intent, transactional_id: str) -> None:
        self.append(transactional_id, intent.by, encode(intent))
        self.tick()
        outcome = self._end(transactional_id, intent.by, True)
        self.tick()
        if outcome is not Outcome.ENDED:
            raise ProducerFencedError("fenced")

    # -- Spark -------------------------------------------------------------------------------------

    def run(self, batches: Sequence[Sequence[Sequence[Any]]], prefix: str = "q") -> None:
        """Run a query to its end: every batch is a list of tasks, every task a list of rows."""
        lives = 0
        while self.done < len(batches):
            lives += 1
            assert lives < 50, f"no end: {self.errors}"
            self.live(batches, prefix)
        while self._sleeping:
            self._play(self._sleeping.pop()[1])

    def _life(self, batches: Sequence[Sequence[Sequence[Any]]], prefix: str) -> None:
        # Spark has a process for each
        planner, committer = Driver(prefix, self, self), Driver(prefix, self, self)
        first = self.done
        while self.done < len(batches):
            number = self.done
            if number != first and number in self.planned:
                raise LocalProtocolError("Concurrent update to the log")
            self.planned.add(number)
            plan = planner.plan()
            messages: list[Any] = [None] * len(batches[number])
            try:
                for slot, rows in enumerate(batches[number]):
                    messages[slot] = self._task(plan, BatchOfQuery("the query", number), slot, rows)
                committer.commit(messages)
            except KafkaError:
                committer.abort(messages)
                raise
            if self.done != number:
                raise LocalProtocolError("Concurrent update to the log")
            self.done += 1

    def live(self, batches: Sequence[Sequence[Sequence[Any]]], prefix: str = "q") -> None:
        """Run a query until its driver is gone, or all is done."""
        self._play(Puppet(lambda: self._life(batches, prefix)))

    def write_all(
        self, plan: Plan, number: int, tasks: Sequence[Sequence[Any]], query: str = "the query"
    ) -> list[Any]:
        """Write a batch's tasks under a plan and return their messages."""
        what = BatchOfQuery(query, number)
        return [
            attempt(plan, what, slot, _batches(rows), self, self._write)
            for slot, rows in enumerate(tasks)
        ]

    def _task(self, plan: Plan, what: BatchOfQuery, slot: int, rows: Sequence[Any]) -> Any:
        for _ in range(ATTEMPTS):
            self.attempts += 1
            puppet = self._play(
                Puppet(lambda: attempt(plan, what, slot, _batches(rows), self, self._write))
            )
            if puppet.error is None and not puppet.paused:
                return puppet.result
        raise NetworkError("the task failed too often")

    def _write(self, transactional_id: str, rows: Iterator[Any]) -> tuple[Identity, int]:
        (identity,) = self.init([transactional_id])
        count = 0
        for batch in rows:
            self.append(transactional_id, identity, batch.row)
            count += 1
        return identity, count

    def open(self) -> list[str]:
        """Return the ids with an open transaction."""
        return [name for name, producer in self.ids.items() if producer.open is not None]

    # -- the account -------------------------------------------------------------------------------

    def account(self, batches: Sequence[Sequence[Sequence[Any]]]) -> tuple[list[Any], list[Any]]:
        """Return (lost, duplicated) rows."""
        wanted = Counter(row for batch in batches for task in batch for row in task)
        found = Counter(self.visible)
        return sorted((wanted - found).elements()), sorted((found - wanted).elements())


class _Row(NamedTuple):
    row: Any
    num_rows: int = 1


def _batches(rows: Sequence[Any]) -> Iterator[Any]:
    return (_Row(row) for row in rows)
