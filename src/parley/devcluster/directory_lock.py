"""One cluster at a time on a data directory: a lock that the system takes back from whoever dies.

Rules of this file:
1. The lock is flock's, on a file of its own that is never removed: the directory counts as free as
   soon as its holder's process is gone, however it went.
2. It is held by an open file, not by a process: a second cluster in the same process is refused
   too.
3. A process that was forked holds nothing: what it inherited is closed at once.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from parley.devcluster.state.log.bytestore import make_private
from parley.errors import ConfigError

LOCK_FILE = ".lock"  # as in Kafka's own log directories
_MAX_PID_BYTES = 20


class DirectoryLock:
    """The lock of a data directory, held from its making until `release`."""

    def __init__(self, directory: Path) -> None:
        """Lock a directory, which is made if it is missing.

        Raises ConfigError, naming the holder's process, when another cluster runs on it, and
        OSError when the directory cannot be written. Nothing that lies in it was read or changed
        then.
        """
        make_private(directory)
        self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._fd)
        except BlockingIOError:
            holder = os.pread(self._fd, _MAX_PID_BYTES, 0).decode("ascii", "replace").strip()
            self.release()
            raise ConfigError(_held(directory, holder)) from None
        except BaseException:
            self.release()
            raise
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        _held_here.add(self)

    def release(self) -> None:
        """Let others have the directory. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_held_here: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _lock(fd: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: it has no flock, and clusters there go unlocked
        return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _held(directory: Path, holder: str) -> str:
    if holder == str(os.getpid()):
        who, remedy = f"another cluster of this process ({holder})", "Close that one"
    else:
        who, remedy = f"the cluster of process {holder or 'unknown'}", "Stop that one"
    return (
        f'the data directory "{directory}" is in use by {who}. {remedy}, or give this cluster a '
        "directory of its own."
    )


def _forget_in_child() -> None:
    for lock in list(_held_here):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
