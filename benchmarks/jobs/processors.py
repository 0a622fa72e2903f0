"""The processor time of reads and writes, by process: Spark's JVM, its
Python workers, the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.bench import CODECS
from benchmarks.jobs import FORMATS, arguments_of, load, noop, say, session
from benchmarks.jobs.processes import processor_seconds
from benchmarks.jobs.write import CONTESTANTS, cached, new_topic, save
from parley.client import Client


def main() -> None:
    arguments = arguments_of(
        lambda parser: parser.add_argument("--broker-pid", type=int, required=True)
    )
    spark, bootstrap = session(arguments.jars), arguments.bootstrap
    frame = cached(spark, bootstrap)
    with Client(bootstrap_servers=bootstrap) as client:
        for topic in arguments.topics:
            frames = {source: load(spark, source, bootstrap, topic) for source in FORMATS}
            for turn in range(arguments.rounds + 1):
                for source, what in frames.items():
                    taken = taken_by(partial(noop, what), arguments.broker_pid)
                    if turn > 0:
                        say(kind="taken", topic=topic, job="read", source=source, **taken)
                for source in CONTESTANTS:
                    with new_topic(client) as place:
                        work = partial(save, frame, bootstrap, place, source, CODECS[topic])
                        taken = taken_by(work, arguments.broker_pid)
                    if turn > 0:
                        say(kind="taken", topic=topic, job="write", source=source, **taken)
    spark.stop()


def taken_by(work: Callable[[], object], broker: int) -> dict[str, float]:
    """Return the processor seconds that went by while something was done, by kind of process."""
    before = processor_seconds(broker)
    work()
    return {kind: seconds - before[kind] for kind, seconds in processor_seconds(broker).items()}


if __name__ == "__main__":
    main()
