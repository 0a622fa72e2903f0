"""What a process has not had acknowledged yet, so that its end loses no records in silence.

Whoever writes registers here until the outcome is known. A chunk is kept alive by that: the records
of a producer that was dropped with its event loop are still counted at the end.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterable
from typing import Protocol

from parley.client.loop_thread import leave_behind

log = logging.getLogger("parley.client")


class UnderWay(Protocol):
    """Records whose outcome is not known."""

    @property
    def topic(self) -> str | None:
        """Their topic, None for rows of several."""

    def unacknowledged(self) -> int:
        """Return how many they are now. Called in any thread."""


_under_way: dict[UnderWay, None] = {}


def begun(records: UnderWay) -> None:
    """Count these records among those that the process must not end without. From any thread."""
    _under_way[records] = None


def ended(records: UnderWay) -> None:
    """Do not count them any more. From any thread."""
    _under_way.pop(records, None)


def warn(under_way: Iterable[UnderWay], when: str) -> None:
    """Log how many of these records have no outcome, where that will never be known."""
    lost = {records: records.unacknowledged() for records in list(under_way)}
    count = sum(lost.values())
    if count:
        topics = {records.topic for records, some in lost.items() if some and records.topic}
        log.warning(
            "%d records%s were not acknowledged %s: those that no broker has "
            "are lost. Its producers were not closed. Use them in a with block (`with "
            "Producer(...) as producer:`), or call flush() or close() before the program ends.",
            count,
            f" for {', '.join(sorted(topics)[:5])}" if topics else "",
            when,
        )


def _at_exit() -> None:
    # it waits for nothing: brokers that do not answer would keep the process
    warn(_under_way, "when this process ended")


def _after_fork() -> None:
    """Leave what is under way to the parent."""
    global _under_way
    leave_behind(_under_way)
    _under_way = {}


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
