"""Compare this checkout with an older one, in one run: `python -m benchmarks.against ../older`.

Both take turns, each with its own .venv and its own benchmarks, so that names may have changed
between them; what an older checkout has no benchmark for (`benchmarks/this_checkout.py`) is copied
there by hand. One real Kafka 3.9.1 broker serves both. The result is a section of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.bench import CODECS, ROOT, Bench, progress
from benchmarks.merge import merge_reports
from benchmarks.report import Section, table, write_report

PROCESSES = {"import": "import parley", "cluster": "three embedded brokers ready"}
Times = dict[str, list[float]]


def main() -> None:
    arguments = parse()
    checkouts = {"before": Path(arguments.older).resolve(), "now": ROOT}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # inherited by all that is started
    found: dict[str, Times] = {name: {} for name in checkouts}
    with Bench(
        arguments.records, arguments.rounds, tuple(CODECS), sys.executable, logs_in_memory=True
    ) as bench:
        bench.fill_all()
        for turn in range(arguments.rounds):
            for name in sorted(checkouts, reverse=turn % 2 == 1):
                for what, times in measure(
                    checkouts[name], bench.bootstrap_servers, arguments.repeat
                ).items():
                    found[name].setdefault(what, []).extend(times)
                progress(f"turn {turn + 1} of {arguments.rounds}: {name}")
    commits = {name: commit_of(folder) for name, folder in checkouts.items()}
    text = write_report(
        [report(found, commits)],
        command=f"python -m benchmarks.against {commits['before']} --rounds {arguments.rounds} "
        f"--records {arguments.records}",
        cores=2,
        rounds=arguments.rounds * arguments.repeat,
    )
    if arguments.output:
        output = Path(arguments.output)
        output.write_text(merge_reports(output.read_text(), text))
    print(text)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("older", help="the folder of the other checkout, with its .venv")
    parser.add_argument(
        "--rounds", type=int, default=5, help="turns of each (default: %(default)s)"
    )
    parser.add_argument(
        "--repeat", type=int, default=3, help="times in each turn (default: %(default)s)"
    )
    parser.add_argument(
        "--records", type=int, default=4_000_000, help="per topic (default: %(default)s)"
    )
    parser.add_argument(
        "--output", default=str(ROOT / "benchmarks" / "RESULTS.md"), help='"" writes no file'
    )
    return parser.parse_args()


def measure(checkout: Path, bootstrap: str, repeat: int) -> Times:
    """Return the seconds of everything that a turn measures, by what it is."""
    found: Times = {}
    for what, name in PROCESSES.items():
        found[name] = [
            float(run(checkout, "startup_process", what)["seconds"]) for _ in range(repeat + 1)
        ][1:]
    for what in ("read", "write", "leader-moves", "spark"):
        found |= run(
            checkout, "this_checkout", what, "--bootstrap", bootstrap, "--repeat", str(repeat)
        )
    return found


def run(checkout: Path, module: str, *arguments: str) -> dict[str, list[float]]:
    """Run a benchmark module of a checkout with its own Python; return the JSON that it prints."""
    command = [str(checkout / ".venv" / "bin" / "python"), "-m", f"benchmarks.{module}", *arguments]
    # As where parley is installed: pip compiles what it installs.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(
            f"benchmarks: {module} {' '.join(arguments)} failed in {checkout}:\n{done.stderr}"
        )
    answer: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def commit_of(checkout: Path) -> str:
    return subprocess.check_output(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, text=True
    ).strip()


def report(found: dict[str, Times], commits: dict[str, str]) -> Section:
    rows = []
    for what, before in found["before"].items():
        now = found["now"][what]
        ratio = statistics.median(now) / statistics.median(before)
        rows.append([what, *(middle(times) for times in (before, now)), f"{ratio:.3f}"])
    head = ["what", f"before, {commits['before']}", f"now, {commits['now']}", "now / before"]
    return Section("Against an older commit", f"{_TEXT}\n\n{table(head, rows)}", [])


def middle(times: list[float]) -> str:
    """Return the median in milliseconds, with the quartiles.

    >>> middle([0.1, 0.2, 0.3])
    '200 ms (100 to 300)'
    """
    low, median, high = (1000 * one for one in statistics.quantiles(times, n=4))
    return (
        f"{median:.3g} ms ({low:.3g} to {high:.3g})"
        if median < 100
        else f"{median:.0f} ms ({low:.0f} to {high:.0f})"
    )


_TEXT = (
    "Both checkouts take turns, each in processes of its own and with its own "
    "environment: medians, with the middle half of the measurements in brackets. The "
    "logs of the broker lie in memory. Below 1 is faster than before."
)


if __name__ == "__main__":
    main()
