"""The members of a group that `groups` kills: their processes, and what their diaries say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .group_diary import DiaryReader, Line

ROOT = Path(__file__).parents[2]
SIZE = 4
END_SECONDS = 60


class Process:
    """One member's process, and its diary."""

    def __init__(self, name: str, folder: Path, arguments: Sequence[str]) -> None:
        self.name, self.diary = name, DiaryReader(folder / f"{name}.diary")
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.group_member", *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )

    def shown(self) -> str:
        """Return how it is, for an error's text."""
        last, log = self.diary.last, self.log.read_text(errors="replace")[-3_000:]
        return f"{self.name}: status {self.running.poll()}, last {str(last)[:300]}\n{log}"


class Crew:
    """Some members at a time, each in a slot; who is killed is followed by another one there."""

    def __init__(
        self,
        given: Sequence[str],
        folder: Path,
        work: str,
        options: Mapping[str, object],
        *,
        static: bool,
    ) -> None:
        self._given, self._folder, self._work = given, folder, work
        self._options, self._static = options, static
        self.slots: list[Process] = []
        self._before: list[Process] = []
        self._starts = 0
        self._chosen = 0
        self._paused_at = 0.0
        self._held: set[int] = set()
        self._seen: dict[str, int] = {}
        self.reached: dict[int, int] = {}
        """How far each partition was read."""
        self.delivered = 0

    def start(self) -> None:
        """Start all."""
        self.slots = [self._process(slot) for slot in range(SIZE)]

    def _process(self, slot: int) -> Process:
        self._starts += 1
        name = f"m{slot}-{self._starts}"
        options = dict(self._options)
        if self._static:
            options["group_instance_id"] = f"m{slot}"
        given = [*self._given, str(self._folder), name, self._work, json.dumps(options)]
        return Process(name, self._folder, given)

    # -- looking -----------------------------------------------------------------------------------

    @property
    def _all(self) -> list[Process]:
        return [*self._before, *self.slots]

    def look(self) -> None:
        """Read on in the diaries."""
        for process in self._all:
            lines = process.diary.look()
            for line in lines[self._seen.get(process.name, 0) :]:
                for partition, records in line.get("records", {}).items():
                    self.delivered += len(records)
                    at = int(partition)
                    self.reached[at] = max(self.reached.get(at, 0), records[-1][0] + 1)
            self._seen[process.name] = len(lines)

    def diaries(self) -> dict[str, list[Line]]:
        """Return all diaries by their processes' names."""
        return {process.name: process.diary.look() for process in self._all}

    def check(self) -> None:
        """Raise RuntimeError when a member has ended that should not."""
        for process in self.slots:
            if process.running.poll() is not None:
                raise RuntimeError(f"a member ended by itself\n{process.shown()}")

    def shown(self) -> str:
        """Return how all are, for an error's text."""
        return "\n".join(process.shown() for process in self.slots)

    # -- one of them -------------------------------------------------------------------------------

    def choose(self, slots: Sequence[int], kind: str) -> bool:
        """Choose the first that is at work on what it has read: the worst moment."""
        for slot in slots:
            process = self.slots[slot]
            if process.diary.last["did"] == "read" or (kind == "close" and process.diary.held()):
                self._chosen = slot
                return True
        return False

    def pause(self) -> None:
        """Freeze the chosen one (SIGSTOP)."""
        process = self.slots[self._chosen]
        process.running.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.running.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._held, self._paused_at = process.diary.held(), time.monotonic()

    def others_went_on(self) -> bool:
        """Return whether others have read in all partitions that the paused one held."""
        found: set[int] = set()
        for process in self.slots:
            if process is not self.slots[self._chosen]:
                for line in process.diary.since("read"):
                    if line["at"] > self._paused_at:
                        found |= {int(partition) for partition in line["records"]}
        return self._held <= found

    def resume(self) -> None:
        """Let the paused one go on."""
        self.slots[self._chosen].running.send_signal(signal.SIGCONT)

    def end(self, *, orderly: bool) -> None:
        """End the chosen one: SIGTERM, which it obeys, or kill -9."""
        process = self.slots.pop(self._chosen)
        self._before.append(process)
        if not orderly:
            process.running.kill()
        else:
            process.running.terminate()
            self._ended(process)
        process.running.wait()

    @staticmethod
    def _ended(process: Process) -> None:
        try:
            status = process.running.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"a member does not end\n{process.shown()}") from None
        if status != 0:
            raise RuntimeError(f"a member ended with status {status}\n{process.shown()}")

    def replace(self) -> None:
        """Start another one in the place of who ended."""
        self.slots.insert(self._chosen, self._process(self._chosen))

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End all in order, once they have begun: before, nobody hears the signal."""
        until = time.monotonic() + END_SECONDS
        for process in self.slots:
            while not process.diary.look() and time.monotonic() < until:
                time.sleep(0.02)
            process.running.terminate()
        for process in self.slots:
            self._ended(process)

    def kill(self) -> None:
        """End what is left."""
        for process in self._all:
            if process.running.poll() is None:
                process.running.kill()
            process.running.wait()
