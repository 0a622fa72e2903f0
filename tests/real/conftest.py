"""Real brokers for the tests of this folder: one cluster per release, started once and shared.

A test takes one of:

- `real_broker`: a running one-broker RealCluster; the test runs once for each selected release
  (`real_release` is its number). `make test` selects SOME_RELEASES, `make test-real` all of them
  by the environment variable PARLEY_REAL_RELEASES=all (or a comma-separated list);
- `real_cluster`: a function that returns the shared cluster of any release;
- RealCluster itself, where brokers are to be stopped or mixed.

Shared clusters keep their data from test to test: take topic names from `topic_name`.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.client import Client, NewTopic
from parley.testing.realbroker import REAL_RELEASES, RealCluster, full_release

from ..support.lasting import MOST_STARTS

SOME_RELEASES = ("0.9.0.1", "0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0")
WITH_TRANSACTIONS = ("0.11.0.3", "2.4.1", "3.9.1", "4.3.0")
_MOST_AT_ONCE = 6


class _SharedClusters:
    """The running clusters; the longest unused one is stopped when there are too many,
    and a lost one is replaced.
    """

    def __init__(self) -> None:
        self.running: OrderedDict[str, RealCluster] = OrderedDict()
        self.suspects: set[str] = set()
        """Those that a failed test had: they are asked before another test has them."""
        self._failures: dict[str, list[Exception]] = {}

    def get(self, release: str) -> RealCluster:
        release = full_release(release)
        if release in self.running and not self.running[release].alive(
            ask=release in self.suspects
        ):
            self.running.pop(release).close()
        self.suspects.discard(release)
        if release not in self.running:
            while len(self.running) >= _MOST_AT_ONCE:
                self.running.popitem(last=False)[1].close()
            self.running[release] = self._start(release)
        self.running.move_to_end(release)
        return self.running[release]

    def suspect(self) -> None:
        """Take note that a test with shared clusters failed."""
        self.suspects.update(self.running)

    def _start(self, release: str) -> RealCluster:
        """Start a release; one that fails again and again is not tried for each test."""
        failures = self._failures.setdefault(release, [])
        if len(failures) >= MOST_STARTS:
            raise failures[-1]
        try:
            return RealCluster(release).start()
        except Exception as error:
            failures.append(error)
            raise

    def stop(self) -> None:
        while self.running:
            self.running.popitem()[1].close()


_SHARED = _SharedClusters()


def selected_releases() -> tuple[str, ...]:
    """Return the releases that this run is to test."""
    wanted = os.environ.get("PARLEY_REAL_RELEASES", "")
    if wanted == "all":
        return REAL_RELEASES
    return (
        tuple(full_release(name.strip()) for name in wanted.split(",")) if wanted else SOME_RELEASES
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "real_release" in metafunc.fixturenames:
        # Session scope makes pytest run the tests of one release together.
        metafunc.parametrize("real_release", selected_releases(), scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.failed and "real_cluster" in getattr(item, "fixturenames", ()):
        _SHARED.suspect()
        for release, cluster in _SHARED.running.items():
            report.sections.append((f"real broker {release}", cluster.logs()))
    return report


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[Callable[[str], RealCluster]]:
    """A function from a release to its shared, running, one-broker cluster."""
    yield _SHARED.get
    _SHARED.stop()


@pytest.fixture
def real_broker(real_release: str, real_cluster: Callable[[str], RealCluster]) -> RealCluster:
    """The shared cluster of the release that this test is run for."""
    return real_cluster(real_release)


@pytest.fixture(scope="session", params=WITH_TRANSACTIONS)
def transactional_release(request: pytest.FixtureRequest) -> str:
    """One of the releases whose transactions are tested; the test runs once for each."""
    return str(request.param)


@pytest.fixture
def broker(transactional_release: str, real_cluster: Callable[[str], RealCluster]) -> RealCluster:
    """The shared cluster of each release with transactions; other modules have
    a `broker` of their own.
    """
    return real_cluster(transactional_release)


@pytest.fixture
def client(broker: RealCluster) -> Iterator[Client]:
    """A client of the module's `broker`."""
    with Client(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A topic of three partitions on the module's `broker`."""
    client.create_topics([NewTopic(topic_name, num_partitions=3)])
    return topic_name


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test of a shared cluster uses."""
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in request.node.name)
    return f"{kept[:200]}-{os.urandom(4).hex()}"


_OUTCOMES: dict[str, dict[str, str]] = {}
"""What the compatibility tests found: feature or codec, release, outcome."""


@pytest.fixture
def compatibility() -> Callable[[str, str, str], None]:
    """A function that takes note of one outcome for docs/compatibility.md:
    (feature, release, outcome).
    """

    def note(feature: str, release: str, outcome: str) -> None:
        _OUTCOMES.setdefault(feature, {})[release] = outcome

    return note


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Put into docs/compatibility.md what a run for named releases found out, if nothing failed."""
    from .compat.document import write

    if _OUTCOMES and session.testsfailed == 0 and os.environ.get("PARLEY_REAL_RELEASES"):
        write(_OUTCOMES)
