"""A Kafka cluster for development and tests, in this process, each broker speaking as its own
release.

>>> with LocalCluster(brokers=3, release="3.9", releases={1: "2.4"}) as cluster:
...     cluster.bootstrap_servers.count("127.0.0.1")
3

This file is installed with `kafka-parley`, the rest of the package with its extra `cluster`.

Map: `cluster` holds `broker`s, `blocking` is its blocking form, `scenes` are what can be done to
it; `control` drives it from outside. `handlers` answer requests, by the `policy` of a `release`;
`apis` lists them. `faults`, `security`, `patterns`; `timers` end what lasts too long,
`directory_lock` keeps a data directory to one cluster, `refusals` turns refusals into errors.
`state` has no clock and no socket.
"""

from importlib.util import find_spec

from parley.errors import NotInstalledError

if find_spec("parley.devcluster.blocking") is None:
    raise NotInstalledError(__name__, "cluster")

from parley.devcluster.blocking import BrokerHandle, LocalCluster
from parley.devcluster.broker import Broker
from parley.devcluster.cluster import AsyncLocalCluster
from parley.devcluster.faults.requests import JournalEntry
from parley.devcluster.scenes import BrokerStatus
from parley.devcluster.security.certificates import Certificate
from parley.devcluster.security.security import Security
from parley.devcluster.state.agreement import Agreement
from parley.devcluster.state.cluster_state import ClusterSettings
from parley.devcluster.state.replication.ledger import LostRecords
from parley.devcluster.state.topics import TopicSettings

__all__ = [
    "Agreement",
    "AsyncLocalCluster",
    "Broker",
    "BrokerHandle",
    "BrokerStatus",
    "Certificate",
    "ClusterSettings",
    "JournalEntry",
    "LocalCluster",
    "LostRecords",
    "Security",
    "TopicSettings",
]
