"""Java processes that cannot outlive the Python process which started them.

Every started process is known by its id to three parties: to its `JavaProcess`, to an `atexit`
handler, and to one guard (a small shell that reads ids from a pipe and kills what is left when the
pipe closes), which also works when Python itself is killed by SIGKILL. The guard removes temporary
folders then, too.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from parley.errors import KafkaError

_GUARD_SCRIPT = """
trap '' INT TERM HUP
ids=' '
folders=''
while read -r sign rest; do
  case $sign in
    +) ids="$ids$rest " ;;
    -) ids="${ids%% $rest *} ${ids#* $rest }" ;;
    folder) folders="$folders$rest
" ;;
  esac
done
for id in $ids; do kill -9 "$id" 2>/dev/null; done
printf %s "$folders" | while read -r folder; do rm -rf -- "$folder"; done
"""

LOG_LINES_SHOWN = 40


class StartError(KafkaError):
    """A process of a real cluster did not start or died; the text holds the end of its log."""


class JavaProcess:
    """One Java process with its log file. `signal`, `stop` and `kill` act on its id only."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        environment: dict[str, str] | None = None,
    ):
        self.name = name
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches Python first, which then stops things in order
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        _GUARD.add(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there (a paused one is)."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process is still there."""
        if self.running:
            self._process.send_signal(number)

    def freeze(self) -> None:
        """Let the process stand still (SIGSTOP); returns when each of its threads does.

        On a busy machine threads run on for a while: the first that gets the signal stops the
        others.
        """
        if self.running:
            self._process.send_signal(signal.SIGSTOP)
            seen = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if seen is not None and seen.si_code == os.CLD_STOPPED:
                # taken note of, so that the next one is new
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)

    def stop(self, timeout_seconds: float = 120) -> None:
        """Ask the process to end (SIGTERM), wait, and kill it when it takes too long."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _GUARD.remove(self)

    def kill(self) -> None:
        """End the process at once (SIGKILL) and wait until it is gone."""
        if self.running:
            self._process.kill()
        self._process.wait()
        _GUARD.remove(self)

    def log_tail(self) -> str:
        """Return the last lines of the log, for an error's text."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(lines[-LOG_LINES_SHOWN:]) or "(the log is empty)"

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        """Wait until `ready()`; StartError when the process dies or time runs out first."""
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if not self.running:
                raise StartError(
                    f"{self.name} ended with status {self._process.returncode} before "
                    f"{what}. The end of its"
                    f" log:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise StartError(
                    f"{self.name}: waited {timeout_seconds:g} s until {what}. The end of its "
                    f"log:\n{self.log_tail()}"
                )
            time.sleep(0.05)


class _Guard:
    """Knows all running processes and kills them when this Python ends, however that is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, JavaProcess] = {}
        self._shell: subprocess.Popen[bytes] | None = None

    def add(self, process: JavaProcess) -> None:
        with self._lock:
            self._start()
            self._known[process.pid] = process
            self._note(f"+ {process.pid}\n")

    def remove_at_end(self, folder: Path) -> None:
        with self._lock:
            self._start()
            self._note(f"folder {folder}\n")

    def remove(self, process: JavaProcess) -> None:
        with self._lock:
            if self._known.pop(process.pid, None) is not None:
                self._note(f"- {process.pid}\n")

    def kill_all(self) -> None:
        for process in list(self._known.values()):
            process.kill()
        with self._lock:
            if self._shell is not None and self._shell.stdin is not None:
                self._shell.stdin.close()
                self._shell.wait()
                self._shell = None

    def _start(self) -> None:
        if self._shell is None:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD_SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            atexit.register(self.kill_all)

    def _note(self, line: str) -> None:
        assert self._shell is not None
        assert self._shell.stdin is not None
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()


_GUARD = _Guard()


def temporary_folder(parent: Path | None = None) -> Path:
    """Return a folder that is removed when this Python process ends at the latest.

    It lies in `parent`, else where the system keeps what is temporary.
    """
    folder = Path(tempfile.mkdtemp(prefix="parley-kafka-", dir=parent))
    _GUARD.remove_at_end(folder)
    return folder
