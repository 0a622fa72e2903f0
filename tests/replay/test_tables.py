"""Q20: a table's rows as records once more: values, order, each once, at one version."""

from __future__ import annotations

import asyncio
import io
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from parley.arrow import HEADERS_TYPE
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import ConfigError, LakeError, SchemaError, TopicRecreatedError
from parley.pipelines.replay import AsyncReplay, ReplayedTable, ReplayOptions
from parley.registry import RegistryOptions, Schema, SchemaRegistryClient

from ..replication.sides import TOPIC, client, connection, kept, read, write
from ..support import eventually_async
from .lakes import CITIES, NAME, TO, orders, replayed, table_replay, write_delta

ROWS = 3_000
MANUAL = ClusterSettings(auto_create_topics=False)
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "city", "type": "string"},
    {"name": "amount", "type": ["null", "double"], "default": None},
]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, "4.3", settings=MANUAL, schema_registry=True) as running:
        yield running


@pytest.fixture
def to(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone."""
    return f"to-{abs(hash(request.node.nodeid))}"


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose rows are in no order, within its files and among them."""
    numbers = list(range(ROWS))
    random.Random(5).shuffle(numbers)
    parts = [orders(numbers[at : at + 500]) for at in range(0, ROWS, 500)]
    return write_delta(tmp_path_factory.mktemp("lake") / "orders", *parts, partition_by=["day"])


def rows_of(cluster: LocalCluster, topic: str, partitions: int = 1) -> list[dict[str, Any]]:
    return [row for found in read(cluster, partitions, topic=topic) for row in found]


def from_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(row["value"]) for row in rows]


def typed(folder: str, **more: Any) -> ReplayedTable:
    given = {"key": "city", "timestamp": "event_time", "value_format": "json", **more}
    return ReplayedTable(delta=folder, **given)


# -- what arrives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["0.11", "3.9"])
async def test_a_topic_that_became_a_table_becomes_the_topic_again(
    tmp_path: Path, release: str
) -> None:
    with LocalCluster(1, release, settings=MANUAL) as target:
        target.create_topic(TOPIC, partitions=3)
        write(target, range(500))
        before = read(target, 3)
        columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
        rows = [
            {**row, "topic": TOPIC, "partition": index}
            for index, found in enumerate(before)
            for row in found
        ]
        random.Random(3).shuffle(rows)
        schema = client_schema(columns)
        folder = write_delta(tmp_path / "raw", pa.Table.from_pylist(rows, schema))
        table = ReplayedTable(delta=folder)
        assert await replayed(target, table, partition_by="source") == 500
        after = read(target, 3, topic=TO)
        without = [[{**row, "headers": row["headers"][:-1]} for row in found] for found in after]
        assert kept(without) == kept(before)
        places = [[row["headers"][-1]["value"].decode() for row in found] for found in after]
        assert places == [
            [f"{TOPIC}/{index}/{row['offset']}" for row in found]
            for index, found in enumerate(before)
        ]
        assert await replayed(target, table, partition_by="source") == 0  # it is over


def client_schema(columns: tuple[str, ...]) -> pa.Schema:
    types = {
        "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"), "key": pa.binary(), "value": pa.binary(),
        "headers": HEADERS_TYPE,
    }  # fmt: skip
    return pa.schema([(name, types[name]) for name in columns])


@pytest.mark.parametrize("buffer_bytes", [64 * 2**20, 60_000])
async def test_rows_come_in_the_order_of_their_times_whatever_fits_into_memory(
    cluster: LocalCluster, shuffled: str, to: str, buffer_bytes: int
) -> None:
    to = f"{to}-{buffer_bytes}"
    table = typed(shuffled, where="day = '2026-11-02' and amount >= 100")
    count = await replayed(cluster, table, name=to, to=to, partitions=4, buffer_bytes=buffer_bytes)
    wanted = [row for row in orders(range(ROWS)).to_pylist() if row["id"] % 3 == 1]
    wanted = [row for row in wanted if row["amount"] >= 100]
    after = read(cluster, 4, topic=to)
    assert count == len(wanted) == sum(map(len, after))
    for city in CITIES:
        mine = [[row for row in found if row["key"] == city.encode()] for found in after]
        (found,) = [rows for rows in mine if rows]  # one partition has all of a key
        values = from_json(found)
        assert [value["id"] for value in values] == [
            row["id"] for row in wanted if row["city"] == city
        ]
        for row, value in zip(found, values, strict=True):
            assert row["timestamp"].isoformat() == value["event_time"].replace("Z", "+00:00")


