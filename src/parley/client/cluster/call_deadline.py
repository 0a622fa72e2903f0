"""The deadline of the call that a task works for, where connections are waited for.

1. A request is given what is left of the call as its own time-out, and says when it passes that the
   outcome is unknown. The wait for a connection comes before it: cutting that off leaves no request
   half-made.
2. Those who wait stand below several layers that know no deadline, so that it goes with the task (a
   context variable, which tasks begun meanwhile inherit). What several calls share, a refresh or an
   opening, has limits of its own and does not look at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from parley.client.cluster.retry import Deadline
from parley.errors import RequestTimedOut, own_copy
from parley.net import Pool
from parley.net.failures import CONNECT

_current: ContextVar[Deadline | None] = ContextVar("parley_call_deadline", default=None)


@contextmanager
def working_until(deadline: Deadline) -> Iterator[None]:
    """Bound the waits for connections in here by a deadline, or by that of an outer call."""
    around = _current.get()
    token = _current.set(deadline if around is None or deadline.at_ms < around.at_ms else around)
    try:
        yield
    finally:
        _current.reset(token)


def call_deadline() -> Deadline | None:
    """Return the deadline of the call that this task works for, None where it has none."""
    return _current.get()


def without_connection(pool: Pool, node_id: int | None) -> RequestTimedOut:
    """Return the error of a call that waited for a connection (None: to any) until its deadline.

    Its cause is why an opening before this one failed, where one did.
    """
    address = pool.address(node_id)
    stages = dict(pool.opening)
    if node_id is None:
        address = next(iter(stages), None)
    last = pool.failure(address)
    stage = stages.get(address) if address is not None else None
    where = "any broker" if node_id is None else f"broker {node_id}"
    named = f" ({address})" if address is not None else ""
    if node_id is not None and address is not None:
        named = f" ({address}, as its advertised.listeners says)"
    now = (
        f"it had come to the stage of {stage}"
        if stage is not None
        else "the next attempt was not due yet"
    )
    before = f", after: {last}" if last is not None else ""
    error = RequestTimedOut(
        f"no connection to {where}{named} before the deadline of the call (timeout_ms, "
        f"default_api_timeout_ms or max_block_ms): {now}{before}. This attempt sent nothing; what "
        "became of an earlier attempt of the same call, if there was one, is unknown",
        address=str(address) if address is not None else None,
        stage=stage or CONNECT,
    )
    error.__cause__ = own_copy(last) if last is not None else None
    return error
