"""The text of RESULTS.md: what must be reached, then every measurement, then the machine."""

from __future__ import annotations

import datetime
import os
import platform
import re
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.leader_moves_report import leader_moves_goals, leader_moves_text

if TYPE_CHECKING:
    from benchmarks.run import Results

NAMES = {
    "parley_arrow": "parley, Arrow batches",
    "confluent_tuned": "confluent-kafka, consume(), fetch.queue.backoff.ms=1",
    "confluent": "confluent-kafka, consume(), defaults",
    "aiokafka_getmany": "aiokafka, getmany()",
    "kafka_python_poll": "kafka-python, poll()",
}
HEAD, GOALS, MACHINE = "# Benchmark results", "## Must be reached", "## Machine and versions"
GOALS_HEAD = ["what", "wanted", "measured", ""]
OLD_BROKER_MS, SURVEY_SECONDS, VIEW_MS = 50, 5, 50
SPARK_FACTOR, CLIENT_FACTOR, MEMORY_MB, IMPORT_SECONDS, CLUSTER_SECONDS = 2.0, 3.0, 300, 0.2, 0.5


def write_report(results: Results, *, command: str, cores: int) -> str:
    """Return RESULTS.md; parts that were not run are left out."""
    parts = [
        HEAD,
        f"Written by the command, not by hand: `{command}`, {datetime.date.today().isoformat()}."
        f" A real Kafka 3.9.1 broker with its defaults, topics of 4 partitions with {results.records:,} records of 106"
        f" bytes (key 10, value 96) each, written by the Java producer with its default batch size. Broker and readers"
        f" share {cores} cores. Medians of {results.rounds} rounds, in which the readers take turns.",
        GOALS,
        table(GOALS_HEAD, _goals(results)),
    ]
    if results.spark:
        parts += ["## Spark batch read, against Spark's own connector", _spark_text(), _spark_table(results)]
    if results.clients:
        parts += ["## Clients", _clients_text(), _clients_table(results)]
    if results.memory:
        rows = [[topic, f"{peak:.0f} MB"] for topic, peak in results.memory.items()]
        parts += [
            "## Memory of a reading task",
            "Highest resident memory of any Python worker of Spark while all seven columns are read, topic after"
            f" topic in one session (`small` has {results.records // 10:,} records).",
            table(["topic", "peak"], rows),
        ]
    if results.startup:
        rows = [[what, f"{seconds * 1000:.0f} ms"] for what, seconds in results.startup.items()]
        parts += ["## Start", table(["what", "median"], rows)]
    if results.negotiation is not None:
        parts += ["## Negotiation", _negotiation_text(results)]
    if results.leader_moves is not None:
        parts += ["## Leader moves", leader_moves_text(results.leader_moves)]
    parts += [MACHINE, _machine(cores)]
    return "\n\n".join(parts) + "\n"


def merge_reports(old: str, new: str) -> str:
    """Return the old report with the sections and goals of a new, partial one in it.

    Sections that the new one brings say which command measured them, and on what machine; the head and
    the machine of the old one stay, for they belong to the rest.
    """
    before, after = _sections(old), _sections(new)
    command = after[HEAD].partition(" A real Kafka")[0]  # without what the head says of topics
    goals = {row.split(" | ")[0]: row for row in _rows(before.get(GOALS, "")) + _rows(after[GOALS])}
    before[GOALS] = "\n".join([table(GOALS_HEAD, []), *goals.values()])
    machine = before.pop(MACHINE, "")
    for title, text in after.items():
        if title not in (HEAD, GOALS, MACHINE):
            before[title] = f"{text}\n\nMeasured by itself. {command} On: {after[MACHINE]}"
    before[MACHINE] = machine
    return "\n\n".join(f"{title}\n\n{text}" for title, text in before.items()) + "\n"


def _sections(report: str) -> dict[str, str]:
    """Return the texts of a report by their heading."""
    pieces = re.split(r"^(#{1,2} .*)$", report, flags=re.MULTILINE)[1:]
    return {title: text.strip() for title, text in zip(pieces[::2], pieces[1::2], strict=True)}


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][2:]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _goals(results: Results) -> list[list[str]]:
    rows = []
    for topic in _topics(results):
        ours, theirs = (results.spark.get((topic, "noop", source)) for source in ("parley", "spark"))
        if ours and theirs:
            ratio = statistics.median(theirs) / statistics.median(ours)
            rows.append(_goal(f"Spark read, {topic}", f"≥ {SPARK_FACTOR} ×", f"{ratio:.2f} ×", ratio >= SPARK_FACTOR))
    for topic in _topics(results):
        if (topic, "parley_arrow") in results.clients:
            ratio = _rate(results, topic, "parley_arrow") / _rate(results, topic, "confluent_tuned")
            what = f"Arrow client against consume(), {topic}"
            rows.append(_goal(what, f"≥ {CLIENT_FACTOR} ×", f"{ratio:.2f} ×", ratio >= CLIENT_FACTOR))
    if results.memory:
        peak = max(results.memory.values())
        rows.append(_goal("memory of a reading task", f"≤ {MEMORY_MB} MB", f"{peak:.0f} MB", peak <= MEMORY_MB))
    for what, name, limit in (
        ("import", "`import parley`", IMPORT_SECONDS),
        ("cluster", "three embedded brokers ready", CLUSTER_SECONDS),
    ):
        if what in results.startup:
            seconds = results.startup[what]
            rows.append(_goal(name, f"< {limit} s", f"{seconds:.3f} s", seconds < limit))
    rows += _negotiation_goals(results)
    return rows if results.leader_moves is None else rows + leader_moves_goals(results.leader_moves)


