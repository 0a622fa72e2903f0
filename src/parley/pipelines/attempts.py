"""How often and how long a job tries again after trouble that may pass."""

from __future__ import annotations

import asyncio
import logging

from parley.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    KafkaError,
    NetworkError,
    OutOfOrderSequenceNumberError,
    TransactionAbortableError,
    TransactionFatalError,
    UnknownProducerIdError,
)

log = logging.getLogger("parley.pipelines")
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class Attempts:
    """Pauses grow while nothing gets through, and patience ends `patience_ms` after the last
    progress.
    """

    def __init__(self, name: str, patience_ms: int) -> None:
        self._name, self._patience_s = name, patience_ms / 1000
        self._failed, self._done = 0, -1
        self._until = 0.0

    def check(self, error: KafkaError, done: int) -> None:
        """Raise the error if it does not pass, or if patience is over. `done` grows with what got
        through, and whenever everything is found to be through.
        """
        if not may_pass(error):
            raise error
        now = asyncio.get_running_loop().time()
        if done != self._done:
            self._failed, self._done, self._until = 0, done, now + self._patience_s
        if now > self._until:
            raise error
        log.warning("%s goes on from its last commit after: %s", self._name, error)

    async def pause(self) -> None:
        """Wait for the next attempt."""
        await asyncio.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**self._failed))
        self._failed += 1


_RENEWED = (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    OutOfOrderSequenceNumberError,
    UnknownProducerIdError,
)
"""After these an abort finds out: the producer goes on with a new epoch, or it is fenced."""


def may_pass(error: KafkaError) -> bool:
    """Return whether another attempt may get through: brokers away, a transaction timed out."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TransactionFatalError):
            return False
        if isinstance(seen, (NetworkError, *_RENEWED)) or getattr(seen, "retriable", False):
            return True
        if isinstance(seen, TransactionAbortableError) and seen.__cause__ is None:
            return True
        seen = seen.__cause__
    return False
