"""Run the benchmarks and write benchmarks/RESULTS.md: `make bench`, or `python -m benchmarks.run`.

One real Kafka 3.9.1 broker, topics of 4 partitions filled by a Java producer (plain, lz4, zstd),
and on two cores, side by side in one run, alternating:

- startup:  `import parley`; an embedded cluster of three brokers
- negotiation: an old broker recognised, round trips, 1,000 brokers asked
- leader-moves: the time to the next record after a leader move, against confluent-kafka; writes a
  picture
- rebalance: a member joins a group, and what idle members cost, against confluent-kafka and
  aiokafka
- record-producer: records sent one by one, against confluent-kafka and aiokafka: rate, latency,
  memory
- record-consumer: consumers record by record against aiokafka and confluent-kafka, one topic and
  5,000
- replication: a topic copied to another cluster exactly once, against MirrorMaker 2, and verified
- clients:  the Arrow client against confluent-kafka, aiokafka and kafka-python
- memory:   the peak memory of a Python worker that reads, for a small and a large topic
- spark:    Spark batch read to noop and an aggregation, parley against Spark's own connector
- ceiling:  the share of what Spark can take from any Python source: the same batches from memory
- values:   the same with `.schema("value binary")` on four times as many records, and the fixed
            start of a job
- typed:    Avro and JSON as columns, and Avro streamed into a table, against `from_avro`,
            `from_json` and Spark's Parquet sink
- commits:  a micro-batch committed into a Delta table, by Spark's driver
- latency:  a micro-batch of one row, parley against Spark's own connector
- planning: 10,000 and 100,000 partitions planned, an idle stream's polls, and the memory of the
  process that does it
- write:    Spark batch write, parley at least once and exactly once against Spark's own sink
- processors: the processor time of Spark's JVM, its Python workers and the broker, in reads and
  writes
- soak:     the memory of one long stream (--soak-gb)
- hot:      one partition that holds everything, split over the tasks by `minPartitions`

`--only PART ...` measures these and leaves the rest of RESULTS.md as it was; so does `--topics
TOPIC ...`.

Needs mvn, Java 17, and for the Spark parts an environment with pyspark 4.2.0 (--spark-python).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import (
    clients,
    lake_commits,
    leader_moves,
    leader_moves_report,
    negotiation,
    negotiation_report,
    rebalance,
    record_consumer,
    record_producer,
    replication,
    spark_ceiling,
    spark_hot,
    spark_latency,
    spark_memory,
    spark_planning,
    spark_processors,
    spark_read,
    spark_soak,
    spark_typed,
    spark_values,
    spark_write,
    startup,
)
from benchmarks.bench import CODECS, MEMORY, ROOT, Bench, Part
from benchmarks.merge import merge_reports
from benchmarks.report import write_report
from parley.records import kernel_info
from parley.testing.realbroker import available

PARTS: dict[str, Part[Any]] = {
    "startup": Part(startup.measure, startup.report),
    "negotiation": Part(negotiation.measure, negotiation_report.report),
    "leader-moves": Part(leader_moves.measure, leader_moves_report.report),
    "rebalance": Part(rebalance.measure, rebalance.report),
    "record-producer": Part(record_producer.measure, record_producer.report),
    "record-consumer": Part(record_consumer.measure, record_consumer.report),
    "replication": Part(replication.measure, replication.report, reads_topics=True),
    "clients": Part(clients.measure, clients.report, reads_topics=True),
    "memory": Part(spark_memory.measure, spark_memory.report, reads_topics=True),
    "spark": Part(spark_read.measure, spark_read.report, reads_topics=True),
    "ceiling": Part(spark_ceiling.measure, spark_ceiling.report, reads_topics=True),
    "values": Part(spark_values.measure, spark_values.report, reads_topics=True),
    "typed": Part(spark_typed.measure, spark_typed.report, reads_topics=True),
    "commits": Part(lake_commits.measure, lake_commits.report),
    "hot": Part(spark_hot.measure, spark_hot.report, reads_topics=True),
    "latency": Part(spark_latency.measure, spark_latency.report),
    "planning": Part(spark_planning.measure, spark_planning.report),
    "write": Part(spark_write.measure, spark_write.report, reads_topics=True),
    "processors": Part(spark_processors.measure, spark_processors.report, reads_topics=True),
    "soak": Part(spark_soak.measure, spark_soak.report),
}
"""In the order in which they are measured and reported."""


def main() -> int:
    arguments = parse()
    refuse_what_would_mislead()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)  # inherited by the broker, by Spark and by every client
    with Bench(
        records=arguments.records,
        rounds=arguments.rounds,
        topics=tuple(arguments.topics),
        spark_python=arguments.spark_python,
        bootstrap=arguments.bootstrap,
        soak_gb=arguments.soak_gb,
        logs_in_memory=arguments.logs_in_memory,
    ) as bench:
        sections = [part.run(bench) for name, part in PARTS.items() if name in arguments.parts]
    text = write_report(
        sections,
        command=command_line(arguments),
        cores=len(cores),
        rounds=arguments.rounds,
    )
    if arguments.output:
        output = Path(arguments.output)
        partial = set(arguments.parts) != set(PARTS) or set(arguments.topics) != set(CODECS)
        if partial and output.exists():
            text = merge_reports(output.read_text(), text)
        output.write_text(text)
    print(text)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--records", type=int, default=4_000_000, help="per topic (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of which the median counts (default: %(default)s)"
    )
    parser.add_argument("--topics", nargs="+", choices=CODECS, default=list(CODECS))
    parser.add_argument(
        "--only", "--parts", dest="parts", nargs="+", choices=PARTS, default=list(PARTS),
        metavar="PART", help=f"of {', '.join(PARTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--soak-gb", type=float, default=20.0, help="of the long stream (default: %(default)s)"
    )
    parser.add_argument("--spark-python", default=str(ROOT / ".venv-spark42" / "bin" / "python"))
    broker = parser.add_mutually_exclusive_group()
    broker.add_argument(
        "--bootstrap",
        help="of a broker that runs already, for many short runs: it keeps the topics (default: "
        "one for this run)",
    )
    broker.add_argument(
        "--logs-in-memory",
        action="store_true",
        help=f"the broker's logs lie in {MEMORY} (Linux), so that no disk is measured; soak needs "
        "--soak-gb of it",
    )
    parser.add_argument(
        "--output", default=str(ROOT / "benchmarks" / "RESULTS.md"), help='"" writes no file'
    )
    return parser.parse_args()


def command_line(arguments: argparse.Namespace) -> str:
    """Return the command to be named in the results; where files lie on
    this machine is left out.
    """
    command = (
        f"python -m benchmarks.run --rounds {arguments.rounds} --only {' '.join(arguments.parts)}"
    )
    if any(PARTS[name].reads_topics for name in arguments.parts):
        command += f" --records {arguments.records} --topics {' '.join(arguments.topics)}"
    return f"{command} --logs-in-memory" if arguments.logs_in_memory else command


def refuse_what_would_mislead() -> None:
    """Exit where no broker can be had or where the slow kernel would be measured."""
    reason = available()
    if reason is not None:
        raise SystemExit(f"benchmarks: {reason}")
    if not kernel_info().native:
        raise SystemExit(
            "benchmarks: the native kernel is not there; install cargo and run `make setup` first"
        )


if __name__ == "__main__":
    sys.exit(main())
