"""A benchmark of some parts, or of some topics, leaves the figures of the others in RESULTS.md."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import (
    negotiation_report,
    rebalance,
    rebalance_plot,
    rebalance_reading,
    spark_ceiling,
    spark_hot,
    spark_memory,
    spark_processors,
    spark_read,
    spark_values,
    startup,
)
from benchmarks.merge import merge_reports
from benchmarks.negotiation import Measured
from benchmarks.report import Section, write_report
from benchmarks.run import PARTS

FOUND = Measured(3.2, 14.9, {"0.9.0.1": 1, "2.4.1": 2, "4.3.0": 1}, 1.31, 12.0)
START = startup.report({"import": 0.003, "cluster": 0.007})


def report(*sections: Section, command: str = "python -m benchmarks.run") -> str:
    return write_report(sections, command=command, cores=2, rounds=3)


def rows_of(text: str, topic: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| {topic} |")]


def spark_seconds(parley: float, spark: float, *topics: str) -> spark_read.Measured:
    seconds = {
        (topic, job, source): [at]
        for topic in topics
        for job in spark_read.JOBS
        for source, at in (("parley", parley), ("spark", spark))
    }
    return spark_read.Measured(seconds, 4_000_000)


def test_a_part_measured_later_joins_the_others() -> None:
    merged = merge_reports(report(START), report(negotiation_report.report(FOUND)))
    goals = merged.partition("## Must be reached")[2].partition("## ")[0]
    assert "| three embedded brokers ready | < 0.5 s | 0.007 s | reached |" in goals
    assert "| old broker recognised, real 0.9.0.1 | ≤ 50 ms | 14.9 ms | reached |" in goals
    assert "| round trips that negotiation adds | ≤ 1 | 1 | reached |" in goals
    assert (
        "| more of them where the broker refuses the newest version | ≤ 1 | 1 | reached |" in goals
    )
    assert [line for line in merged.splitlines() if line.startswith("#")] == [
        "# Benchmark results", "## Must be reached", "## Start", "## Negotiation",
    ]  # fmt: skip


def test_a_part_measured_again_replaces_what_it_said() -> None:
    old = merge_reports(report(START), report(negotiation_report.report(FOUND)))
    merged = merge_reports(old, report(negotiation_report.report(FOUND._replace(old_real_ms=99.0))))
    assert "99.0 ms | **missed** |" in merged
    assert "14.9 ms" not in merged
    assert merged.count("## Negotiation") == 1
    assert merged.count("Measured by ") == 2
    assert "| `import parley` | < 0.2 s | 0.003 s | reached |" in merged


def test_a_topic_measured_again_leaves_the_rows_of_the_others() -> None:
    old = report(spark_read.report(spark_seconds(2.0, 5.0, "plain", "lz4", "zstd")))
    again = report(
        spark_read.report(spark_seconds(1.0, 4.0, "lz4")),
        command="python -m benchmarks.run --topics lz4",
    )
    merged = merge_reports(old, again)
    section = merged.partition("## Spark batch read")[2].partition("## ")[0]
    assert [row.split(" | ")[:5] for row in rows_of(section, "lz4")] == [
        ["| lz4", "noop", "4.00", "1.00", "4.00 ×"],
        ["| lz4", "aggregation", "4.00", "1.00", "4.00 ×"],
    ]
    assert [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| ")][2:] == [
        "| plain", "| plain", "| lz4", "| lz4", "| zstd", "| zstd",
    ]  # fmt: skip
    assert "2.50 ×" in rows_of(section, "plain")[0]
    assert "| Spark read, lz4 | ≥ 2.3 × | 4.00 × | reached |" in merged
    assert section.count("Measured by ") == 2
    twice = merge_reports(
        merged, report(spark_read.report(spark_seconds(1.0, 4.0, "zstd")), command="zstd alone")
    )
    assert twice.count("--topics lz4") == twice.count("zstd alone") == 1
    whole = merge_reports(
        twice, report(spark_read.report(spark_seconds(1.0, 4.0, "plain", "lz4", "zstd")))
    )
    assert "--topics lz4" not in whole


@pytest.mark.parametrize(
    ("topic", "spark_s", "says"),
    [("plain", 4.9, "missed"), ("plain", 5.0, "reached"), ("zstd", 4.6, "reached")],
)
def test_what_spark_read_must_reach_depends_on_the_codec(
    topic: str, spark_s: float, says: str
) -> None:
    (row,) = spark_read.report(spark_seconds(2.0, spark_s, topic)).goals
    assert says in row[3]


@pytest.mark.parametrize(
    ("topic", "ceiling_s", "says"),
    [("plain", 0.74, "missed"), ("plain", 0.75, "reached"), ("lz4", 0.65, "reached")],
)
def test_the_share_of_the_ceiling_is_judged_by_the_codec(
    topic: str, ceiling_s: float, says: str
) -> None:
    seconds = {(topic, "parley"): [0.9, 1.0, 9.0], (topic, "ceiling"): [ceiling_s]}
    section = spark_ceiling.report(spark_ceiling.Measured(seconds, 4_000_000))
    (row,) = section.goals
    assert says in row[3]
    assert f"| {topic} | 4.00 |" in section.text


@pytest.mark.parametrize(
    ("topic", "spark_s", "says"), [("plain", 9.3, "missed"), ("zstd", 9.3, "reached")]
)
def test_spark_s_fixed_start_is_taken_off_both_sides_and_both_ratios_are_said(
    topic: str, spark_s: float, says: str
) -> None:
    seconds = {(f"values-{topic}", "parley"): [2.2], (f"values-{topic}", "spark"): [spark_s]}
    fixed = {"parley": [0.2], "spark": [0.4]}
    faster = {place: [at - 0.2 for at in rounds] for place, rounds in seconds.items()}
    usual, sockets = spark_values.Session(seconds, fixed), spark_values.Session(faster, fixed)
    section = spark_values.report(
        spark_values.Measured({"": usual, spark_values.UNIX_SOCKETS: sockets}, 16_000_000)
    )
    (row,) = section.goals  # of the session as Spark sets itself up
    assert row[2] == "4.45 × (4.23 × with it)"
    assert says in row[3]
    assert f"| {topic} | 7.27 | 1.72 | 4.23 × | 4.45 × | 0.20, 0.40 |" in section.text
    assert f"| {topic}, Unix sockets | 8.00 | 1.76 | 4.55 × | 4.83 × | 0.20, 0.40 |" in section.text


@pytest.mark.parametrize(("spark_s", "says"), [(2.4, "missed"), (2.5, "reached")])
def test_a_hot_partition_is_compared_by_its_topic(spark_s: float, says: str) -> None:
    seconds = {("hot-lz4", "parley"): [1.0], ("hot-lz4", "spark"): [spark_s]}
    section = spark_hot.report(spark_hot.Measured(seconds, 4_000_000))
    (row,) = section.goals
    assert row[0] == "Spark read of one hot partition, lz4"
    assert says in row[3]
    assert rows_of(section.text, "lz4")


def test_the_largest_worker_counts_for_the_memory_of_a_task() -> None:
    section = spark_memory.report(
        spark_memory.Measured(90.0, {"small": 180.0, "plain": 301.0}, 100)
    )
    assert section.goals == [["memory of a reading task", "≤ 200 MB more", "211 MB", "**missed**"]]


def test_processor_time_is_reported_by_kind_of_process_and_for_each_record() -> None:
    turn = {
        "topic": "lz4",
        "job": "write",
        "source": "spark",
        "jvm": 6.0,
        "python": 0.0,
        "broker": 2.0,
    }
    facts = [turn, {**turn, "jvm": 7.0}, {**turn, "jvm": 50.0}]
    section = spark_processors.report(spark_processors.Measured(facts, 4_000_000))
    assert rows_of(section.text, "lz4") == [
        "| lz4 | write, Spark's own | 7.00 | 0.00 | 2.00 | 2.25 |"
    ]


def test_every_part_is_named_in_the_help() -> None:
    from benchmarks import run

    for part in PARTS:
        assert f"- {part}:" in (run.__doc__ or "")


def test_rebalances_are_reported_beside_the_peers_and_drawn(tmp_path: Path) -> None:
    joined = {
        (protocol, client): rebalance.Joined(0.4 if client == "parley" else 0.5, 2.0, 90, 0)
        for protocol, clients in rebalance.PROTOCOLS.items()
        for client in clients
    }
    idle = dict.fromkeys(rebalance.CLIENTS, rebalance.Idle(0.001, 0.003, 88.0, 74.0))
    rates = dict.fromkeys(rebalance.IN_GROUP, rebalance_reading.Read(1e6, 0.95e6, 0.95))
    joining = {"seconds": 0.8, "requests": 3.0}
    found = rebalance.Measured(joined, idle, rates, joining)
    goals = {row[0]: row[-1] for row in rebalance.report(found).goals}
    assert goals["async-for in a group, of the rate with assigned partitions"] == "reached"
    assert goals["batches in a group, of the rate with assigned partitions"] == "**missed**"
    assert goals["1,000 members join an embedded coordinator"] == "reached"
    assert goals["100 idle members in a process"] == "reached"
    path = tmp_path / "rebalance.svg"
    rebalance_plot.draw({key: one[:2] for key, one in joined.items()}, path)
    drawn = ElementTree.parse(path).getroot()
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("aiokafka") == 2
    assert "400 ms" in texts
    bars = list(drawn.iter("{http://www.w3.org/2000/svg}rect"))[1:]
    assert len(bars) == 2 * len(joined)
