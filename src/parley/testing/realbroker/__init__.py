"""Real Kafka brokers of any release from 0.9 on, from Maven artifacts, for tests and benchmarks.

>>> from parley.testing.realbroker import RealCluster
>>> with RealCluster("3.9", brokers=2, releases={2: "3.7"}) as cluster:
...     cluster.bootstrap_servers.count("127.0.0.1")
2

`available()` says what is missing, None if nothing is.

Map: `cluster` starts them, each a `node`, with a `zookeeper` where they need one; `releases` and
`properties` say how, `artifacts`, `java`, `ports` and `process` with what, `storage` where, `probe`
when one is ready.
"""

from __future__ import annotations

from parley.testing.realbroker.artifacts import ArtifactError, class_path, jar_folder
from parley.testing.realbroker.cluster import RealCluster
from parley.testing.realbroker.java import available
from parley.testing.realbroker.node import RealNode
from parley.testing.realbroker.process import StartError
from parley.testing.realbroker.releases import REAL_RELEASES, full_release

__all__ = [
    "REAL_RELEASES",
    "ArtifactError",
    "RealCluster",
    "RealNode",
    "StartError",
    "available",
    "class_path",
    "full_release",
    "jar_folder",
]
