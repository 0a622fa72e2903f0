"""A value that is not unpickled before somebody looks at it, nor what it needs imported."""

from __future__ import annotations

import pickle
from typing import Generic, TypeVar

T = TypeVar("T")


class Sealed(Generic[T]):
    """A picklable value. Spark unpickles a writer in a new process to commit, where
    it may need nothing of it.
    """

    def __init__(self, value: T) -> None:
        self._value, self._bytes = value, b""

    @property
    def value(self) -> T:
        """The value, unpickled when it is first asked for."""
        if self._bytes:
            self._value, self._bytes = pickle.loads(self._bytes), b""
        return self._value

    def __getstate__(self) -> bytes:
        return self._bytes or pickle.dumps(self._value)

    def __setstate__(self, state: bytes) -> None:
        self._bytes = state