async def test_values_are_written_with_the_registrys_schema_and_others_read_them(
    cluster: LocalCluster, shuffled: str, to: str
) -> None:
    options = registry_options(cluster)
    registry = SchemaRegistryClient(options=options)
    found = registry.register_schema(f"{to}-value", Schema(json.dumps(ORDER)))
    table = typed(shuffled, value_format="avro", registry=options, where="day <> '2026-11-02'")
    await replayed(cluster, table, name=to, to=to)
    rows = rows_of(cluster, to)
    schema = fastavro.parse_schema(ORDER)
    values = []
    for row in rows:
        assert row["value"][:5] == b"\0" + found.id.to_bytes(4, "big")
        values.append(fastavro.schemaless_reader(io.BytesIO(row["value"][5:]), schema, None))
    expected = [row for row in orders(range(ROWS)).to_pylist() if row["id"] % 3 != 1]
    assert sorted(values, key=lambda value: value["id"]) == [
        {name: row[name] for name in ("id", "city", "amount")} for row in expected
    ]
    assert [row["timestamp"] for row in rows] == [row["event_time"] for row in expected]


async def test_keys_are_written_with_a_schema_of_their_own_and_others_read_them(
    cluster: LocalCluster, shuffled: str, to: str
) -> None:
    options = registry_options(cluster)
    registry = SchemaRegistryClient(options=options)
    one = registry.register_schema(f"{to}-key", Schema('"long"'))
    named = {"type": "record", "name": "OrderKey", "fields": FIELDS[:2]}
    some = registry.register_schema("orders-by", Schema(json.dumps(named)))

    def keys(rows: list[dict[str, Any]], id: int, schema: Any) -> list[Any]:
        assert {row["key"][:5] for row in rows} == {b"\0" + id.to_bytes(4, "big")}
        return [fastavro.schemaless_reader(io.BytesIO(row["key"][5:]), schema) for row in rows]

    encoded = {
        "key_format": "avro", "key_schema": "latest", "registry": options,
        "value_framing": "none", "register_schemas": True, "where": "day <> '2026-11-02'",
    }  # fmt: skip
    table = typed(shuffled, key="id", **encoded)
    await replayed(cluster, table, name=to, to=to)
    wanted = [number for number in range(ROWS) if number % 3 != 1]
    found = keys(rows_of(cluster, to), one.id, "long")
    assert sorted(found) == wanted
    assert [key // 3 for key in found] == [number // 3 for number in wanted]  # three have a time

    to = f"{to}-struct"
    struct = {"key": None, "key_columns": ("id", "city"), "key_subject": "orders-by"}
    table = typed(shuffled, **struct, **encoded)
    await replayed(cluster, table, name=to, to=to, partitions=3)
    schema = fastavro.parse_schema(named)
    shares = read(cluster, 3, topic=to)
    assert all(shares)  # spread by the bytes that are sent
    for rows in shares:
        for key, value in zip(keys(rows, some.id, schema), from_json(rows), strict=True):
            assert key == {name: value[name] for name in ("id", "city")}
    struct["key_columns"] = ("city", "id")
    with pytest.raises(ConfigError, match="key_columns"):
        await replayed(cluster, typed(shuffled, **struct, **encoded), name=to, to=to)


async def test_an_iceberg_table_is_replayed_like_a_delta_table(
    cluster: LocalCluster, tmp_path: Path, to: str
) -> None:
    settings = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    catalog = SqlCatalog("default", **settings)
    catalog.create_namespace("lake")
    numbers = list(range(600))
    random.Random(7).shuffle(numbers)
    made = catalog.create_table("lake.orders", orders(numbers).schema)
    made.append(orders(numbers[:300]))
    made.append(orders(numbers[300:]))
    table = ReplayedTable(
        iceberg="lake.orders", settings={"type": "sql", **settings}, where="day = '2026-11-03'",
        order=("event_time", "id"), timestamp="event_time", key="id", columns=("id", "amount"),
        value_format="json",
    )  # fmt: skip
    assert await replayed(cluster, table, name=to, to=to) == 200
    made.append(orders(numbers))  # another snapshot: the replay has its own
    assert await replayed(cluster, table, name=to, to=to) == 0
    rows = rows_of(cluster, to)
    assert from_json(rows) == [{"id": n, "amount": n / 4} for n in range(600) if n % 3 == 2]
    assert [row["key"] for row in rows] == [str(n).encode() for n in range(600) if n % 3 == 2]
    catalog.close()


# -- once, and at one version ----------------------------------------------------------------------


async def test_it_goes_on_where_it_was_although_the_table_grows_and_is_compacted(
    cluster: LocalCluster, tmp_path: Path, to: str
) -> None:
    numbers = list(range(900))
    random.Random(9).shuffle(numbers)
    parts = [orders(numbers[at : at + 100]) for at in range(0, 900, 100)]
    folder = write_delta(tmp_path / "orders", *parts)
    given = {"name": to, "to": to, "commit_interval_ms": 20}
    async with table_replay(cluster, typed(folder), bytes_per_second=50_000, **given) as replay:
        await replay.start()
        running = asyncio.ensure_future(replay.run())
        await eventually_async(lambda: replay.records > 0)
        replay.stop()
        await running
        done = replay.records
        (status,) = await replay.status()
        assert (status.next_offset, status.end_offset) == (done, 900)
        assert 0 < done < 900
    write_delta(Path(folder), orders(range(900, 1_000)))
    DeltaTable(folder).optimize.compact()
    assert await replayed(cluster, typed(folder), **given) == 900 - done
    values = from_json(rows_of(cluster, to))
    assert [value["id"] // 3 for value in values] == [number // 3 for number in range(900)]
    assert sorted(value["id"] for value in values) == list(range(900))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"where": "id > 5"}, "where"),
        ({"order": ("id",)}, "order"),
        ({"key": "day"}, "key"),
        ({"columns": ("id",)}, "value"),
        ({"version": 0}, "version"),
    ],
)
async def test_other_rows_or_another_order_under_the_same_name_are_refused(
    cluster: LocalCluster, shuffled: str, changed: dict[str, Any], named: str
) -> None:
    await replayed(cluster, typed(shuffled), name="pinned", to="pinned")
    before = len(rows_of(cluster, "pinned"))
    async with table_replay(
        cluster, typed(shuffled, **changed), name="pinned", to="pinned"
    ) as made:
        with pytest.raises(ConfigError, match=f"was begun with {named}="):
            await made.plan()
    with pytest.raises(ConfigError, match=f"was begun with {named}="):
        await replayed(cluster, typed(shuffled, **changed), name="pinned", to="pinned")
    assert len(rows_of(cluster, "pinned")) == before == ROWS


