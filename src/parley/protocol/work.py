"""Work that keeps the processor busy: an event loop runs it in a thread, and stays free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parley.errors import KafkaError, LocalProtocolError


class Work:
    """An event: call `run` in any thread, then give the work back with `Connection.finish`.

    The connection makes no other event until then. `run` does not raise what peers can cause.
    """

    __slots__ = ("_function", "error", "result", "then")

    def __init__(self, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self._function = function
        self.then = then
        """What the connection does with the result, in the thread of the connection."""
        self.result: Any = None
        self.error: KafkaError | None = None

    def run(self) -> None:
        """Do it. Mutates: the outcome is in `result` or `error`."""
        try:
            self.result = self._function()
        except KafkaError as error:
            self.error = error
        # the connection must end all the same, not wait for this forever
        except Exception as error:
            self.error = LocalProtocolError(
                f"what the peer sent met a bug of parley: {type(error).__name__}"
            )
            self.error.__cause__ = error
