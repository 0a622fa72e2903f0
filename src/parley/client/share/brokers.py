"""A broker as a share consumer sees it, and where the errors of its answers come from."""

from __future__ import annotations

import asyncio

from parley.client.group.share.session import Request, ShareSession
from parley.errors import KafkaError, broker_error
from parley.types import TopicPartition


class Broker:
    """A broker, the session with it, and the request that is under way."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session = ShareSession()
        self.task: asyncio.Task[None] | None = None
        self.request: Request | None = None
        self.failures = 0
        self.last_asked = 0
        self.lost_by: KafkaError | None = None
        """Why the session before is over."""


class Where:
    """Where errors of one answer come from."""

    def __init__(self, api: str, version: int, broker: str) -> None:
        self.api, self.version, self.broker = api, version, broker

    def error(self, code: int, text: str | None, tp: TopicPartition | None = None) -> KafkaError:
        """Return the exception for a code of that answer."""
        return broker_error(
            code,
            text,
            topic=tp.topic if tp is not None else None,
            partition=tp.partition if tp is not None else None,
            api=self.api,
            version=self.version,
            broker=self.broker,
        )