async def test_a_schema_that_is_newer_than_the_replay_is_refused(
    cluster: LocalCluster, shuffled: str, to: str
) -> None:
    options = registry_options(cluster)
    table = typed(shuffled, value_format="avro", registry=options)
    registry = SchemaRegistryClient(options=options)
    registry.register_schema(f"{to}-value", Schema(json.dumps(ORDER)))
    await replayed(cluster, table, name=to, to=to)
    day = {"name": "day", "type": "string", "default": ""}
    wider = ORDER | {"fields": [*FIELDS, day]}
    registry.register_schema(f"{to}-value", Schema(json.dumps(wider)))
    with pytest.raises(ConfigError, match="was begun with value="):
        await replayed(cluster, table, name=to, to=to)
    first = replace(table, value_schema=f"subject:{to}-value:1")
    async with table_replay(cluster, first, name=to, to=to) as made:
        assert not (await made.plan()).stopping()
    assert await replayed(cluster, first, name=to, to=to) == 0


async def test_a_table_that_was_moved_is_still_the_same(
    cluster: LocalCluster, tmp_path: Path, to: str
) -> None:
    folder = write_delta(tmp_path / "orders", orders(range(30)))
    await replayed(cluster, typed(folder), name=to, to=to)
    shutil.move(folder, tmp_path / "elsewhere")
    assert await replayed(cluster, typed(str(tmp_path / "elsewhere")), name=to, to=to) == 0


