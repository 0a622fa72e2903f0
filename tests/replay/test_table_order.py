"""A table's rows stand in the order of its own columns, and in that in which a replay was begun."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from parley.devcluster import ClusterSettings, LocalCluster
from parley.pipelines.replay import ReplayedTable

from ..replication.sides import client, read
from .lakes import replayed, table_replay, write_delta

MICROSECONDS = pa.timestamp("us", tz="UTC")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = ClusterSettings(auto_create_topics=False)
    with LocalCluster(1, "4.3", settings=settings) as running:
        yield running


def two_times(folder: Path) -> ReplayedTable:
    """Return a table that has the record's time in another column than `timestamp`, which it is
    ordered by.
    """
    times = {
        "timestamp": pa.array([3_000, 2_000, 1_000], MICROSECONDS),
        "event_time": pa.array([10_000, 20_000, 30_000], MICROSECONDS),
    }
    rows = pa.table({**times, "key": [b"a"] * 3, "value": [b"3", b"2", b"1"]})
    path = write_delta(folder / "two", rows)
    return ReplayedTable(delta=path, timestamp="event_time", order=("timestamp",))


def values(cluster: LocalCluster, topic: str) -> list[bytes]:
    (rows,) = read(cluster, 1, topic=topic)
    return [row["value"] for row in rows]


async def test_order_names_the_tables_column_and_not_the_records_time(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    await replayed(cluster, two_times(tmp_path), name="named", to="named")
    assert values(cluster, "named") == [b"1", b"2", b"3"]


@pytest.mark.parametrize("name", ["timestamp", "event_time"])
async def test_times_within_a_millisecond_keep_their_order(
    cluster: LocalCluster, tmp_path: Path, name: str
) -> None:
    times = pa.array([1_000, 1_500, 1_900], MICROSECONDS)
    rows = pa.table({name: times, "key": [b"a"] * 3, "value": [b"c", b"b", b"a"]})
    table = ReplayedTable(delta=write_delta(tmp_path / name, rows), timestamp=name)
    await replayed(cluster, table, name=name, to=name)
    assert values(cluster, name) == [b"c", b"b", b"a"]


async def test_a_replay_goes_on_in_the_order_in_which_it_was_begun(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    table = two_times(tmp_path)
    async with table_replay(cluster, table, name="begun", to="begun") as replay:
        await replay.start()
    (found,) = read(cluster, 1, topic="begun-offsets")
    settled = next(json.loads(row["value"]) for row in found if row["key"] == b"replay")
    assert settled["table"].pop("sorted_by") == "columns"
    # as releases settled it that put the record's time in the place of a column `timestamp`
    before = pa.table({"key": [b"replay"], "value": [json.dumps(settled).encode()]})
    with client(cluster) as writing:
        writing.produce("begun-offsets", before)
    assert await replayed(cluster, table, name="begun", to="begun") == 3
    assert values(cluster, "begun") == [b"3", b"2", b"1"]
    assert await replayed(cluster, table, name="begun", to="begun") == 0  # it is over
