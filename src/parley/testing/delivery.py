"""What was acknowledged against what was read: records lost, duplicated and reordered.

The words are those of Kafka's own system tests (`validate_delivery`): lost is what was acknowledged
and is not there; duplicated is what is there twice; reordered is what stands before something that
was written earlier by the same writer into the same partition. What is there and was never
acknowledged is `unconfirmed`, and no fault: the answer was lost, or the writer gave up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from parley.client import Client, ClientOptions, ClientOptionValues, ProduceOptions, TopicPartition

END = -1
"""The value that marks a partition as complete."""

PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Delivery:
    """An account of one run. `perfect` is what idempotent producers promise."""

    acknowledged: int
    lost: int
    duplicated: int
    reordered: int
    unconfirmed: int

    @property
    def perfect(self) -> bool:
        """Whether nothing was lost, duplicated or reordered."""
        return not (self.lost or self.duplicated or self.reordered)

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.lost} lost, {self.duplicated} duplicated, "
            f"{self.reordered} reordered, {self.unconfirmed} unconfirmed"
        )


def settle_account(acknowledged: Iterable[int], read: Iterable[Iterable[int]]) -> Delivery:
    """Compare acknowledged numbers with those of each partition, in the order of its log.

    >>> str(settle_account([0, 1, 2, 3], [[0, 2], [3, 1, 1, 9]]))
    '4 acknowledged, 0 lost, 1 duplicated, 1 reordered, 1 unconfirmed'
    """
    confirmed = set(acknowledged)
    counted: Counter[int] = Counter()
    reordered = 0
    for partition in read:
        highest = -1
        for value in partition:
            if not counted[value] and value < highest:
                reordered += 1
            highest = max(highest, value)
            counted[value] += 1
    return Delivery(
        acknowledged=len(confirmed),
        lost=len(confirmed - counted.keys()),
        duplicated=sum(count - 1 for count in counted.values()),
        reordered=reordered,
        unconfirmed=len(counted.keys() - confirmed),
    )


@dataclass(slots=True)
class Load:
    """A writer and a reader of one topic, a client each, that run while there is trouble.

    The writer sends the numbers from 0 on, keyed, in small calls, each acknowledged before the
    next.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    options: ProduceOptions = field(default_factory=lambda: ProduceOptions(batch_size=1_000))
    client_options: ClientOptionValues = field(default_factory=ClientOptionValues)
    records_per_call: int = 200
    sent: int = 0
    seen: list[list[int]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    _progress: threading.Condition = field(default_factory=threading.Condition)

    def go_on(self, records: int = 400) -> None:
        """Return when so many more are acknowledged: trouble comes at places, not times."""
        with self._progress:
            target = self.sent + records
            if not self._progress.wait_for(
                lambda: self.sent >= target or self.errors, timeout=PATIENCE_SECONDS
            ):
                raise TimeoutError(f"stuck after {self.sent} acknowledged records")

    def run(self, trouble: Callable[[Load], None]) -> Delivery:
        """Write and read while `trouble` runs; return the account when everything was read.

        Raises the first error of writer or reader, TimeoutError when either does not come to its
        end.
        """
        stop = threading.Event()
        self.seen = [[] for _ in range(self.partitions)]
        writer = threading.Thread(
            target=self._guarded, args=(self._write, stop), name="load-writer"
        )
        reader = threading.Thread(target=self._guarded, args=(self._read, stop), name="load-reader")
        writer.start()
        reader.start()
        try:
            trouble(self)
        finally:
            stop.set()
            writer.join(PATIENCE_SECONDS)
            if not self.errors:
                self._mark_the_end()
            reader.join(PATIENCE_SECONDS if not self.errors else 1)
        if self.errors:
            raise self.errors[0]
        if writer.is_alive() or reader.is_alive():
            raise TimeoutError("writer or reader does not come to its end")
        return settle_account(range(self.sent), self.seen)

    def _guarded(self, work: Callable[[threading.Event], None], stop: threading.Event) -> None:
        try:
            work(stop)
        except BaseException as error:
            with self._progress:
                self.errors.append(error)
                self._progress.notify_all()

    def _client(self, name: str) -> Client:
        options = ClientOptions.of(self.client_options)
        return Client(options.replace(bootstrap_servers=self.bootstrap_servers, client_id=name))

    def _write(self, stop: threading.Event) -> None:
        with self._client("writer") as client:
            while not stop.is_set():
                numbers = range(self.sent, self.sent + self.records_per_call)
                rows = pa.table(
                    {
                        "key": [str(number % 53) for number in numbers],
                        "value": list(map(str, numbers)),
                    }
                )
                client.produce(self.topic, rows, options=self.options)
                with self._progress:
                    self.sent += self.records_per_call
                    self._progress.notify_all()

    def _mark_the_end(self) -> None:
        everywhere = pa.array(range(self.partitions), pa.int32())
        with self._client("writer") as client:
            client.produce(
                self.topic,
                pa.table({"value": [str(END)] * self.partitions, "partition": everywhere}),
            )

    def _read(self, stop: threading.Event) -> None:
        ended = 0
        with self._client("reader") as client:
            for found in client.fetch_many(
                {TopicPartition(self.topic, index): 0 for index in range(self.partitions)}
            ):
                values = [int(value) for value in found.batch.column("value").to_pylist()]
                ended += values.count(END)
                self.seen[found.partition.partition] += [value for value in values if value != END]
                if ended == self.partitions:
                    return
