"""Every public call with wrong values of each of its
parameters: a ConfigError, and the same client goes on.

The table names every public call of the clients, the consumers and the transactional producers,
with values that work and values that do not; that it is complete is a test too. After each wrong
call comes a right one on the same client.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    AsyncTransactionProducer,
    AsyncTransactions,
    Client,
    Consumer,
    FetchOptions,
    Producer,
    ShareConsumer,
    TransactionProducer,
    Transactions,
)
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, KafkaError, LocalProtocolError
from parley.messages import MetadataRequest
from parley.versions import Feature

from .wrong_values import (
    ASYNC_PRODUCER,
    CLIENT,
    CONSUMER,
    CONSUMER_TOO,
    PRODUCER,
    PRODUCER_TOO,
    ROWS,
    SHARE_CONSUMER,
    TOPIC,
    TP,
    TRANSACTION,
    TRANSACTIONS,
)

FOR_THE_BLOCKING_FACE = {"failure", "wrote"}
"""Methods of AsyncTransactionProducer that only its blocking wrapper calls."""
TABLES = {
    AsyncClient: CLIENT, Client: CLIENT,
    AsyncTransactions: TRANSACTIONS, Transactions: TRANSACTIONS,
    AsyncConsumer: CONSUMER | CONSUMER_TOO, Consumer: CONSUMER | CONSUMER_TOO,
    AsyncShareConsumer: SHARE_CONSUMER | CONSUMER_TOO, ShareConsumer: SHARE_CONSUMER | CONSUMER_TOO,
    AsyncProducer: ASYNC_PRODUCER | PRODUCER_TOO, Producer: PRODUCER | PRODUCER_TOO,
    AsyncTransactionProducer: TRANSACTION, TransactionProducer: TRANSACTION,
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_the_table_has_every_parameter_of_every_public_call(kind: type) -> None:
    found = {}
    for name in set(dir(kind)) - FOR_THE_BLOCKING_FACE:
        method = inspect.getattr_static(kind, name)
        if not name.startswith("_") and inspect.isfunction(method):
            parameters = [*inspect.signature(method).parameters][1:]
            if parameters:
                found[name] = set(parameters)
    table = TABLES[kind]
    assert found == {name: set(call.wrong) for name, call in table.items()}
    assert all(set(call.right) == set(call.wrong) for call in table.values())


# -- the faces -------------------------------------------------------------------------------------


class Face:
    """The blocking objects, or the asynchronous ones in a loop of their own."""

    def __init__(self, bootstrap_servers: str) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "default_api_timeout_ms": 20_000,
        }
        self.client, self.consumer = self._made(options)
        self.do(self.client.start)
        self.do(self.consumer.start)
        self.do(self.consumer.assign, [TP])

    def _made(self, options: dict[str, Any]) -> tuple[Any, Any]:
        consumer = Consumer(group_id="readers", auto_offset_reset="earliest", **options)
        return Client(**options), consumer

    def do(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call, and take one of what an iterator has."""
        found = method(*arguments, **named)
        return next(found) if inspect.isgenerator(found) else found

    def call(self, where: Any, name: str, given: dict[str, Any]) -> Any:
        """Call with `partitions` as the variable arguments that they are in some calls, and
        `schemas` as the names that they are.
        """
        method = getattr(where, name)
        given = {
            key: value() if inspect.isfunction(value) else value for key, value in given.items()
        }
        parameters = inspect.signature(method).parameters.values()
        variable = [one.name for one in parameters if one.kind is one.VAR_POSITIONAL]
        arguments = [given.pop(one) for one in variable]
        for one in parameters:
            if one.kind is one.VAR_KEYWORD:
                given |= given.pop(one.name)
        return self.do(method, *arguments, **given)

    def close(self) -> None:
        self.do(self.consumer.stop)
        self.do(self.client.close)


