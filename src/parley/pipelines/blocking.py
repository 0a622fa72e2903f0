"""A job as a context, and the same for blocking code: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from parley.errors import LocalProtocolError
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
        # a handler of signals may call in the middle of another call of its thread
        self._lock = threading.RLock()
        self._is_closed = False
        self._thread.start()

    def _async(self) -> J:
        return self._job

    def _run(self, work: Work[T]) -> T:
        with self._lock:
            if self._is_closed:
                work.close()
                raise self._closed()
            task = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return task.result()
        except concurrent.futures.CancelledError:
            if self._is_closed:
                raise self._closed() from None
            raise
        except BaseException:
            task.cancel()
            raise

    def close(self) -> None:
        """Stop, abort what is not committed, and end the thread. Idempotent. Calls of other threads
        end with LocalProtocolError.
        """
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        if not is_first:
            self._thread.join()
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        """Close the job, and end the calls of other threads, which would wait forever."""
        try:
            await self._job.close()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def _closed(self) -> LocalProtocolError:
        return LocalProtocolError(f"this {type(self).__name__} is closed; make a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