async def test_a_table_that_was_replaced_is_not_gone_on_with(
    cluster: LocalCluster, tmp_path: Path, to: str
) -> None:
    folder = write_delta(tmp_path / "orders", orders(range(30)))
    await replayed(cluster, typed(folder), name=to, to=to)
    shutil.rmtree(folder)
    write_delta(tmp_path / "orders", orders(range(30)))
    with pytest.raises(LakeError, match="is another one than the replay"):
        await replayed(cluster, typed(folder), name=to, to=to)


async def test_a_topic_that_was_created_again_is_not_gone_on_with(
    cluster: LocalCluster, shuffled: str, to: str
) -> None:
    await replayed(cluster, typed(shuffled), name=to, to=to)
    with client(cluster) as admin:
        admin.delete_topics([to])
    cluster.create_topic(to)
    with pytest.raises(TopicRecreatedError, match="deleted and created again"):
        await replayed(cluster, typed(shuffled), name=to, to=to)


async def test_a_plan_changes_nothing(cluster: LocalCluster, shuffled: str, to: str) -> None:
    options = registry_options(cluster)
    table = typed(shuffled, value_format="avro", registry=options, register_schemas=True)
    async with table_replay(cluster, table, name=to, to=to, partitions=2) as replay:
        plan = await replay.plan()
    assert [(one.name, one.num_partitions) for one in plan.create] == [(to, 2)]
    assert list((plan.ranges or {}).values()) == [(0, ROWS)]
    registry = SchemaRegistryClient(options=options)
    assert f"{to}-value" not in registry.get_subjects()
    with client(cluster) as looking:
        assert to not in looking.metadata(None).topics
    await replayed(cluster, table, name=to, to=to, partitions=2)
    assert f"{to}-value" in registry.get_subjects()


async def test_old_records_in_a_topic_that_deletes_them_are_named_by_the_plan(
    cluster: LocalCluster, shuffled: str, to: str
) -> None:
    cluster.create_topic(to, configs={"retention.ms": "1000"})
    async with table_replay(cluster, typed(shuffled), name=to, to=to) as replay:
        plan = await replay.plan()
    assert "retention" in {one.code for one in plan.findings}


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "named"),
    [
        ({"key": "cty"}, ConfigError, 'no column "cty", which key names.*Did you mean "city"'),
        ({"key": "amount"}, ConfigError, "key='amount' is a column of the type double"),
        ({"timestamp": "city"}, ConfigError, "timestamp='city' is a column of the type string"),
        ({"timestamp": None}, ConfigError, "nothing says in which order"),
        ({"timestamp": None, "order": ("id",), "speed": 1}, ConfigError, "speed needs times"),
        ({"order": ("amount",)}, ConfigError, "amount, of the type double, .*: integers, d"),
        ({"columns": ("id", "nope")}, ConfigError, 'no column "nope", which columns names'),
        (
            {"key": None, "key_columns": ("nope",), "key_format": "json"},
            ConfigError,
            "which key_columns names",
        ),
        ({"key": None, "key_format": "json"}, ConfigError, "no column key: key_format needs one"),
        ({"value_format": None}, ConfigError, "no column value: give value_format"),
        ({"where": "day ="}, LakeError, "cannot be read where day ="),
        ({"where": "nope = 1"}, LakeError, "No field named nope"),
        ({"version": 99}, LakeError, "cannot be opened"),
        ({"folder": "/nowhere"}, ConfigError, "there is no delta table /nowhere"),
    ],
)
async def test_what_the_table_does_not_have_is_named_and_nothing_is_made(
    cluster: LocalCluster, shuffled: str, to: str, given: dict[str, Any], kind: Any, named: str
) -> None:
    of_table = {name: value for name, value in given.items() if name != "speed"}
    table = typed(**{"folder": shuffled, **of_table})
    with pytest.raises(kind, match=named):
        await replayed(cluster, table, name=to, to=to, speed=given.get("speed"))
    with client(cluster) as looking:
        assert not {to, f"{to}-offsets"} & set(looking.metadata(None).topics)


