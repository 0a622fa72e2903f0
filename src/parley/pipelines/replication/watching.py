"""What goes on beside the copying: new topics and partitions are followed, groups translated, and
a second replication of the name is noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol

from parley.errors import KafkaError
from parley.pipelines.attempts import may_pass
from parley.pipelines.replication.engine import Engine
from parley.pipelines.replication.options import ReplicationOptions

log = logging.getLogger("parley.pipelines")


class Watched(Protocol):
    """The replication."""

    options: ReplicationOptions

    async def follow(self) -> object:
        """Take new partitions up."""

    async def stay_alone(self) -> object:
        """Raise where another replication of the name has begun."""

    async def trim(self) -> object:
        """Forget offsets that the source has no more."""

    async def translate_groups(self) -> object:
        """Translate what groups have committed."""


class Watching:
    """Runs beside an engine, whose copying ends with the first lasting error."""

    def __init__(self, replication: Watched, engine: Engine, *, follows: bool) -> None:
        self._replication, self._engine, self._follows = replication, engine, follows
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Watching:
        replication, options = self._replication, self._replication.options
        if self._follows:
            self._begin(options.refresh_interval_ms, replication.stay_alone)
            self._begin(options.refresh_interval_ms, replication.follow)
            self._begin(options.trim_interval_ms, replication.trim)
            if options.translates_groups:
                self._begin(options.groups_interval_ms, replication.translate_groups)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
        self._tasks.append(asyncio.ensure_future(self._again_and_again(interval_ms, work)))

    async def _again_and_again(
        self, interval_ms: int, work: Callable[[], Awaitable[object]]
    ) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await work()
            except KafkaError as error:
                if not may_pass(error):
                    return self._engine.fail(error)
                log.warning(
                    "%s tries again in %d ms: %s",
                    self._replication.options.name,
                    interval_ms,
                    error,
                )
            except Exception as error:
                return self._engine.fail(error)
