"""Y10 to Y12 by the map, and 3.4: what is copied is proved, and the move is led through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.cli import main
from parley.client import AsyncConsumer, NewTopic, TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import ConfigError
from parley.pipelines.replication import AsyncReplication, CutoverStep, Replication

from ..support import GENEROUS_S, eventually_async
from .sides import NAME, TOPIC, client, connection, options, read, records, write

PARTITIONS = 2
Sides = tuple[LocalCluster, LocalCluster]


RELEASES = [
    pytest.param(("2.8", "4.3"), id="2.8-4.3"),
    pytest.param(("0.10.2", "3.9"), id="0.10.2-3.9", marks=pytest.mark.matrix),
    pytest.param(("4.3", "0.11"), id="4.3-0.11", marks=pytest.mark.matrix),
]


@pytest.fixture(params=RELEASES)
def both(request: pytest.FixtureRequest) -> Iterator[Sides]:
    old, new = request.param
    settings = ClusterSettings(auto_create_topics=False)
    with (
        LocalCluster(1, old, settings=settings) as source,
        LocalCluster(1, new, settings=settings) as target,
    ):
        source.create_topic(TOPIC, partitions=PARTITIONS)
        yield source, target


def replication(both: Sides, **given: Any) -> AsyncReplication:
    source, target = both
    return AsyncReplication(connection(source), connection(target), options(**given))


async def copy(both: Sides, **given: Any) -> None:
    async with replication(both, **given) as made:
        await made.run(until_caught_up=True)


def states(found: list[CutoverStep]) -> dict[str, str]:
    return {one.step: one.state for one in found}


async def test_what_is_copied_is_equal_while_more_is_written(both: Sides) -> None:
    source, target = both
    write(source, range(300), headers=False)
    await copy(both)
    write(source, range(300, 350), headers=False)  # not copied yet
    write(target, range(900, 905), headers=False)  # of somebody else, behind the copy
    async with replication(both) as made:
        found = await made.verify()
        assert found.equal, found.first_difference
        assert sum(one.left_records for one in found.partitions) == 300
        copying = asyncio.ensure_future(made.run())
        await eventually_async(lambda: sum(map(len, read(target, PARTITIONS))) == 355)
        assert (await made.verify()).partitions  # beside the copy
        made.stop()
        await asyncio.wait_for(copying, GENEROUS_S)
    async with replication(both) as made:
        found = await made.verify()
        # what somebody else wrote stands between copies now
        kinds = {one.difference.kind for one in found.partitions if one.difference is not None}
        assert kinds
        assert kinds <= {"added", "differs"}


async def test_a_record_that_changed_on_its_way_is_found(both: Sides) -> None:
    source, target = both
    write(source, range(200), headers=False)
    await copy(both)
    async with replication(both) as made:
        assert (await made.verify()).equal
        lane = (await made._lanes())[TopicPartition(TOPIC, 0)]
        assert lane.map.end() > 0
    copied = len(read(target, PARTITIONS)[0])
    target.delete_records(TOPIC, 0, 1)
    async with replication(both) as made:
        found = await made.verify()
    first = found.partitions[0]
    assert not found.equal
    assert (first.left_records, first.right_records) == (copied, copied - 1)
    assert first.difference is not None
    assert first.difference.kind == "missing"
    assert first.difference.left is not None
    assert first.difference.left.offset == 0


@pytest.fixture
def new_ones() -> Iterator[Sides]:
    settings = ClusterSettings(auto_create_topics=False)
    with LocalCluster(1, settings=settings) as source, LocalCluster(1, settings=settings) as target:
        yield source, target


async def test_partitions_that_only_the_target_has_are_no_difference(new_ones: Sides) -> None:
    source, target = new_ones
    source.create_topic(TOPIC, partitions=PARTITIONS)
    target.create_topic(TOPIC, partitions=PARTITIONS + 1)
    write(source, range(50))
    await copy(new_ones)
    async with replication(new_ones) as made:
        found = await made.verify()
        assert [one.left for one in found.partitions] == [
            TopicPartition(TOPIC, index) for index in range(PARTITIONS)
        ]
        assert found.equal
        assert states(await made.cutover(quiet_ms=1))["records"] == "done"


@pytest.mark.parametrize("policy", ["compact,delete", "delete"])
async def test_what_compaction_took_from_one_side_is_no_difference(
    new_ones: Sides, policy: str
) -> None:
    source, target = new_ones
    with client(source) as writing:
        writing.create_topics([NewTopic(TOPIC, configs={"cleanup.policy": policy})])
        keys = [str(n % 5) for n in range(10)]
        writing.produce(TOPIC, pa.table({"key": keys, "value": [str(n) for n in range(10)]}))
    await copy(new_ones)
    target.delete_records(TOPIC, 0, 5)  # as a cleaner would: each of these keys came again
    async with replication(new_ones) as made:
        found = await made.verify()
    assert found.equal == (policy != "delete")
    target.delete_records(TOPIC, 0, 6)
    async with replication(new_ones) as made:
        assert not (await made.verify()).equal


async def test_copies_of_two_ways_are_not_compared(both: Sides) -> None:
    async with replication(both, two_way=True, source_id="a", target_id="b") as made:
        with pytest.raises(ConfigError, match="two_way"):
            await made.verify()


async def test_each_step_is_open_until_it_is_done(both: Sides) -> None:
    source, _ = both
    write(source, range(200), headers=False)
    async with replication(both) as made:
        assert states(await made.cutover(quiet_ms=1))["topics"] == "open"
    await copy(both)
    write(source, range(200, 250), headers=False)
    async with replication(both) as made:
        assert await open_step(made) == "copy"
    reading = AsyncConsumer(
        bootstrap_servers=source.bootstrap_servers,
        group_id="nightly",
        auto_offset_reset="earliest",
    )
    async with reading:
        reading.subscribe([TOPIC])
        await asyncio.wait_for(reading.getone(), GENEROUS_S)
        await reading.commit()
        async with replication(both) as made:
            found = await made.cutover(quiet_ms=1, execute=True)
    assert states(found)["records"] == "done"
    assert states(found)["consumers"] == "open"
    assert "nightly (1 from 127.0.0.1)" in next(
        one.what for one in found if one.step == "consumers"
    )
    async with replication(both) as made:
        assert await open_step(made) == "groups"
        done = await made.cutover(quiet_ms=1, execute=True)
        assert set(states(done).values()) == {"done"}
        assert set(states(await made.cutover(quiet_ms=1)).values()) == {"done"}


async def open_step(made: AsyncReplication) -> str:
    """Return the step that is open; those before it are done, those behind it wait."""
    found = await made.cutover(quiet_ms=1)
    at = [one.state for one in found].index("open")
    assert [one.state for one in found] == ["done"] * at + ["open"] + ["waits"] * (
        len(found) - at - 1
    )
    return found[at].step


async def test_who_still_writes_is_seen(both: Sides) -> None:
    source, _ = both
    write(source, range(100), headers=False)
    await copy(both)
    async with replication(both) as made:
        looking = asyncio.ensure_future(made.cutover(quiet_ms=3_000))
        number = 0
        while not looking.done():
            await asyncio.to_thread(write, source, range(number, number + 1), headers=False)
            number += 1
        found = await looking
    assert states(found)["producers"] == "open"
    assert f"{TOPIC}-" in next(one.what for one in found if one.step == "producers")


async def test_a_transaction_that_is_open_is_seen() -> None:
    settings = ClusterSettings(auto_create_topics=False)
    with (
        LocalCluster(1, "3.9", settings=settings) as source,
        LocalCluster(1, "4.3", settings=settings) as target,
    ):
        source.create_topic(TOPIC, partitions=PARTITIONS)
        write(source, range(50))
        await copy((source, target))
        with client(source) as writing, writing.transactions.producer("writer") as producer:
            producer.begin_transaction()
            producer.produce(TOPIC, records(range(50, 60)))
            async with replication((source, target)) as made:
                assert await open_step(made) == "transactions"
            producer.commit_transaction()
        async with replication((source, target)) as made:
            found = await made.cutover(quiet_ms=1, execute=True)
        assert set(states(found).values()) == {"done"}


def test_blocking_code_and_the_command_have_the_same(
    both: Sides, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = both
    write(source, range(100), headers=False)
    arguments = [
        "--source", source.bootstrap_servers, "--target", target.bootstrap_servers, "--name", NAME
    ]  # fmt: skip

    def command(what: str, *more: str) -> int:
        return main(["replicate", what, *arguments, *more])

    assert command("verify") == 2
    assert 'nothing that "to-new" copied' in capsys.readouterr().err
    with Replication(connection(source), connection(target), options()) as made:
        made.run(until_caught_up=True)
        assert made.verify().equal
        assert {one.state for one in made.cutover(quiet_ms=1)} == {"done"}
    assert command("verify") == 0
    assert "equal: 2 partitions, 100 records" in capsys.readouterr().err
    with client(source) as writing:
        writing.create_topics([NewTopic("others")])  # it is not of this replication
        writing.produce("others", pa.table({"value": [b"x"]}))
    assert command("cutover", "--quiet-ms", "1") == 0
    assert "all is in the target" in capsys.readouterr().err
    write(source, range(100, 103), headers=False)
    assert command("verify") == 0
    assert "3 offsets are not copied yet" in capsys.readouterr().err
    assert command("cutover", "--quiet-ms", "1") == 1
    assert "copy\topen" in capsys.readouterr().out
    assert command("cutover", "--quiet-ms", "1", "--execute") == 0
    assert sum(map(len, read(target, PARTITIONS))) == 103
    target.delete_records(TOPIC, 1, 1)
    capsys.readouterr()
    assert command("verify") == 5
    assert f"{TOPIC}-1" in capsys.readouterr().err
