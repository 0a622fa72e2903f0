"""A benchmark of some parts leaves the figures of the others in RESULTS.md."""

from __future__ import annotations

from benchmarks.negotiation import Measured
from benchmarks.report import merge_reports, write_report
from benchmarks.run import Results

FOUND = Measured(3.2, 14.9, {"0.9.0.1": 1, "2.4.1": 2, "4.3.0": 1}, 1.31, 12.0)


def report(**parts: object) -> str:
    return write_report(Results(records=1000, rounds=3, **parts), command="python -m benchmarks.run", cores=2)  # type: ignore[arg-type]


def test_a_part_measured_later_joins_the_others() -> None:
    old = report(startup={"import": 0.003, "cluster": 0.007})
    merged = merge_reports(old, report(negotiation=FOUND))
    goals = merged.partition("## Must be reached")[2].partition("## ")[0]
    assert "| three embedded brokers ready | < 0.5 s | 0.007 s | reached |" in goals
    assert "| old broker recognised, real 0.9.0.1 | ≤ 50 ms | 14.9 ms | reached |" in goals
    assert "| round trips that negotiation adds | ≤ 1 | 1 | reached |" in goals
    assert "| more of them where the broker refuses the newest version | ≤ 1 | 1 | reached |" in goals
    assert [line for line in merged.splitlines() if line.startswith("#")] == [
        "# Benchmark results", "## Must be reached", "## Start", "## Negotiation", "## Machine and versions",
    ]  # fmt: skip


def test_a_part_measured_again_replaces_what_it_said() -> None:
    old = merge_reports(report(startup={"import": 0.003}), report(negotiation=FOUND))
    merged = merge_reports(old, report(negotiation=FOUND._replace(old_real_ms=99.0)))
    assert "99.0 ms | **missed** |" in merged
    assert "14.9 ms" not in merged
    assert merged.count("## Negotiation") == merged.count("Measured by itself") == 1
    assert "| `import parley` | < 0.2 s | 0.003 s | reached |" in merged
