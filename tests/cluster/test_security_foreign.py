"""confluent-kafka, kafka-python and aiokafka log in to embedded clusters over TLS.

Both ends of parley share their SASL machines; these clients share nothing with them.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from parley.devcluster import LocalCluster, Security

from ..support import GENEROUS_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what they use of Python's
    import aiokafka
    import aiokafka.errors
    import kafka
    import kafka.errors

pytestmark = [
    pytest.mark.foreign,
    # Their sockets, threads and event loops are theirs to close.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]

TOPIC = "foreign"
PASSWORD = 'pass,w=ord"1'
SECONDS = GENEROUS_S


def confluent(bootstrap: str, ca: str, mechanism: str, password: str) -> bytes:
    settings = {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": ca,
        "sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password,
    }  # fmt: skip
    refused: list[confluent_kafka.KafkaError] = []
    settings["error_cb"] = refused.append  # type: ignore[assignment]
    producer = confluent_kafka.Producer(settings)
    producer.produce(TOPIC, b"confluent", partition=0)
    for _ in range(SECONDS * 10):
        if producer.flush(0.1) == 0 or any(
            error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in refused
        ):
            break
    if refused:
        raise PermissionError(str(refused[0]))
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    message = consumer.poll(SECONDS)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return bytes(message.value())


def kafka_python(bootstrap: str, ca: str, mechanism: str, password: str) -> bytes:
    settings = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_SSL", "ssl_cafile": ca,
        "sasl_mechanism": mechanism, "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }  # fmt: skip
    try:
        producer = kafka.KafkaProducer(**settings, max_block_ms=3_000)
        producer.send(TOPIC, b"kafka-python", partition=0).get(timeout=SECONDS)
        producer.close()
        consumer = kafka.KafkaConsumer(**settings)
    except kafka.errors.KafkaError as error:
        raise PermissionError(str(error)) from error
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    value = next(iter(consumer)).value
    consumer.close()
    return bytes(value)


def aio(bootstrap: str, ca: str, mechanism: str, password: str) -> bytes:
    settings = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=ca), "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice", "sasl_plain_password": password,
    }  # fmt: skip

    async def talk() -> bytes:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(TOPIC, b"aiokafka", partition=0)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**settings, group_id=None)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return bytes((await consumer.getone()).value)
        finally:
            await consumer.stop()

    try:
        return asyncio.run(asyncio.wait_for(talk(), SECONDS))
    except aiokafka.errors.KafkaError as error:
        raise PermissionError(str(error)) from error


Talk = Callable[[str, str, str, str], bytes]
CLIENTS: dict[str, Talk] = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aio}


@pytest.fixture(scope="module", params=["1.1", "3.9"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(
        2, request.param, security=Security("SASL_SSL", users={"alice": PASSWORD})
    ) as running:
        yield running


@pytest.fixture
def ca(cluster: LocalCluster, tmp_path: Path) -> str:
    file = tmp_path / "ca.pem"
    file.write_text(cluster.ca_pem)
    return str(file)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_login_and_a_record(name: str, mechanism: str, cluster: LocalCluster, ca: str) -> None:
    cluster.create_topic(TOPIC)
    try:
        assert CLIENTS[name](cluster.bootstrap_servers, ca, mechanism, PASSWORD) == name.encode()
    finally:
        cluster.delete_topic(TOPIC)
        gc.collect()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
# kafka-python is left out: it reads on after a refusal, and where the end of the connection comes
# with it, reports the end only and tries again, for longer than a test may take.
@pytest.mark.parametrize("name", ["confluent", "aiokafka"])
def test_a_wrong_password(name: str, mechanism: str, cluster: LocalCluster, ca: str) -> None:
    cluster.clear_requests()
    with pytest.raises(PermissionError):
        CLIENTS[name](cluster.bootstrap_servers, ca, mechanism, "wrong")
    gc.collect()
    assert not cluster.requests("Produce")
