"""What type checkers say of a user's program: nothing of
a right one, and every misspelt option of a wrong one.

The two are mypy --strict and pyright, which is what Pylance shows in editors (from PyPI, as
basedpyright).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import ssl
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest

import parley
from parley.client import (
    BatchShape,
    ClientOptions,
    ConsumerOptions,
    FetchOptions,
    ProduceOptions,
    ProducerOptions,
    SchemaOptions,
    ShareConsumerOptions,
)
from parley.client.consumer.deserializing import Deserialize
from parley.client.consumer.option_values import ConsumerOptionValues
from parley.client.group.assignors import Assignor
from parley.client.options.values import (
    ClientOptionValues,
    FetchOptionValues,
    Milliseconds,
    ProduceOptionValues,
    SchemaOptionValues,
)
from parley.client.producer import record
from parley.client.producer.option_values import ProducerOptionValues
from parley.client.share.option_values import ShareConsumerOptionValues
from parley.errors import ConfigError
from parley.net.options import TokenProvider
from parley.registry import RegistryOptions, SchemaRegistryClient
from parley.serdes import Schema

RIGHT = """
import asyncio
from collections.abc import Collection, Iterator
from datetime import timedelta

import pyarrow as pa

from parley import (
    EARLIEST, LATEST, AsyncClient, Client, Consumer, ClientOptions, AsyncConsumer, ConsumerOptions,
    FetchOptions, NewTopic, OffsetAndMetadata, ProduceOptions, TopicPartition,
    AcknowledgeType, AsyncProducer, AsyncShareConsumer, Producer, ShareConsumer,
    Acknowledgement, ConsumerRebalanceListener, ConsumerRecord, KafkaError, RecordMetadata,
)
from parley.client import ClusterMetadata, record_shape
from parley.devcluster import LocalCluster
from parley.messages import MetadataRequest

TP = TopicPartition("flights", 0)


def names() -> Iterator[str]:
    yield "flights"


def blocking(table: pa.Table) -> int:
    servers = ["a:1", "b:2"]
    with Client(bootstrap_servers=servers, request_timeout_ms=timedelta(seconds=3)) as client:
        options = client.options.replace(client_id="other")
        options = options.replace(retry_backoff_ms=timedelta(seconds=1))
        print(options.client_id, ProduceOptions().replace(acks=1))
        print(ConsumerOptions().replace(group_id="g", check_crcs=True))
        client.create_topics([NewTopic("flights", configs={"retention.ms": "5"})])
        client.delete_topics(["flights"])
        client.delete_topics(("flights",), timeout_ms=5)
        client.delete_topics({"flights"})
        client.delete_topics({"flights": 1}.keys())
        client.delete_topics(names())
        found: ClusterMetadata = client.metadata(["flights"])
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="flights")])
        answer = client.request(None, asked)
        leaders: list[int] = [one.leader_id for topic in answer.topics for one in topic.partitions]
        print(leaders, answer.throttle_time_ms)
        client.produce("flights", table, options=ProduceOptions(acks="all"))
        client.produce("flights", [batch for batch in table.to_batches()])
        client.produce(None, pa.RecordBatch())
        client.commit_offsets("g", {TP: 7})
        client.commit_offsets("g", {TP: OffsetAndMetadata(7)})
        with client.transactions.producer("w") as producer, producer.transaction():
            producer.send_offsets_to_transaction({TP: 7}, "g")
        rows = 0
        for batch in client.fetch(TP, EARLIEST, LATEST, FetchOptions(shape=record_shape(["key"]))):
            rows += batch.num_rows
        for taken in client.fetch_many({TP: (0, 5)}):
            rows += taken.batch.num_rows
        return rows + len(found.topics)


async def asynchronous() -> None:
    async with AsyncClient(ClientOptions(client_id="me"), require=["record-headers"]) as client:
        print((await client.list_offsets({TP: EARLIEST}))[TP].offset)
        async with AsyncConsumer(client, group_id="g", fetch_min_bytes=5) as consumer:
            consumer.assign([TP])
            print((await consumer.getone()).value)


def share() -> None:
    with ShareConsumer(bootstrap_servers="a:1", group_id="g", max_poll_records=5) as consumer:
        consumer.subscribe(["flights"])
        for record in consumer.getmany(timeout_ms=5)[TP]:
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        consumer.acknowledge(TP, offset=5)
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: print(offsets, error))
        consumer.commit()


async def share_too() -> None:
    async with AsyncShareConsumer(AsyncClient(), group_id="g") as consumer:
        async for record in consumer:
            print(record.delivery_count, consumer.acquisition_lock_timeout_ms)


def consume() -> int:
    with Consumer(bootstrap_servers="a:1", group_id="g", sasl_plain_password="x") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        return consumer.position(TP)


def produce() -> int:
    with Producer(bootstrap_servers="a:1", linger_ms=5, partitioner="fnv1a") as producer:
        sent = producer.produce("flights", b"value", key=b"key", headers=[("name", None)])
        producer.produce("flights", b"", on_delivery=lambda error, found: print(error, found))
        with producer.transaction():
            producer.send_batch("flights", pa.table({"value": ["a"]}))
        return sent.result(timeout_ms=5).offset


