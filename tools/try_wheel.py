"""Try an installed parley: which kernel runs, and
that records of every codec come back as they went.

    python tools/try_wheel.py [--kernel native|pure]

Run by the Python of the environment in which the wheel is installed, from anywhere: nothing of the
repository is used. The client is tried on an embedded cluster, so kafka-parley-cluster has to be
installed there too.
"""

from __future__ import annotations

import argparse
import sys
import warnings

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernel", choices=("native", "pure"), default="native")
    expected = parser.parse_args().kernel
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel, rows = round_trips()
    if (kernel == "rust") != (expected == "native"):
        print(f"try_wheel: the kernel is {kernel}, expected was {expected}", file=sys.stderr)
        return 1
    warned = [str(one.message) for one in caught if "pure-Python record kernel" in str(one.message)]
    if (expected == "pure") != (len(warned) == 1):
        print(
            f"try_wheel: with the {expected} kernel there are {len(warned)} warnings of its speed",
            file=sys.stderr,
        )
        return 1
    if rows != len(CODECS) * 1000:
        print(f"try_wheel: {rows} rows came back of {len(CODECS) * 1000}", file=sys.stderr)
        return 1
    print(f"kernel {kernel}, {rows} rows came back")
    return 0


def round_trips() -> tuple[str, int]:
    """Write and read a topic for each codec; return the kernel's name and how
    many right rows came back.
    """
    import pyarrow

    import parley
    from parley.devcluster import LocalCluster
    from parley.records import kernel_info

    values = [f"value {number}" for number in range(1000)]
    right = 0
    with LocalCluster(brokers=1) as cluster:
        for codec in CODECS:
            options = parley.ProduceOptions(compression_type=codec)
            with parley.Client(bootstrap_servers=cluster.bootstrap_servers) as client:
                client.create_topics([parley.NewTopic(codec)])
                client.produce(codec, pyarrow.table({"value": values}), options=options)
                read = client.fetch(parley.TopicPartition(codec, 0), parley.EARLIEST, parley.LATEST)
                back = [
                    text
                    for batch in read
                    for text in batch.column("value").cast("string").to_pylist()
                ]
                right += len(back) if back == values else 0
    return kernel_info().name, right


if __name__ == "__main__":
    sys.exit(main())
