"""Work that keeps the processor busy: an event loop runs it in a thread, and stays free."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from parley.errors import KafkaError, LocalProtocolError

T = TypeVar("T")


class Work:
    """An event: call `run` in any thread, then give the work back with `Connection.finish`.

    The connection makes no other event until then. `run` does not raise what peers can cause.
    """

    __slots__ = ("_function", "error", "then")

    def __init__(self, function: Callable[[], T], then: Callable[[T], None]) -> None:
        self._function: Callable[[], Callable[[], None]] = lambda: partial(then, function())
        self.then: Callable[[], None] | None = None
        """What the connection does with the result, in its own thread; None before `run`."""
        self.error: KafkaError | None = None

    def run(self) -> None:
        """Do it. Mutates: the outcome is in `then` or `error`."""
        try:
            self.then = self._function()
        except KafkaError as error:
            self.error = error
        # the connection must end all the same, not wait for this forever
        except Exception as error:
            self.error = LocalProtocolError(
                f"what the peer sent met a bug of parley: {type(error).__name__}"
            )
            self.error.__cause__ = error
