"""A job as a context, and the same for blocking code: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from parley.net.blocking import Work

T = TypeVar("T")


class AsyncJob(ABC):
    """A job that is closed where its `async with` ends."""

    @abstractmethod
    async def close(self) -> None:
        """Stop, and let go of everything. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


J = TypeVar("J", bound=AsyncJob)


class BlockingJob(Generic[J]):
    """Runs the calls of a job in the loop of a thread. Begins with it: the job is made there."""

    def __init__(self, name: str, job: J) -> None:
        self._job = job
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def _async(self) -> J:
        return self._job

    def _run(self, work: Work[T]) -> T:
        task = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return task.result()
        except BaseException:
            task.cancel()
            raise

    def close(self) -> None:
        """Stop, abort what is not committed, and end the thread. Idempotent."""
        if self._thread.is_alive():
            self._run(self._job.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