class AsyncFace(Face):
    def __init__(self, bootstrap_servers: str) -> None:
        self._runner = asyncio.Runner()
        super().__init__(bootstrap_servers)

    def _made(self, options: dict[str, Any]) -> tuple[Any, Any]:
        consumer = AsyncConsumer(group_id="readers", auto_offset_reset="earliest", **options)
        return AsyncClient(**options), consumer

    def do(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def run() -> Any:
            found = method(*arguments, **named)
            if inspect.isasyncgen(found):
                one = await anext(found)
                await found.aclose()
                return one
            return await found if inspect.isawaitable(found) else found

        return self._runner.run(run())

    def close(self) -> None:
        super().close()
        self._runner.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="4.3", seed=3) as running:
        for name in (TOPIC, "a", "b"):
            running.create_topic(name, 1, 1)
        with Client(bootstrap_servers=running.bootstrap_servers) as client:
            client.produce(TOPIC, ROWS, 0)
            client.commit_offsets("g", {TP: 1})
        yield running


@pytest.fixture(scope="module", params=[Face, AsyncFace], ids=["blocking", "async"])
def face(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[Face]:
    made = request.param(cluster.bootstrap_servers)
    yield made
    made.close()


def refused(face: Face, where: Any, name: str, given: dict[str, Any]) -> None:
    try:
        face.call(where, name, given)
    except ConfigError:
        return
    pytest.fail(f"{name}({given}) was taken")


# -- the tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENT)
def test_a_client_refuses_wrong_values_and_goes_on(face: Face, name: str) -> None:
    call = CLIENT[name]
    for parameter, values in call.wrong.items():
        for value in values:
            refused(face, face.client, name, {**call.right, parameter: value})
        face.call(face.client, name, call.right)
    assert face.do(face.client.metadata, [TOPIC]).topics[TOPIC].partitions.keys() == {0}


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_what_concerns_transactions_refuses_wrong_values_and_goes_on(face: Face, name: str) -> None:
    call = TRANSACTIONS[name]
    for parameter, values in call.wrong.items():
        for value in values:
            refused(face, face.client.transactions, name, {**call.right, parameter: value})
        made = face.call(face.client.transactions, name, call.right)
        if name == "producer":
            face.do(made.start)
            face.do(made.close)
    assert face.do(face.client.metadata, [TOPIC]).topics[TOPIC].partitions.keys() == {0}


def test_a_consumer_refuses_wrong_subscriptions_and_goes_on(face: Face) -> None:
    face.do(face.consumer.unsubscribe)
    for value in CONSUMER_TOO["close"].wrong["timeout_ms"]:
        refused(face, face.consumer, "close", {"timeout_ms": value})
    call = CONSUMER["subscribe"]
    for parameter, values in call.wrong.items():
        for value in values:
            refused(face, face.consumer, "subscribe", {**call.right, parameter: value})
    face.call(face.consumer, "subscribe", call.right)
    assert face.do(face.consumer.getone).value == b"v"
    face.do(face.consumer.unsubscribe)
    face.do(face.consumer.assign, [TP])  # as the other tests expect it


@pytest.mark.parametrize("name", [name for name in CONSUMER if name != "subscribe"])
def test_a_consumer_refuses_wrong_values_and_goes_on(face: Face, name: str) -> None:
    call = CONSUMER[name]
    for parameter, values in call.wrong.items():
        for value in values:
            refused(face, face.consumer, name, {**call.right, parameter: value})
        face.do(face.consumer.seek, TP, 0)
        face.call(face.consumer, name, call.right)
    face.do(face.consumer.resume, TP)
    face.do(face.consumer.seek, TP, 0)
    assert face.do(face.consumer.getone).value == b"v"


@pytest.mark.parametrize("name", SHARE_CONSUMER)
def test_a_share_consumer_refuses_wrong_values_and_goes_on(face: Face, name: str) -> None:
    """Without a broker that has share groups: what is right says that the
    consumer is not started.
    """
    kind = AsyncShareConsumer if isinstance(face, AsyncFace) else ShareConsumer
    consumer = kind(
        bootstrap_servers="127.0.0.1:1", group_id="g", share_acknowledgement_mode="explicit"
    )
    call = SHARE_CONSUMER[name]
    for parameter, values in call.wrong.items():
        for value in values:
            refused(face, consumer, name, {**call.right, parameter: value})
    if name in ("subscribe", "set_acknowledgement_commit_callback"):
        face.call(consumer, name, call.right)
    else:
        with pytest.raises(LocalProtocolError):
            face.call(consumer, name, call.right)


@pytest.mark.parametrize("name", sorted({*ASYNC_PRODUCER, *PRODUCER}))
def test_a_producer_refuses_wrong_values_and_goes_on(
    face: Face, cluster: LocalCluster, name: str
) -> None:
    kind, table = (
        (AsyncProducer, ASYNC_PRODUCER) if isinstance(face, AsyncFace) else (Producer, PRODUCER)
    )
    if name not in table:
        return
    call = table[name]
    producer = kind(bootstrap_servers=cluster.bootstrap_servers)
    face.do(producer.start)
    for parameter, values in call.wrong.items():
        for value in values:
            refused(face, producer, name, {**call.right, parameter: value})
    face.call(producer, name, call.right)
    for value in PRODUCER_TOO["close"].wrong["timeout_ms"]:
        refused(face, producer, "close", {"timeout_ms": value})
    face.do(producer.close)


@pytest.mark.parametrize("name", TRANSACTION)
def test_a_transaction_survives_wrong_values(face: Face, name: str) -> None:
    call = TRANSACTION[name]
    producer = face.do(face.client.transactions.producer, f"survivor-{name}")
    if name != "resume":
        face.do(producer.begin_transaction)
    for parameter, values in call.wrong.items():
        for value in values:
            # rows may be written already then
            if name != "produce" or (parameter != "rows" and value is not None):
                refused(face, producer, name, {**call.right, parameter: value})
    face.call(producer, name, call.right)
    if name != "resume":
        face.do(producer.commit_transaction)
    face.do(producer.close)


def test_no_wrong_call_has_deleted_or_made_anything(face: Face, cluster: LocalCluster) -> None:
    for wrong in ("ab", b"ab"):
        refused(face, face.client, "delete_topics", {"names": wrong})
    assert {"a", "b"} <= face.do(face.client.metadata).topics.keys()
    face.do(face.client.delete_topics, ["a"])
    assert "a" not in face.do(face.client.metadata).topics
    cluster.create_topic("a", 1, 1)


@pytest.mark.parametrize("unaware", ["1", b"\x01", 1, None, ["1"], [9]])
def test_a_cluster_refuses_wrong_brokers_before_anything_is_done(
    cluster: LocalCluster, unaware: Any
) -> None:
    for call in (cluster.add_partitions, cluster.scenes.recreate_topic):
        with pytest.raises(ConfigError):
            call("b", 2, unaware=unaware)
    assert len(cluster.leaders("b")) == 1
    assert not any(broker.stale for broker in cluster.status())


def test_a_request_that_cannot_be_encoded_harms_no_other(face: Face) -> None:
    for wrong in (
        MetadataRequest(topics=5),
        MetadataRequest(topics=[5]),
        MetadataRequest(topics=["ab"]),
    ):
        with pytest.raises(KafkaError):
            face.do(face.client.request, 1, wrong)
    assert face.do(face.client.request, 1, MetadataRequest(topics=[])).brokers
    assert face.do(face.client.produce, TOPIC, ROWS).records == 1


def test_a_client_is_not_made_with_wrong_values() -> None:
    wrong: dict[str, tuple[Any, ...]] = {
        "options": ("localhost:9092", 5, FetchOptions()),
        "require": ("record-headers", b"x", 5, None, ["record-haeders"], [5]),
        "on_event": ("print", 5),
        "linger_ms": (5,),
        "request_timeout_ms": ("soon", -1, None),
    }
    for kind in (AsyncClient, Client):
        for name, values in wrong.items():
            for value in values:
                with pytest.raises(ConfigError):
                    kind(**{name: value})
    for kind in (AsyncConsumer, Consumer):
        for name, value in (
            ("on_data_loss", 5),
            ("group", "g"),
            ("auto_offset_reset", "first"),
            ("options", {}),
        ):
            with pytest.raises(ConfigError):
                kind(**{name: value})
    for kind in (AsyncShareConsumer, ShareConsumer):
        for wrong in (
            {},
            {"group": "g"},
            {"group_id": "g", "share_acquire_mode": "all"},
            {"group_id": ""},
        ):
            with pytest.raises(ConfigError):
                kind(**wrong)
    with pytest.raises(ConfigError):
        AsyncConsumer("localhost:9092")  # type: ignore[arg-type]
    assert (
        Feature.RECORD_HEADERS
        in AsyncClient(require=["record-headers", Feature.RECORD_HEADERS])._require
    )
