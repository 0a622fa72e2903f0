"""A broker as a share consumer sees it."""

from __future__ import annotations

import asyncio

from parley.client.group.share.session import Request, ShareSession
from parley.errors import KafkaError


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
