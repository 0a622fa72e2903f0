"""A job for blocking code: what its calls get when it is closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from parley.errors import LocalProtocolError
from parley.net.blocking import blocking, in_loop
from parley.pipelines.blocking import AsyncJob, BlockingJob

from ...support import GENEROUS_S


class Waiting(AsyncJob):
    def __init__(self) -> None:
        self.is_waiting = threading.Event()
        self.stopped = 0

    async def run(self) -> None:
        self.is_waiting.set()
        await asyncio.Event().wait()

    def stop(self) -> None:
        self.stopped += 1

    async def close(self) -> None:
        self.stop()


class Job(BlockingJob[Waiting]):
    run = blocking(Waiting.run)
    stop = in_loop(Waiting.stop)


def test_closing_ends_the_calls_of_other_threads() -> None:
    waiting = Waiting()
    job = Job("job", waiting)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            job.run()
        except LocalProtocolError as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert waiting.is_waiting.wait(GENEROUS_S)
    job.stop()
    job.close()
    thread.join(GENEROUS_S)
    assert [str(error) for error in ended] == ["this Job is closed; make a new one"]
    assert waiting.stopped == 2


def test_a_closed_job_says_so() -> None:
    job = Job("job", Waiting())
    with job:
        job.stop()
    job.close()
    with pytest.raises(LocalProtocolError, match="this Job is closed"):
        job.stop()
