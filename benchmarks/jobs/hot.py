"""Read all columns of a topic of one partition with both sources, alternately,
split by `minPartitions`.
"""

from __future__ import annotations

from benchmarks.jobs import FORMATS, arguments_of, compare, load, session


def main() -> None:
    arguments = arguments_of(lambda parser: parser.add_argument("--split", required=True))
    spark = session(arguments.jars)
    for topic in arguments.topics:
        frames = {
            source: load(spark, source, arguments.bootstrap, topic, minPartitions=arguments.split)
            for source in FORMATS
        }
        for source, frame in frames.items():
            if (tasks := frame.rdd.getNumPartitions()) != int(arguments.split):
                raise SystemExit(f"{source} makes {tasks} tasks, {arguments.split} were asked for")
        compare(arguments.rounds, frames, topic)
    spark.stop()


if __name__ == "__main__":
    main()