def as_bytes(value: dict[str, int]) -> bytes:
    return b"%d" % len(value)


def length(value: bytes) -> int:
    return len(value)


def by_length(topic: str, key: bytes | None, known: list[int], available: list[int]) -> int:
    return known[len(key or b"") % len(known)]


def delivered(error: KafkaError | None, metadata: RecordMetadata) -> None:
    print(error, metadata.offset)


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        print(*assigned)


def with_functions() -> None:
    with Producer(value_serializer=as_bytes, partitioner=by_length) as producer:
        sent: Acknowledgement = producer.produce("flights", {"a": 1}, on_delivery=delivered)
    with Consumer(value_deserializer=length, group_id="g") as consumer:
        consumer.subscribe(["flights"], listener=Listener())
        record: ConsumerRecord = consumer.getone()
    print(sent.done(), record.value)


async def produce_too() -> None:
    async with AsyncProducer(AsyncClient(), transactional_id="t") as producer:
        print((await (await producer.send("flights", b"value"))).topic_partition)
        producer.send_nowait("flights", key=b"key", partition=0)
        print((await producer.send_and_wait("flights", b"")).timestamp_ms)


with LocalCluster(brokers=1) as cluster:
    cluster.create_topic("flights", partitions=2)
asyncio.run(asynchronous())
"""

WRONG = """
from parley import (
    AsyncClient, Client, Consumer, ClientOptions, AsyncConsumer, ConsumerOptions, FetchOptions,
    NewTopic, ProduceOptions, AsyncProducer, Producer, ShareConsumer, TopicPartition,
)
from parley import Clent  # wrong
from parley.client import Nonsense  # wrong
from parley.client import record_shape
from parley.devcluster import LocalCluster
from parley.messages import MetadataRequest, MetadataResponse

TP = TopicPartition("flights", 0)
AsyncClient(bootstrap_server="a:1")  # wrong
Client(bootstrap_server="a:1")  # wrong
AsyncClient(linger_ms=5)  # wrong
Client(request_timeout_ms="soon")  # wrong
AsyncConsumer(group="g")  # wrong
Consumer(group="g")  # wrong
AsyncConsumer(auto_offset_rest="latest")  # wrong
ProduceOptions(linger_ms=5)  # wrong
AsyncProducer(linger=5)  # wrong
Producer(batch_bytes=5)  # wrong
Producer().produce("flights", headers=5)  # wrong
Producer().produce(b"flights")  # wrong
FetchOptions(fetch_max=5)  # wrong
ClientOptions(bootstrap="a:1")  # wrong
ConsumerOptions(group="g")  # wrong
ClientOptions().replace(bootstrap="a:1")  # wrong
ProduceOptions().replace(linger_ms=5)  # wrong
FetchOptions().replace(fetch_max=5)  # wrong
ConsumerOptions().replace(group="g")  # wrong
client = Client()
client.delete_topics("ab")  # wrong
client.delete_topics(b"ab")  # wrong
client.metadata("ab")  # wrong
client.create_topics(["ab"])  # wrong
client.create_topics([NewTopic("ab", configs={"retention.ms": 5})])  # wrong
client.list_groups("Stable")  # wrong
client.group_lag("g", partition=[TP])  # wrong
client.committed_offsets("g", "ab")  # wrong
client.committed_offsets("g", [("flights", 0)])  # wrong
client.commit_offsets("g", {TP: "earliest"})  # wrong
client.list_offsets({TP: "earliest"})  # wrong
client.fetch(TP, "earliest")  # wrong
client.transactions.fence("ab")  # wrong
client.transactions.describe("ab")  # wrong
client.produce("flights", "rows")  # wrong
client.produce("flights", [{"value": b"x"}])  # wrong
client.metadata(topic=["ab"])  # wrong
client.request(None, MetadataRequest(topic=[]))  # wrong
client.request(None, MetadataRequest(topics=["ab"]))  # wrong
client.request(None, MetadataRequest(topics=[])).controller  # wrong
client.request(None, MetadataResponse())  # wrong
for batch in client.fetch(TP, 0):
    batch.num_rowz  # wrong
Client(require="record-headers")  # wrong
record_shape("key")  # wrong
ShareConsumer(group="g")  # wrong
ShareConsumer(auto_offset_reset="earliest")  # wrong
ShareConsumer().subscribe("ab")  # wrong
ShareConsumer().acknowledge(TP, 5)  # wrong
Consumer().assign("ab")  # wrong
Consumer().seek("flights", 0)  # wrong
LocalCluster(broker=3)  # wrong
LocalCluster().create_topic("flights", partition=2)  # wrong
"""

STUB = """
from typing import Any

class RecordBatch:
    num_rows: int
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

class Table:
    def to_batches(self) -> list[RecordBatch]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Schema: ...