@pytest.mark.parametrize(
    ("columns", "given", "named"),
    [
        ({"key": [[1]]}, {}, "key='key' is a column of the type list"),
        ({"value": [5]}, {"value_format": None}, "value is of the type int64: give value_format"),
        ({"timestamp": ["now"]}, {"timestamp": None}, "timestamp='timestamp' is a column"),
    ],
)
async def test_a_usual_column_that_cannot_be_used_is_named(
    cluster: LocalCluster,
    tmp_path: Path,
    columns: dict[str, Any],
    given: dict[str, Any],
    named: str,
) -> None:
    folder = write_delta(tmp_path / "t", pa.table({"id": [1], **columns}))
    table = typed(folder, **{"key": None, "timestamp": None, "order": ("id",), **given})
    with pytest.raises(ConfigError, match=named):
        await replayed(cluster, table, name="unusual", to="unusual")


async def test_rows_are_sorted_by_what_the_table_has_and_not_by_the_bytes_of_keys(
    cluster: LocalCluster, tmp_path: Path, to: str
) -> None:
    numbers = [100, 9, 64, -3, 8_000]
    folder = write_delta(tmp_path / "t", pa.table({"key": numbers, "value": ["v"] * 5}))
    for name, given in {"text": {}, "avro": {"key_format": "avro"}}.items():
        table = ReplayedTable(delta=folder, order=("key",), **given)
        await replayed(cluster, table, name=f"{to}-{name}", to=f"{to}-{name}")
    text, avro = ([row["key"] for row in rows_of(cluster, f"{to}-{n}")] for n in ("text", "avro"))
    assert text == [str(number).encode() for number in sorted(numbers)]
    assert [fastavro.schemaless_reader(io.BytesIO(key), "long") for key in avro] == sorted(numbers)


async def test_partitions_that_records_keep_are_added_to_the_topic(
    cluster: LocalCluster, tmp_path: Path, to: str
) -> None:
    table = pa.table({"value": ["a", "b"], "partition": [4, 0], "timestamp": [2, 1]})
    folder = write_delta(tmp_path / "t", table)
    cluster.create_topic(to, partitions=2)
    await replayed(cluster, ReplayedTable(delta=folder), name=to, to=to, partition_by="source")
    found = [[row["value"] for row in rows] for rows in read(cluster, 5, topic=to)]
    assert found == [[b"b"], [], [], [], [b"a"]]


async def test_a_schema_in_headers_needs_them(cluster: LocalCluster, shuffled: str) -> None:
    table = typed(
        shuffled, value_format="avro", registry=registry_options(cluster), register_schemas=True,
        value_framing="confluent-header",
    )  # fmt: skip
    with pytest.raises(ConfigError, match="names the schema in headers"):
        await replayed(cluster, table, name="bare", to="bare", headers="drop")
    assert await replayed(cluster, table, name="bare", to="bare") == ROWS
    assert {row["headers"][0]["key"] for row in rows_of(cluster, "bare")} == {"__value_schema_id"}


async def test_columns_that_do_not_fit_the_schema_are_named_before_anything_is_written(
    cluster: LocalCluster, shuffled: str, to: str
) -> None:
    options = registry_options(cluster)
    schema = ORDER | {"fields": [{"name": "id", "type": "string"}]}
    table = typed(
        shuffled, value_format="avro", registry=options, value_schema=Schema(json.dumps(schema)),
        register_schemas=True,
    )  # fmt: skip
    with pytest.raises(SchemaError, match=r"value\.id"):
        await replayed(cluster, table, name=to, to=to)
    with client(cluster) as looking:
        assert to not in looking.metadata(None).topics


async def test_a_topic_without_a_source_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="source is missing"):
        AsyncReplay(None, connection(cluster), ReplayOptions(name=NAME, topic="a", to="b"))


def registry_options(cluster: LocalCluster) -> RegistryOptions:
    return RegistryOptions(url=cluster.schema_registry.url)
