"""What a broker refused, as an error that says where: API, version, broker, partition."""

from __future__ import annotations

from typing import TypeVar

from parley.errors import KafkaError, broker_error
from parley.messages import Message
from parley.net import BrokerConnection, Reply
from parley.schema import ApiKey
from parley.types import TopicPartition

R = TypeVar("R", bound=Message)


def refusal(
    reply: Reply[R],
    code: int,
    said: str | None = None,
    tp: TopicPartition | None = None,
    *,
    topic: str | None = None,
    conn: BrokerConnection | None = None,
    resource: str | None = None,
) -> KafkaError:
    """Return (not raise) the error for a code of an answer: about a partition, a topic, or what
    else has a name. `said` is the broker's own text, or a better one.
    """
    return broker_error(
        code,
        said,
        topic=topic if tp is None else tp.topic,
        partition=None if tp is None else tp.partition,
        api=ApiKey(reply.api_key).name,
        version=reply.version,
        broker=None if conn is None else str(conn.address),
        resource=resource,
    )
