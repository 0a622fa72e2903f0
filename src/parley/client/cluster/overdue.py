"""What a call says that got no metadata until its deadline, for which broker and how far it had
come; and what it says of topics and partitions that no broker knows.
"""

from __future__ import annotations

from collections.abc import Collection

from parley.errors import BrokersUnreachable, KafkaError, RequestTimedOut, broker_error
from parley.errors.codes import UNKNOWN_TOPIC_OR_PARTITION
from parley.net import Address
from parley.net.failures import (
    AUTHENTICATION,
    CONNECT,
    NAME_LOOKUP,
    SILENCE_HINT,
    TLS,
    TOKEN,
    VERSIONS,
)
from parley.types import TopicPartition

_WAITS = {
    NAME_LOOKUP: "its name was still being looked up",
    TOKEN: "the token for its login had not come: look at its endpoint, or its function",
    CONNECT: "the connection was still being made",
    TLS: "connected, and the TLS handshake was not answered: is this a TLS listener?",
    VERSIONS: f"connected, and ApiVersions was not answered: {SILENCE_HINT}",
    AUTHENTICATION: "connected, and the login was not answered",
}


def without_metadata(
    last: KafkaError | None, opening: Collection[tuple[Address, str]], asked: Address | None
) -> KafkaError:
    """Return (not raise) the error of a call that got no metadata in time.

    `opening` are the connections being opened now, with the stage each has come to; `last` is what
    went wrong before; `asked` is the broker that the last Metadata request went to.
    """
    text = (
        "metadata did not arrive before the deadline of the call (default_api_timeout_ms, "
        "timeout_ms or max_block_ms)"
    )
    # a reason for each address says more than a next attempt under way
    if isinstance(last, BrokersUnreachable):
        return BrokersUnreachable(last.failures)
    if opening:
        waits = "; ".join(f"{address}: {_WAITS.get(stage, stage)}" for address, stage in opening)
        address, stage = next(iter(opening))
        return RequestTimedOut(f"{text}: {waits}", address=str(address), stage=stage)
    if last is not None:
        return RequestTimedOut(f"{text}: {last}", stage="request")
    if asked is not None:
        return RequestTimedOut(
            f"{text}: {asked} has not answered", address=str(asked), stage="request"
        )
    return RequestTimedOut(text, stage="request")


def missing_topic(asked: Collection[str], *, auto_create: bool) -> str:
    """Return what to say of a topic that no broker knows, and which brokers said so."""
    where = f" (asked: {', '.join(asked)})" if asked else ""
    made = "; none created it, so auto.create.topics.enable is false there" if auto_create else ""
    return f"no broker knows this topic{where}{made}; create it, or check the name"


def no_such_partition(tp: TopicPartition, count: int) -> KafkaError:
    """Return the error for a partition that a topic of so many does not have."""
    text = f'topic "{tp.topic}" has {count} partitions, numbered from 0: there is no {tp.partition}'
    return beyond_hope(tp, text)


def beyond_hope(
    tp: TopicPartition, text: str | None, code: int = UNKNOWN_TOPIC_OR_PARTITION
) -> KafkaError:
    """Return a broker's error that was retried long enough: not retriable any more. A negative
    partition stands for the whole topic.
    """
    partition = tp.partition if tp.partition >= 0 else None
    error = broker_error(code, text, topic=tp.topic, partition=partition)
    error.retriable = False
    return error
