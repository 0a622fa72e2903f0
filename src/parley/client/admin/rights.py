"""What the user of a client may do with topics, as brokers say (KIP-430)."""

from __future__ import annotations

from enum import IntEnum

from parley.client.admin.calls import Begin
from parley.client.cluster.metadata_source import metadata_request
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import raise_first
from parley.client.options import arguments
from parley.errors import KafkaError
from parley.errors.codes import (
    LEADER_NOT_AVAILABLE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import MetadataResponse
from parley.net import Reply
from parley.schema import ApiKey
from parley.types import Names

FIRST_VERSION = 8
"""Of Metadata that says it; Kafka 2.3."""
NOT_SAID = (-(2**31), 0)
"""Instead of the bits. Kafka has the first; who sees a topic may at least describe it, so a broker
that answers 0 does not know.
"""


class AclOperation(IntEnum):
    """What a user may do with something; names and numbers are Kafka's."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


Rights = dict[str, frozenset[AclOperation] | None]
"""Topic → what may be done, None where the broker does not say."""


async def authorized_operations(
    begin: Begin, topics: Names, *, timeout_ms: int | None = None
) -> Rights:
    """Return what this client's user may do with each topic that is there.

    None is returned where the broker does not say it (before Kafka 2.3), and the empty set for a
    topic that the user may not see, whether it is there or not. A broker without an authorizer
    allows everything. Raises the first other error of a topic, noting the others.
    """
    wanted = list(dict.fromkeys(arguments.topic_names("topics", topics)))
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)

    async def attempt() -> Rights:
        conn = await cluster.connection(None)
        if conn.versions.choose(ApiKey.METADATA) < FIRST_VERSION:
            return dict.fromkeys(wanted)
        message = metadata_request(wanted, FIRST_VERSION)
        message.include_topic_authorized_operations = True
        return _read(await cluster.ask(conn, message, cluster.request_timeout_ms(deadline)))

    if not wanted:
        return {}
    return await cluster.retrying("asking for authorized operations", deadline, attempt)


def _read(reply: Reply[MetadataResponse]) -> Rights:
    found: Rights = {}
    errors: list[KafkaError] = []
    for topic in reply.message.topics:
        name, code = topic.name or "", topic.error_code
        if code == TOPIC_AUTHORIZATION_FAILED:
            found[name] = frozenset()
        elif code in (NONE, LEADER_NOT_AVAILABLE):
            found[name] = operations(topic.topic_authorized_operations)
        elif code != UNKNOWN_TOPIC_OR_PARTITION:
            errors.append(refusal(reply, code, topic=name))
    raise_first(errors)
    return found


def operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations of a bit field, None for what says nothing.

    >>> sorted(one.name for one in operations(0b1_0000_1000))
    ['DESCRIBE', 'READ']
    """
    return None if bits in NOT_SAID else frozenset(one for one in AclOperation if bits >> one & 1)
