"""Speed and memory of a comparison of topics: the kernel alone, and two clusters.

    python -m benchmarks.verify [--records 2000000] [--payload 100] [--partitions 4] [--pure]

The kernel's rates are records per second of CPU time on one core, the best of several: hashes and
digests alone, and with the decoding before them, which is what each side of a comparison costs.
Then a topic on each of two embedded clusters, each in a process of its own, is compared by a third
process, which says how long it took and how much memory it had at most above what it began with.
The clusters are written in Python and are what limits this rate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.jobs.processes import PEAK, RESIDENT, own_megabytes

VALUE_RECORDS = 50_000
"""Records of one produce call."""
REPEAT = 5
_SERVER = """
import sys
from parley.devcluster import LocalCluster
with LocalCluster(brokers=1, release=sys.argv[1]) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


def main() -> None:
    arguments = _arguments()
    if arguments.pure:
        os.environ["PARLEY_PURE"] = "1"
    found = {"records": arguments.records, **kernel_rates(arguments)}
    servers = [_server(release) for release in ("4.3", "2.8")]
    try:
        addresses = [server.stdout.readline().strip() for server in servers if server.stdout]
        _fill(addresses, arguments)
        found |= json.loads(_compare_in_a_process(addresses))
    finally:
        for server in servers:
            server.communicate("")
    if arguments.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(
                f"{name:32}{value:>14,.1f}" if isinstance(value, float) else f"{name:32}{value:>14}"
            )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--pure", action="store_true", help="measure the pure-Python reference")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def kernel_rates(arguments: argparse.Namespace) -> dict[str, float | str]:
    """Return the rates of one core, in records per second."""
    from parley import records
    from parley.arrow import to_digest_batch

    rows = min(arguments.records, 500_000)
    columns = records.columns_from_records(
        [
            records.Record(at, 1_700_000_000_000 + at, 0, None, value)
            for at, value in _values(rows, arguments.payload)
        ]
    )
    batches = records.encode_batches(columns, None, records.WriteOptions(max_batch_bytes=16_384))
    data = b"".join(bytes(batch.data) for batch in batches)
    hashes = records.record_hashes(columns)

    def decoded(digest: bool) -> None:
        options = records.ReadOptions()
        for chunk in records.decode_columns(data, first_offset=0, options=options):
            if digest:
                to_digest_batch(chunk.columns)

    return {
        "kernel": records.kernel_info().name,
        "hash_per_second": _best(rows, lambda: records.record_hashes(columns)),
        "digest_per_second": _best(rows, lambda: list(records.digest_runs(hashes, 1024, 1024))),
        "decode_per_second": _best(rows, lambda: decoded(False)),
        "decode_and_hash_per_second": _best(rows, lambda: decoded(True)),
    }


def _values(rows: int, payload: int) -> list[tuple[int, bytes]]:
    return [
        (at, (b'{"id": %d, "n": %d}' % (at, at * 2654435761 % 10**12)).ljust(payload, b"x"))
        for at in range(rows)
    ]


def _best(rows: int, work: Callable[[], object]) -> float:
    best = 0.0
    for _ in range(REPEAT):
        start = time.process_time()
        work()
        best = max(best, rows / (time.process_time() - start))
    return best


def _server(release: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER, release],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _fill(addresses: list[str], arguments: argparse.Namespace) -> None:
    import pyarrow as pa

    from parley.client import Client, NewTopic

    for address in addresses:
        with Client(bootstrap_servers=address) as client:
            client.create_topics([NewTopic("copied", arguments.partitions)])
            each = arguments.records // arguments.partitions
            for index in range(arguments.partitions):
                for start in range(0, each, VALUE_RECORDS):
                    values = _values(min(VALUE_RECORDS, each - start), arguments.payload)
                    columns = {
                        "value": pa.array([value for _, value in values], pa.binary()),
                        "timestamp": pa.array([start + at for at, _ in values], pa.int64()),
                    }
                    client.produce("copied", pa.table(columns), index)


def _compare_in_a_process(addresses: list[str]) -> str:
    command = [sys.executable, "-c", "from benchmarks.verify import compare; compare()", *addresses]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compare() -> None:
    """Compare the topic of two clusters, whose addresses are the arguments; print one JSON line."""
    from parley.client import Client
    from parley.pipelines.verify import verify_topics

    with (
        Client(bootstrap_servers=sys.argv[1]) as left,
        Client(bootstrap_servers=sys.argv[2]) as right,
    ):
        left.metadata(), right.metadata()
        before = own_megabytes(RESIDENT)
        start, used = time.perf_counter(), time.process_time()
        found = verify_topics(left, right, ["copied"])
        seconds, cpu = time.perf_counter() - start, time.process_time() - used
        assert found.equal, found
        count = sum(one.left_records for one in found.partitions)
        memory = own_megabytes(PEAK) - before
        used = time.process_time()
        for client in (left, right):
            ranges = {one.left: one.left_range for one in found.partitions if one.left is not None}
            for _ in client.fetch_many(ranges):
                pass
        reading_cpu = time.process_time() - used
    facts = {
        "compared": count,
        "compared_per_second": count / seconds,
        "compared_per_cpu_second": count / cpu,
        "read_into_arrow_per_cpu_second": count / reading_cpu,
        "memory_mb": memory,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
