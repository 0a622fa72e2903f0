"""A Spark session that several tests share: is it usable, and how it ends when it is not.

What makes all tests after one fail, on a machine that is too busy for a moment:

- A test that runs into its time limit is interrupted wherever it is, mostly while it waits for
  Java's answer. The answer then still comes, on the connection that the thread uses for its next
  call, and from there on each call gets the answer of the one before. So after a failed test the
  thread gets a new connection.
- Spark looks for Python data sources once in the life of its Java. If that Python process does not
  start in time, it warns, and there is no `parley` from then on. So a session without it is not
  usable, and ends with its Java.
- Spark gives the Python process of a streaming query ten seconds to start, and fails the query
  afterwards. So a query that fails with this before it began is started again: from its checkpoint,
  as its user would.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .patience import eventually

MOST_STARTS = 6

_ENDS = (Exception, pytest.fail.Exception)  # the second is what the time limit of a test raises


@contextlib.contextmanager
def unpacked_home(folder: Path) -> Iterator[None]:
    """Let a Spark that starts meanwhile find its Python files in pyspark's folder instead of in the
    zip beside its JARs, from which each Python process would compile them again: it then starts in
    0.4 s of processor time instead of 1.2 s. Tests that start Spark by itself leave that be.
    """
    import pyspark

    home = folder / "home"
    (home / "python").mkdir(parents=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name in {"bin", "jars", "sbin"}:
            (home / part.name).symlink_to(part)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", str(home))
        yield


def usable(session: Any, suspect: bool) -> bool:
    """Return whether a session answers, after a failed test also whether it still computes."""
    try:
        if suspect:
            reconnect(session)
        if not answers(session):
            return False
        if suspect:
            for query in session.streams.active:
                query.stop()
            session.sparkContext.cancelAllJobs()
            return bool(session.range(2).count() == 2 and finds_parley(session))
    except _ENDS:
        return False
    return True


def answers(session: Any) -> bool:
    """Return whether Java answers, and answers this call instead of an earlier one."""
    token = random.getrandbits(40)
    try:
        reported = session._jvm.java.lang.Long.toString(token)
        return reported == str(token) and not session.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


def reconnect(session: Any) -> None:
    """Give up this thread's connection to Java, whatever still comes on it, and make another one.

    To each connection belongs a thread of Java's, which has to know its session: Spark looks there
    for data sources.
    """
    connection = session.sparkContext._gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def finds_parley(session: Any) -> bool:
    """Return whether the session found the data source when it looked for data sources."""
    return bool(
        session._jsparkSession.sessionState().dataSourceManager().dataSourceExists("parley")
    )


def end(session: Any) -> None:
    """Stop a session and end its Java, whether that still answers or not. The next
    session starts one of its own.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = session.sparkContext._gateway
    with contextlib.suppress(*_ENDS):
        reconnect(session)
    if not answers(session):
        gateway.proc.kill()
    with contextlib.suppress(*_ENDS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Java has gone is known here
        session.stop()
    with contextlib.suppress(*_ENDS):
        gateway.shutdown()
    gateway.proc.kill()
    gateway.proc.wait()
    gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def started(start: Callable[[], Any]) -> Any:
    """Start a streaming query and return it when it has begun, or has failed
    for a reason of its own.
    """
    for left in reversed(range(MOST_STARTS)):
        query = start()
        eventually(
            lambda query=query: (
                not (query.isActive and query.status["message"].startswith("Initializing"))
            )
        )
        if query.isActive or not left or "failed to connect back" not in str(query.exception()):
            return query
    raise AssertionError("the loop returns")


def forget_commit(checkpoint: Path) -> int:
    """Remove the last commit of a query's checkpoint, as if the driver had died between its commit
    and Spark's; return the batch's number.
    """
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last
