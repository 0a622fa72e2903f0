"""The event loop behind all blocking calls of a process, in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from parley.errors import LocalProtocolError
from parley.net.blocking import Work

log = logging.getLogger("parley.client")
T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a daemon thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="parley network", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self.loop.is_closed():  # it is everybody's: no callback that exits may end it
            try:
                self.loop.run_forever()
            except BaseException:
                log.exception("a callback tried to end parley's event loop, which goes on")

    def start(self, work: Work[T]) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop, and do not wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise LocalProtocolError(
                "a blocking call was made inside parley's own event loop, as in a callback: it "
                "would wait for itself. Make it in another thread; coroutines use AsyncClient, "
                "AsyncProducer or AsyncConsumer"
            )
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Work[T]) -> T:
        """Run a coroutine in the loop and return what it returns. Ctrl-C cancels it."""
        return wait(self.start(work))


class CallerThread:
    """Lets the loop call back into the thread that waits for it, as a listener expects."""

    def __init__(self) -> None:
        self._waiting: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._left: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What a wait that was interrupted has not called: the next one does."""

    def wait_for(self, loop_thread: LoopThread, work: Work[T]) -> T:
        """Run a coroutine in the loop, and in this thread what `call` asks for meanwhile."""
        calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting.append(calls)
        try:
            future = loop_thread.start(work)
            future.add_done_callback(lambda _: calls.put(None))
            return wait(future, lambda: self._serve(calls))
        finally:
            self._waiting.remove(calls)
            while not calls.empty():
                if (call := calls.get()) is not None:
                    self._left.put(call)

    async def call(self, call: Callable[[], object]) -> None:
        """Call in the innermost waiting thread; return when the call does, raise what it raises."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                call()
            except Exception as error:
                done.set_exception(error)
            except BaseException:  # Ctrl-C and exits are this thread's, and would end the loop
                done.cancel()
                raise
            else:
                done.set_result(None)

        (self._waiting[-1] if self._waiting else self._left).put(run)
        await asyncio.wrap_future(done)

    def _serve(self, calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while not self._left.empty():
            self._left.get()()
        while (call := calls.get()) is not None:
            call()


def wait(future: concurrent.futures.Future[T], meanwhile: Callable[[], None] = lambda: None) -> T:
    """Return what a future brings. Ctrl-C cancels it."""
    try:
        meanwhile()
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            with contextlib.suppress(concurrent.futures.CancelledError, Exception):
                future.result(timeout=5)
        raise


_shared: LoopThread | None = None
_lock = threading.Lock()
_left_behind: list[object] = []


def shared_loop() -> LoopThread:
    """Return this process's loop thread, started when it is first needed."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        return _shared


def leave_behind(of_the_parent: object) -> None:
    """Keep what a fork brought, unused: collecting it closes descriptors the parent polls."""
    _left_behind.append(of_the_parent)


def _after_fork() -> None:
    global _shared, _lock
    leave_behind(_shared)
    _shared, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
