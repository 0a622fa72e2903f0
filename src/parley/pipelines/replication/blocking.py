"""The same replication for blocking code: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import TypeVar

from parley.client import ClientOptions
from parley.net.blocking import Work, blocking, in_loop
from parley.pipelines.replication.options import ReplicationOptions
from parley.pipelines.replication.replication import AsyncReplication

T = TypeVar("T")


class Replication:
    """`AsyncReplication` for blocking code: `run` blocks its thread, `stop` and `status` may be
    called from others.

    >>> options = ReplicationOptions(name="to-new", topics=["flights"])
    >>> def copy(source: ClientOptions, target: ClientOptions) -> None:
    ...     with Replication(source, target, options) as replication:
    ...         replication.run(until_caught_up=True)
    """

    def __init__(
        self, source: ClientOptions, target: ClientOptions, options: ReplicationOptions
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="parley-replication", daemon=True
        )
        self._thread.start()
        self._replication = AsyncReplication(source, target, options)

    def _async(self) -> AsyncReplication:
        return self._replication

    def _run(self, work: Work[T]) -> T:
        task = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return task.result()
        except BaseException:
            task.cancel()
            raise

    start = blocking(AsyncReplication.start)
    run = blocking(AsyncReplication.run)
    plan = blocking(AsyncReplication.plan)
    follow = blocking(AsyncReplication.follow)
    status = blocking(AsyncReplication.status)
    translate_groups = blocking(AsyncReplication.translate_groups)
    stop = in_loop(AsyncReplication.stop)

    def close(self) -> None:
        """Stop, abort what is not committed, and end the thread. Idempotent."""
        if self._thread.is_alive():
            self._run(self._replication.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Replication:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
