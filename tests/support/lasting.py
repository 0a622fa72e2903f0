"""Fixtures that many tests share: a start that
failed is tried again, and what was lost is replaced.

pytest remembers the exception of a module's or session's fixture and raises it in every test that
follows, and it hands out what was made once, whether that still lives or not. On a busy machine one
slow start or one test that ran into its time limit would then fail all tests of a worker. Here
instead:

- the failed start of a shared fixture is forgotten, so that the next test starts it again
  (MOST_STARTS times);
- before a test, each shared thing that it takes is asked whether it is alive, and replaced together
  with all that was made of it when it is not;
- after a test that failed, its shared things are suspect: what is cheap is replaced, what is dear
  is questioned.

A kind of thing takes part by a line in KINDS. Whatever else is shared is handed out as pytest does
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from . import sparks

MOST_STARTS = 3
"""How often the start of a shared fixture may fail before its failure is final:
each try takes its time.
"""

Check = Callable[[Any, bool], bool]
"""Whether a thing may be handed out: (thing, whether a test that had it failed)."""


def _embedded(cluster: Any, suspect: bool) -> bool:
    """Milliseconds make a new one: after a failed test nobody asks what is left
    of its faults and scenes.
    """
    return not suspect and cluster._thread is not None and cluster._thread.is_alive()


KINDS: dict[str, Check] = {
    "parley.devcluster.blocking.LocalCluster": _embedded,
    "parley.client.client.Client": lambda client, suspect: not suspect and not client._closed,
    "parley.testing.realbroker.cluster.RealCluster": lambda cluster, suspect: bool(
        cluster.alive(ask=suspect)
    ),
    "pyspark.sql.session.SparkSession": sparks.usable,
}
"""The check of each kind, by the full name of its class: nothing is imported
that a test did not import.
"""


class Lasting:
    """The plugin. One per worker."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        """Of each shared fixture that was set up, the request that it was set up with."""
        self._suspects: set[Any] = set()
        self._failures: Counter[tuple[Any, str]] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Forget that a shared fixture did not start, unless it never does."""
        if fixturedef.scope == "function":
            return (yield)
        try:
            value = yield
        except (Exception, pytest.fail.Exception):
            key = (fixturedef, repr(getattr(request, "param", None)))
            self._failures[key] += 1
            if self._failures[key] < MOST_STARTS:
                fixturedef.finish(request)
            raise
        self._made[fixturedef] = request
        return value

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Replace what this test would get and what does not live any more."""
        for fixturedef in self._shared_by(item):
            if fixturedef.cached_result is None:
                continue  # it ended with what it was made of
            check = _check_of(fixturedef.cached_result[0])
            suspect = fixturedef in self._suspects
            if check is not None and not check(fixturedef.cached_result[0], suspect):
                try:
                    fixturedef.finish(self._made[fixturedef])
                except Exception as error:
                    item.add_report_section(
                        "setup", "replaced", f"{fixturedef.argname} did not end well: {error!r}"
                    )
            self._suspects.discard(fixturedef)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """After a failure, suspect all shared things that the test had."""
        report: Any = yield
        if report.failed:
            self._suspects.update(self._shared_by(item))
        return report

    def _shared_by(self, item: pytest.Item) -> list[Any]:
        """Return the shared fixtures of a test that are set up now, what
        others are made of first.
        """
        found: Any = getattr(item, "_fixtureinfo", None)
        if found is None:
            return []
        used = [
            made
            for name in found.names_closure
            for made in found.name2fixturedefs.get(name, ())[-1:]
        ]
        return [made for made in used if made in self._made and made.cached_result is not None]


def _check_of(value: object) -> Check | None:
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__)
    return next((KINDS[name] for name in names if name in KINDS), None)
