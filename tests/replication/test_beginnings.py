"""Where a replication begins, and that neither a later start nor trouble makes it begin again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import ConfigError, DataLossError, NetworkError
from parley.pipelines.replication import AsyncReplication, readers

from ..support import eventually_async
from .sides import TOPIC, client, connection, options, read

MANUAL = ClusterSettings(auto_create_topics=False)
FOLLOWED = {"topics": (), "topics_pattern": "fl.*", "start": "latest"}


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts a cluster of a release, with the topic if it is to be a source."""
    with ExitStack() as running:

        def start(release: str, *, partitions: int = 0) -> LocalCluster:
            made = running.enter_context(LocalCluster(1, release, settings=MANUAL))
            if partitions:
                made.create_topic(TOPIC, partitions=partitions)
            return made

        yield start


def write(cluster: LocalCluster, partition: int, *values: str, topic: str = TOPIC) -> None:
    with client(cluster) as writing:
        writing.produce(topic, pa.table({"value": list(values)}), partition)


def values(cluster: LocalCluster, partitions: int, **given: str) -> list[list[str]]:
    return [[row["value"].decode() for row in rows] for rows in read(cluster, partitions, **given)]


async def copy(source: LocalCluster, target: LocalCluster, **given: Any) -> None:
    """Copy until caught up."""
    made = AsyncReplication(connection(source), connection(target), options(**given))
    async with made:
        await made.run(until_caught_up=True)


@pytest.mark.parametrize(
    ("release", "given"),
    [
        ("4.3", {"delivery": "exactly-once"}),
        ("1.1", {"delivery": "at-least-once"}),
    ],
    ids=["exactly-once", "at-least-once"],
)
async def test_what_comes_after_the_first_start_is_copied_whoever_was_running_then(
    start: Any, release: str, given: dict[str, str]
) -> None:
    """With start="latest". A partition of which nothing was copied yet, a new partition and a new
    topic have nothing in the map of offsets, and must not begin at an end once more.
    """
    source, target = start("2.8", partitions=2), start(release)
    write(source, 0, "before")
    write(source, 1, "before")
    await copy(source, target, **FOLLOWED, **given)
    reading = {"isolation_level": "read_uncommitted"}
    assert values(target, 2, **reading) == [[], []]
    write(source, 1, "idle until now")
    source.add_partitions(TOPIC, 3)
    write(source, 2, "new partition")
    source.create_topic("flown", partitions=1)
    write(source, 0, "new topic", topic="flown")
    await copy(source, target, **FOLLOWED, **given)
    assert values(target, 3, **reading) == [[], ["idle until now"], ["new partition"]]
    assert values(target, 1, topic="flown", **reading) == [["new topic"]]


async def test_what_appears_while_it_runs_is_copied_from_its_beginning(start: Any) -> None:
    source, target = start("3.9", partitions=1), start("3.9")
    replication = AsyncReplication(connection(source), connection(target), options(**FOLLOWED))
    async with replication:
        await replication.start()
        source.create_topic("flown", partitions=1)
        write(source, 0, "first", topic="flown")
        await replication.follow()
        await replication.run(until_caught_up=True)
    assert values(target, 1, topic="flown") == [["first"]]


async def test_what_retention_took_before_anything_was_copied_is_found_out(start: Any) -> None:
    source, target = start("3.9", partitions=1), start("3.9")
    await copy(source, target, start="latest")
    write(source, 0, "a", "b")
    source.delete_records(TOPIC, 0, 1)
    with pytest.raises(DataLossError, match=r"offsets 0 to 0, which were not copied"):
        await copy(source, target, start="latest")


async def test_under_one_name_two_sources_are_not_mixed(start: Any) -> None:
    """Sources without topic ids: that a topic is another one is not to be seen from them."""
    first, second, target = start("2.4", partitions=1), start("2.4", partitions=1), start("3.9")
    write(first, 0, "of the first")
    write(second, 0, "of the second", "more of the second")
    await copy(first, target)
    with pytest.raises(ConfigError, match="give this replication another name"):
        await copy(second, target)
    write(first, 0, "more of the first")
    await copy(first, target)
    assert values(target, 1) == [["of the first", "more of the first"]]


class Interrupted:
    """Reading that `interrupt` lets fail, as a connection does that is cut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read = readers.read
        self._interruptions: list[asyncio.Event] = []
        monkeypatch.setattr(readers, "read", self.read)

    @property
    def started(self) -> int:
        """How often reading began."""
        return len(self._interruptions)

    def interrupt(self) -> None:
        self._interruptions[-1].set()

    async def read(self, *given: Any) -> None:
        interruption = asyncio.Event()
        self._interruptions.append(interruption)
        reading = asyncio.ensure_future(self._read(*given))
        waiting = asyncio.ensure_future(interruption.wait())
        try:
            await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
            if interruption.is_set():
                raise NetworkError("the connection was cut")
            await reading
        finally:
            reading.cancel()
            waiting.cancel()


async def test_short_trouble_while_nothing_comes_does_not_add_up(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing gets through where nothing is written; patience is for trouble that lasts."""
    source, target = start("3.9", partitions=1), start("3.9")
    write(source, 0, "a")
    connections = Interrupted(monkeypatch)
    given = options(patience_ms=1)
    replication = AsyncReplication(connection(source), connection(target), given)
    async with replication:
        running = asyncio.ensure_future(replication.run())
        await eventually_async(lambda: replication.records == 1)
        for number in range(1, 4):
            connections.interrupt()
            await eventually_async(
                lambda begun=number + 1: connections.started == begun or running.done()
            )
        write(source, 0, "b")
        await eventually_async(lambda: replication.records == 2 or running.done())
        replication.stop()
        await running
    assert values(target, 1) == [["a", "b"]]