def __getattr__(name: str) -> Any: ...
"""
"""A piece of the stubs for pyarrow that users install."""


PYRIGHT = {
    "include": ["right.py", "wrong.py"],
    "typeCheckingMode": "standard",
    "pythonVersion": "3.11",
}


def mypy(place: Path, source: Path) -> list[tuple[str, int]]:
    """The file and line of each error that mypy finds."""
    (place / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-parley.*]\nfollow_imports = silent\n"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "mypy.ini",
            "--hide-error-context",
            "right.py",
            "wrong.py",
        ],
        cwd=place,
        env={**os.environ, "MYPYPATH": f"{source}{os.pathsep}{place}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return [
        (name, int(number))
        for name, number in re.findall(r"^(\w+\.py):(\d+): error", ran.stdout, re.MULTILINE)
    ]


def pyright(place: Path, source: Path) -> list[tuple[str, int]]:
    """The file and line of each error that pyright finds."""
    (place / "pyrightconfig.json").write_text(json.dumps({**PYRIGHT, "extraPaths": [str(source)]}))
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--pythonpath",
            sys.executable,
            "--project",
            ".",
            "--outputjson",
        ],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    errors = [
        one for one in json.loads(ran.stdout)["generalDiagnostics"] if one["severity"] == "error"
    ]
    return [(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def lines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[int]]:
    """The numbers of the lines that the type checker finds fault with, by program."""
    place = tmp_path_factory.mktemp("typing")
    (place / "right.py").write_text(RIGHT)
    (place / "wrong.py").write_text(WRONG)
    (place / "pyarrow").mkdir()
    (place / "pyarrow" / "__init__.pyi").write_text(STUB)
    (place / "pyarrow" / "compute.pyi").write_text("def __getattr__(name: str) -> object: ...\n")
    found: dict[str, set[int]] = {"right.py": set(), "wrong.py": set()}
    for name, number in request.param(place, Path(parley.__file__).parents[1]):
        found[name].add(number)
    return found


@pytest.mark.timeout(600)
def test_a_right_program_passes(lines: dict[str, set[int]]) -> None:
    assert not lines["right.py"], [RIGHT.splitlines()[number - 1] for number in lines["right.py"]]


@pytest.mark.timeout(600)
def test_every_wrong_line_is_found_and_no_other(lines: dict[str, set[int]]) -> None:
    text = WRONG.splitlines()
    wrong = {number for number, line in enumerate(text, 1) if line.endswith("# wrong")}
    missed = [text[number - 1] for number in sorted(wrong - lines["wrong.py"])]
    others = [text[number - 1] for number in sorted(lines["wrong.py"] - wrong)]
    assert (missed, others) == ([], [])


@pytest.mark.parametrize(
    ("values", "group"),
    [
        (ClientOptionValues, ClientOptions),
        (FetchOptionValues, FetchOptions),
        (SchemaOptionValues, SchemaOptions),
        (ConsumerOptionValues, ConsumerOptions),
        (ProduceOptionValues, ProduceOptions),
        (ProducerOptionValues, ProducerOptions),
        (ShareConsumerOptionValues, ShareConsumerOptions),
    ],
)
def test_the_typed_names_are_those_of_the_options(values: Any, group: Any) -> None:
    known = {
        "ssl": ssl,
        "Assignor": Assignor,
        "BatchShape": BatchShape,
        "Deserialize": Deserialize,
        "RegistryOptions": RegistryOptions,
        "Schema": Schema,
        "SchemaRegistryClient": SchemaRegistryClient,
        "TokenProvider": TokenProvider,
        "Partitioner": record.Partitioner,
        "ProducerInterceptor": record.ProducerInterceptor,
        "Serializer": record.Serializer,
    }
    typed = typing.get_type_hints(values, localns=known)
    own = typing.get_type_hints(group, localns=known)
    assert typed.keys() == {field.name for field in dataclasses.fields(group)}
    for name, hint in typed.items():
        assert _members(own[name]) <= _members(hint), name
        if name.endswith("_ms"):
            assert _members(Milliseconds) <= _members(hint), name


def _members(hint: Any) -> set[str]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return {str(one) for one in (typing.get_args(hint) if union else (hint,))}


@pytest.mark.parametrize(
    "group", [ClientOptions, FetchOptions, ProduceOptions, ConsumerOptions, ShareConsumerOptions]
)
def test_an_option_that_does_not_exist_is_refused_however_it_is_given(group: Any) -> None:
    near = next(field.name for field in dataclasses.fields(group) if "_" in field.name)
    misspelt = near + "x"
    for call in (
        lambda: group(**{misspelt: 5}),
        lambda: group.of({misspelt: 5}),
        lambda: group().replace(**{misspelt: 5}),
        lambda: dataclasses.replace(group(), **{misspelt: 5}),
    ):
        with pytest.raises(
            ConfigError, match=f'there is no option "{misspelt}".* Did you mean "{near}"'
        ):
            call()
    with pytest.raises(ConfigError, match="options are given by name"):
        group("all")
    names = list(inspect.signature(group).parameters)
    assert names == [field.name for field in dataclasses.fields(group)]
