"""Ports on loopback that stay ours, so that a stopped broker can come back at its address.

They are taken below the range the kernel hands out to outgoing connections, and each is held by a
locked file for the life of its holder, so that tests running at the same time never share one.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from parley.errors import KafkaError

_FIRST, _LAST = 17_000, 31_999


class PortPool:
    """The ports of one cluster; `release()` lets others have them."""

    def __init__(self) -> None:
        self._locks: list[IO[str]] = []
        self._folder = Path(tempfile.gettempdir()) / f"parley-ports-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def take(self) -> int:
        """Return a port on 127.0.0.1 that nothing listens on and no other pool holds."""
        rng = random.Random()
        for _ in range(1000):
            port = rng.randint(_FIRST, _LAST)
            lock = (self._folder / str(port)).open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                lock.close()
                continue
            self._locks.append(lock)
            return port
        raise KafkaError(f"no free port was found between {_FIRST} and {_LAST} on 127.0.0.1")

    def release(self) -> None:
        """Give all ports back."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()
