"""Print, as one JSON line, how long something takes in a fresh
interpreter: `import` or `cluster`.
"""

from __future__ import annotations

import json
import sys
import time


def time_import() -> float:
    start = time.perf_counter()
    import parley  # noqa: F401

    return time.perf_counter() - start


def time_cluster() -> float:
    """Time `LocalCluster.start()` of three brokers, imports done."""
    from parley.devcluster import LocalCluster

    cluster = LocalCluster(brokers=3)
    start = time.perf_counter()
    cluster.start()
    seconds = time.perf_counter() - start
    cluster.close()
    return seconds


if __name__ == "__main__":
    measured = {"import": time_import, "cluster": time_cluster}[sys.argv[1]]()
    print(json.dumps({"seconds": measured}))
