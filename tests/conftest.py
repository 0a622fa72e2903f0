"""For all tests: what this machine can run, who shares
a worker, and an honest count of what was skipped.

Nothing is skipped in silence: the last line of a run gives the number of skipped tests and each
reason, and where CI is set a skipped test fails the run.

No test has a limit of time that a busy machine could reach: the limit only ends what hangs. What
tests share is replaced when it is lost (`support.lasting`), and they wait for conditions, not for
times (`support.patience`).

Under `-n` the tests that share the Spark session go to one worker and those that share real brokers
to another, so that the session and each broker is started once. The rest is handed out file by
file, first the files that start a Spark or brokers of their own, for they take longest.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from parley.host import find_java, find_tool, java17

from .support.lasting import Lasting
from .support.matrix import mark_matrix
from .support.patience import PATIENCE

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

HERE = Path(__file__).parent
DEAR = ("spark", "real")
"""What takes long to start: folders and markers of these names."""
SHARING = {
    "spark": re.compile(r"\b(?:spark|stream): (?:Any|Callable)"),
    "real": re.compile(r"\b(?:real_cluster|real_broker|real_release|transactional_release)\b"),
}
"""Which files of the folders take what their folder shares: by its fixtures."""

SEED = 20_260_101
"""Of pytest-randomly, unless `--randomly-seed` gives another."""

# Time limits per example say more about the machine than about the code: pytest-timeout guards
# instead. The same examples each time, so that whether a change passes does not depend on luck;
# `make test-long` tries others.
settings.register_profile(
    "dev", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("ci", parent=settings.get_profile("dev"), print_blob=True)
settings.register_profile(
    "long", parent=settings.get_profile("ci"), max_examples=2000, derandomize=False
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let what tests share be replaced when it is lost; fix the order of the
    tests and what they draw.
    """
    config.pluginmanager.register(Lasting(), "lasting")
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = SEED


@cache
def missing(need: str) -> str | None:
    """Return why tests with this marker cannot run on this machine, or None when they can."""
    if need in {"real", "jars"} and find_tool("mvn") is None:
        return "no mvn: real brokers and the kafka-clients jars come from Maven"
    if need == "real" and java17() is None:
        return "no Java 17: real brokers need one"
    if need == "spark" and importlib.util.find_spec("pyspark") is None:
        return "no pyspark"
    if need == "spark" and find_java() is None:
        return "no Java 17 or later: Spark needs one"
    return None


def needs_of(item: pytest.Item) -> set[str]:
    """Return what a test needs of the machine: by its markers, or by the folder it lies in."""
    needs = {
        name for name in ("real", "jars", "spark") if item.get_closest_marker(name) is not None
    }
    if item.path.is_relative_to(HERE):
        needs |= {"real", "spark"} & {item.path.relative_to(HERE).parts[0]}
    return needs


def limit_of(item: pytest.Item) -> float:
    """Return the seconds after which a test counts as hanging: no test is marked to
    have less than the others.
    """
    usual = float(item.config.getini("timeout") or 0)
    marker = item.get_closest_marker("timeout")
    return PATIENCE * (usual if marker is None else max(usual, float(marker.args[0])))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here, with the reason; limit the time of the rest;
    separate matrices from the rest.
    """
    mark_matrix(items)
    for item in items:
        item.add_marker(pytest.mark.timeout(limit_of(item)), append=False)
        for need in sorted(needs_of(item)):
            reason = missing(need)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
                break


@cache
def unit_of(file: Path) -> str:
    """Return with whom the tests of a file share a worker: one of DEAR, or the file for itself.

    The process that hands tests out has not imported them: it looks into the file for the fixtures.
    """
    folder, text = _look_into(file)
    return folder if folder in SHARING and SHARING[folder].search(text) else str(file)


@cache
def is_long(file: Path) -> bool:
    """Return whether a file has tests that start a Spark or real brokers of their own."""
    folder, text = _look_into(file)
    return bool(set(DEAR) & {folder, *re.findall(r"\bpytest\.mark\.(\w+)", text)})


def _look_into(file: Path) -> tuple[str, str]:
    folder = file.relative_to(HERE).parts[0] if file.is_relative_to(HERE) else ""
    return folder, file.read_text(encoding="utf-8") if file.is_file() else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what is there before the first test out of all later collections: thousands of tests
    that no collection can free made each of them take a third of a second.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Collect garbage after each file: a socket that was left open then fails a test
    of the file that left it.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Hand out the tests that share a session as one unit,
    those that share brokers as another, the rest by file.

    xdist's own `loadgroup` writes the group into the tests' ids, which pytest since 9 does not let
    it. Another `--dist` than the default is obeyed.
    """
    if config.getoption("dist") not in {"load", "loadgroup"}:
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(config.rootpath / nodeid.partition("::")[0])

        def _assign_work_unit(self, node: object) -> None:
            # the longest first: they run beside each other, then the rest fills up
            if self.workqueue:
                units = list(self.workqueue)
                first = next((unit for unit in DEAR if unit in self.workqueue), None)
                first = first or next((unit for unit in units if is_long(Path(unit))), units[0])
                self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return ByUnit(config, log)


def skip_line(reasons: Counter[str]) -> str:
    """Return the account of skipped tests, as one line."""
    if not reasons:
        return "skipped 0"
    listed = "; ".join(
        f"{count} x {reason}" for reason, count in sorted(reasons.items(), key=lambda one: -one[1])
    )
    return f"skipped {reasons.total()}: {listed}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Write the account as the very last line; where CI is set, turn a skip into a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    reasons: Counter[str] = Counter(_reason(report) for report in skipped)
    in_ci = bool(os.environ.get("CI"))
    if reasons and in_ci and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    yield
    if reporter is not None:
        failure = (
            " (CI is set: nothing may be skipped, so this run fails)" if reasons and in_ci else ""
        )
        seed = getattr(session.config.option, "randomly_seed", None)
        if seed not in {SEED, None}:
            reporter.write_line(f"--randomly-seed={seed}")
        reporter.write_line(skip_line(reasons) + failure, red=bool(failure), yellow=bool(reasons))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped, without pytest's prefix."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
