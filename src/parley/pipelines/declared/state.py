"""The folder in which the runs of a pipeline know of each other.

    <state>/<pipeline>/lock       held by the run that is under way, with who it is
                       drain      somebody wants it to end
                       spark.log  messages of Spark's session
                       FLOW.json  how far a flow was when it was last looked at
                       FLOW/v1/checkpoint  of a streaming query, which goes on from there

What the other kinds have done stands in the targets, not here: without this folder they go on all
the same. The lock is the operating system's: it is gone with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from parley.errors import AlreadyRunningError, ConfigError

LOCK, DRAIN, SPARK_LOG = "lock", "drain", "spark.log"
RUNNING, DRAINED, DONE, FAILED, NEVER = "running", "drained", "done", "failed", "never ran"
_ATTEMPTS, _PAUSE_S = 1_000, 0.001


class Noted(NamedTuple):
    """How a flow was when it was last looked at, and the records of its last run."""

    state: str
    records: int


def checkpoint_of(state: Path, flow: str) -> Path:
    """Return the folder in which a streaming query keeps what it has read."""
    return (state / flow / "v1" / "checkpoint").resolve()


def check_folder(flow: str, flows: Iterable[str]) -> None:
    """Raise ConfigError where a query's folder would be a file of the pipeline or of its flows, or
    lie outside.
    """
    taken = {".", "..", LOCK, DRAIN, SPARK_LOG}
    for other in flows:
        taken |= {_note(other), _new_note(other)}
    if flow in taken:
        raise ConfigError(
            f'a flow that Spark runs has a folder of its name, and "{flow}" is taken in the folder '
            "state: give the flow another name"
        )


class State:
    """The files of one pipeline."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock, self._drain = folder / LOCK, folder / DRAIN

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only run. Raises AlreadyRunningError, which names the other; ConfigError where a
        folder stands in the way.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._check_files()
        of_before = self._drain_mark()
        with self._lock.open("a+", encoding="utf-8") as lock:
            if not _is_taken(lock):
                lock.seek(0)
                raise AlreadyRunningError(
                    f"this pipeline runs already ({lock.read().strip()}): end that run with "
                    "`parley drain`, or wait for it"
                )
            lock.truncate(0)
            lock.write(f"{socket.gethostname()}, process {os.getpid()}\n")
            lock.flush()
            if self._drain_mark() == of_before:  # else it came since, and is for this run
                self._drain.unlink(missing_ok=True)
            yield

    def is_running(self) -> bool:
        """Whether a run is under way. Raises ConfigError where a folder stands in the way."""
        self._check_files()
        try:
            with self._lock.open("r", encoding="utf-8") as lock:
                return not _locked(lock, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def ask_to_drain(self) -> bool:
        """Ask the run that is under way to end; return whether there is one."""
        if not self.is_running():
            return False
        self._drain.touch()
        return True

    def is_asked_to_drain(self) -> bool:
        """Whether somebody wants this run to end."""
        return self._drain.exists()

    def _drain_mark(self) -> tuple[int, int] | None:
        """Return what is another one for each time that somebody asks, None where nobody has."""
        try:
            found = self._drain.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def note(self, flow: str, state: str, records: int) -> None:
        """Write down how far a flow is."""
        found = {"state": state, "records": records, "at_ms": time.time_ns() // 1_000_000}
        new = self._folder / _new_note(flow)
        new.write_text(json.dumps(found), encoding="utf-8")
        new.replace(self._folder / _note(flow))

    def noted(self, flow: str) -> Noted:
        """Return what was written down of a flow last."""
        try:
            found = json.loads((self._folder / _note(flow)).read_text(encoding="utf-8"))
            return Noted(str(found["state"]), int(found["records"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Noted(NEVER, 0)

    def _check_files(self) -> None:
        for file in (self._lock, self._drain):
            if file.is_dir():  # of a flow of that name, which earlier releases took
                raise ConfigError(
                    f"{file} is a folder, and has to be a file of the pipeline's own: give it the "
                    "new name of the flow that it belongs to, or delete it if nobody needs it"
                )


def _is_taken(lock: TextIO) -> bool:
    """Take the lock for a run, and return whether that went: no other run has it.

    Who asks whether one is under way shares it for a moment, and is waited for.
    """
    for _ in range(_ATTEMPTS):
        if _locked(lock, fcntl.LOCK_EX):
            return True
        if not _locked(lock, fcntl.LOCK_SH):
            return False
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(_PAUSE_S)
    return False


def _locked(lock: TextIO, how: int) -> bool:
    """Lock a file, and return whether that went."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _note(flow: str) -> str:
    return f"{flow}.json"


def _new_note(flow: str) -> str:
    return f".{flow}.new"
