"""Time that a test moves, and deadlines on it."""

from __future__ import annotations

import asyncio

import pytest

from parley.net import Deadline, LoopClock, ManualClock


async def test_a_manual_clock_runs_what_falls_due_in_order() -> None:
    clock, ran = ManualClock(10), []
    clock.call_at_ms(30, lambda: ran.append("b"))
    clock.call_at_ms(20, lambda: ran.append("a"))
    clock.call_at_ms(25, lambda: ran.append("never")).cancel()
    clock.call_at_ms(99, lambda: ran.append("late"))
    assert clock.waiting == 3
    await clock.advance(20)
    assert (ran, clock.now_ms()) == (["a", "b"], 30)
    assert clock.waiting == 1


async def test_sleepers_wake_when_their_time_has_come() -> None:
    clock = ManualClock()
    order: list[int] = []

    async def sleeper(duration_ms: int) -> None:
        await clock.sleep_ms(duration_ms)
        order.append(clock.now_ms())

    tasks = [asyncio.create_task(sleeper(ms)) for ms in (30, 10, 0, -5)]
    await clock.advance(10)
    assert order == [0, 0, 10]
    await clock.advance(100)
    assert order == [0, 0, 10, 30]
    await asyncio.gather(*tasks)


async def test_a_cancelled_sleeper_leaves_no_timer() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep_ms(50))
    await clock.advance(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.waiting == 0


async def test_a_deadline_interrupts_and_says_timeout() -> None:
    clock = ManualClock()

    async def body() -> None:
        async with Deadline(clock, 40):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(body())
    await clock.advance(39)
    assert not task.done()
    await clock.advance(1)
    with pytest.raises(TimeoutError):
        await task
    assert task.cancelling() == 0


async def test_a_deadline_in_the_past_interrupts_at_the_first_wait() -> None:
    clock = ManualClock(100)
    with pytest.raises(TimeoutError):
        async with Deadline(clock, 100):
            await asyncio.sleep(0)


async def test_a_deadline_in_the_past_leaves_a_body_alone_that_waits_for_nothing() -> None:
    async with Deadline(ManualClock(100), 40):
        pass
    await asyncio.sleep(0)  # where a cancellation left behind would come out
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_deadline_that_is_kept_leaves_nothing() -> None:
    clock = ManualClock()
    async with Deadline(clock, 40):
        await asyncio.sleep(0)
    assert clock.waiting == 0
    with pytest.raises(ValueError, match="own"):
        async with Deadline(clock, 40):
            raise ValueError("own")


async def test_a_cancellation_from_outside_stays_one() -> None:
    clock = ManualClock()

    async def body() -> None:
        async with Deadline(clock, 40):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(body())
    await clock.advance(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.waiting == 0


async def test_a_cancellation_that_meets_the_deadline_stays_one() -> None:
    deadline = Deadline(ManualClock(), 40)

    async def body() -> None:
        async with deadline:
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    deadline._expire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_loop_clock_is_the_loops_time() -> None:
    clock, loop = LoopClock(), asyncio.get_running_loop()
    assert abs(clock.now_ms() - loop.time() * 1000) < 100
    await clock.sleep_ms(0)
    called = loop.create_future()
    clock.call_at_ms(clock.now_ms() - 5, lambda: called.set_result(clock.now_ms()))
    assert await called >= 0
