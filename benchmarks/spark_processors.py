"""Where the processors' time goes in Spark reads and writes: Spark's JVM, its
Python workers, the broker.
"""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from benchmarks.bench import Bench
from benchmarks.report import Section, table

KINDS = ("jvm", "python", "broker")
NAMES = {
    ("read", "parley"): "read, parley",
    ("read", "spark"): "read, Spark's own",
    ("write", "parley"): "write, parley at least once",
    ("write", "exactly-once"): "write, parley exactly once",
    ("write", "spark"): "write, Spark's own",
}


class Measured(NamedTuple):
    """What was said of each turn: topic, job, source, and the processor seconds
    of each kind of process.
    """

    facts: list[dict[str, Any]]
    records: int


def measure(bench: Bench) -> Measured:
    if bench.bootstrap is not None:
        raise SystemExit(
            "benchmarks: processors needs the process of the broker: leave --bootstrap out"
        )
    bench.fill_all()
    (node,) = bench.cluster.nodes.values()
    assert node.process is not None
    bench.fill({"plain": "none"}, records=bench.records)
    facts = bench.spark_job("processors", bench.topics, "--broker-pid", str(node.process.pid))
    return Measured([fact for fact in facts if fact["kind"] == "taken"], bench.records)


def report(found: Measured) -> Section:
    rows = []
    for topic in dict.fromkeys(fact["topic"] for fact in found.facts):
        for (job, source), name in NAMES.items():
            of = [
                fact
                for fact in found.facts
                if (fact["topic"], fact["job"], fact["source"]) == (topic, job, source)
            ]
            if of:
                taken = [statistics.median(fact[kind] for fact in of) for kind in KINDS]
                micros = sum(taken) / found.records * 1e6
                rows.append(
                    [topic, name, *(f"{seconds:.2f}" for seconds in taken), f"{micros:.2f}"]
                )
    head = ["topic", "job", "Spark's JVM, s", "Python workers, s", "broker, s", "µs a record"]
    return Section("Where the processors' time goes", f"{_TEXT}\n\n{table(head, rows)}", [])


_TEXT = (
    "Processor seconds (user and system) of each kind of process during one turn, "
    "medians; two processors give two each second. Reads go to Spark's noop sink, writes "
    "are those of the section on writing. What stands under the JVM in parley's rows is "
    "Spark itself, which turns Arrow into rows and rows into Arrow. "
    "`docs/proof/performance.md` says what the profile inside the workers showed."
)
