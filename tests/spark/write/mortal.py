"""A client that dies at a given call as its process would: nothing is cleaned up,
nothing is sent any more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from parley.client import Client

from .world import Killed

_PARTS = ("transactions",)
_OBJECTS = ("producer",)


class Life:
    """Counts what processes do and ends them at a step: before its effect, or right after it."""

    def __init__(self, dies_at: int | None = None, *, after: bool = False) -> None:
        self.step = 0
        self.dead = False
        self._dies_at, self._after = dies_at, after
        self._lock = threading.Lock()

    def tick(self) -> None:
        """Do something that is no request: write a file of the checkpoint."""
        self._begin()
        self._end(self.step)

    def call(self, method: Any, *args: Any, **more: Any) -> Any:
        """Call a method of a client as one step."""
        step = self._begin()
        found = method(*args, **more)
        self._end(step)
        return found

    def _begin(self) -> int:
        with self._lock:
            if not self.dead:
                self.step += 1
                self.dead = self.step == self._dies_at and not self._after
            if self.dead:
                raise Killed
            return self.step

    def _end(self, step: int) -> None:
        with self._lock:
            self.dead = self.dead or (step == self._dies_at and self._after)
            if self.dead:
                raise Killed


class Mortal:
    """A client, or a producer of it, whose every call is a step of a life. Close the
    client when the life is over.
    """

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner, self._life = inner, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in _PARTS:
            return Mortal(found, self._life)
        if not callable(found):
            return found

        def call(*args: Any, **more: Any) -> Any:
            if name in _OBJECTS:
                return Mortal(found(*args, **more), self._life)
            result = self._life.call(found, *args, **more)
            return self._each(result) if hasattr(result, "__next__") else result

        return call

    def _each(self, results: Iterator[Any]) -> Iterator[Any]:
        for result in results:
            self._life.tick()
            yield result

    def __enter__(self) -> Mortal:
        self._life.call(self._inner.__enter__)
        return self

    def __exit__(self, *error: Any) -> None:
        if not self._life.dead:
            self._life.call(self._inner.__exit__, *error)

    def close(self) -> None:
        """Close, unless it is dead: who is dead closes nothing."""
        if not self._life.dead:
            self._life.call(self._inner.close)


def client_of(servers: str, life: Life) -> AbstractContextManager[Any]:
    """Return the client of a process; its end closes the sockets, as the end of a process does."""
    return _Process(servers, life)


class _Process:
    def __init__(self, servers: str, life: Life) -> None:
        self._client, self._life = Client(bootstrap_servers=servers), life

    def __enter__(self) -> Any:
        return Mortal(self._client, self._life)

    def __exit__(self, *error: object) -> None:
        if self._life.dead:
            # close() would abort what is open
            self._client._async().transactions._producers.clear()
        self._client.close()