def _negotiation_goals(results: Results) -> list[list[str]]:
    found = results.negotiation
    if found is None:
        return []
    rows = []
    for what, milliseconds in (("embedded", found.old_embedded_ms), ("real 0.9.0.1", found.old_real_ms)):
        reached = milliseconds <= OLD_BROKER_MS
        rows.append(_goal(f"old broker recognised, {what}", f"≤ {OLD_BROKER_MS} ms", f"{milliseconds:.1f} ms", reached))
    newest, worst = min(found.round_trips.values()), max(found.round_trips.values())
    rows.append(_goal("round trips that negotiation adds", "≤ 1", str(newest), newest <= 1))
    more = worst - newest
    rows.append(_goal("more of them where the broker refuses the newest version", "≤ 1", str(more), more <= 1))
    survey = f"{found.survey_s:.2f} s"
    rows.append(
        _goal("1,000 embedded brokers asked", f"≤ {SURVEY_SECONDS} s", survey, found.survey_s <= SURVEY_SECONDS)
    )
    view = f"{found.view_ms:.1f} ms"
    rows.append(_goal("view of these 1,000 brokers", f"≤ {VIEW_MS} ms", view, found.view_ms <= VIEW_MS))
    return rows


def _negotiation_text(results: Results) -> str:
    assert results.negotiation is not None
    trips: dict[int, list[str]] = {}
    for release, count in results.negotiation.round_trips.items():
        trips.setdefault(count, []).append(release)
    listed = "; ".join(f"{count} with {', '.join(names)}" for count, names in sorted(trips.items()))
    return (
        "A first connection each time, nothing remembered of the address: name, TCP, ApiVersions and the probe for"
        " old brokers behind it, in one write. Round trips are turns of direction, counted by a proxy in front of"
        f" embedded brokers: {listed}. Releases from 0.10 to 3.8 answer error 35 to the newest ApiVersions and are"
        " asked again on the same connection, as the protocol wants it. The 1,000 brokers are one process of mixed"
        " releases on the same cores, asked over TCP, at most 256 at a time, from one Metadata answer on."
    )


def _goal(what: str, wanted: str, measured: str, reached: bool) -> list[str]:
    return [what, wanted, measured, "reached" if reached else "**missed**"]


def _topics(results: Results) -> list[str]:
    return list(dict.fromkeys(key[0] for key in [*results.spark, *results.clients]))


def _rate(results: Results, topic: str, client: str) -> float:
    return statistics.median(fact["rows"] / fact["seconds"] for fact in results.clients[topic, client])


def _spark_text() -> str:
    return (
        "One PySpark 4.2.0 session, `local[2]`, both sources in it, alternating. *noop*: all seven columns into"
        " Spark's noop sink; *aggregation*: count, minimum, maximum and summed length by partition. A hash over every"
        " row of both sources is compared at the end. Spark's connector runs in the JVM and parley in Spark's Python"
        " workers."
    )


def _spark_table(results: Results) -> str:
    rows = []
    for topic in _topics(results):
        for job in ("noop", "aggregation"):
            seconds = [results.spark.get((topic, job, source)) for source in ("parley", "spark")]
            if seconds[0] and seconds[1]:
                ours, theirs = (results.records / statistics.median(s) / 1e6 for s in seconds if s)
                spread = ", ".join(f"{min(s):.2f}-{max(s):.2f}" for s in seconds if s)
                rows.append([topic, job, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f} ×", spread])
    head = ["topic", "job", "parley, M rows/s", "Spark's own, M rows/s", "ratio", "seconds (parley, Spark's own)"]
    return table(head, rows)


def _clients_text() -> str:
    return (
        "Each in a process of its own; all partitions from the first record to the last; connecting is counted,"
        " imports are not. parley checks every CRC and builds all columns; confluent-kafka checks none (its default)"
        " and its messages are not looked at. Ratios are against the faster of its two settings. The"
        " pure-Python clients read an eighth of the topic, confluent-kafka with its defaults a quarter."
    )


def _clients_table(results: Results) -> str:
    rows = []
    for (topic, client), facts in results.clients.items():
        rate = _rate(results, topic, client)
        ratio = rate / _rate(results, topic, "confluent_tuned")
        peak = max(fact["peak_rss_mb"] for fact in facts)
        rows.append([topic, NAMES[client], f"{rate / 1e6:.3f}", f"{ratio:.2f} ×", f"{peak:.0f} MB"])
    return table(["topic", "client", "M records/s", "against tuned consume()", "peak memory"], rows)


def _machine(cores: int) -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("kafka-parley", "pyarrow", "confluent-kafka", "aiokafka", "kafka-python")
    )
    load = os.getloadavg()[0]
    return (
        f"{model}, {cores} of {os.cpu_count()} cores used, {memory_gib:.0f} GiB, {platform.system()}"
        f" {platform.release().split('-')[0]}, Python {platform.python_version()}, load at the end {load:.1f}."
        f" {packages}."
    )
