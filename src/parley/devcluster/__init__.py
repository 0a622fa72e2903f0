"""A Kafka cluster for development and tests in this process; each broker speaks as its release.

>>> with LocalCluster(brokers=3, release="3.9", releases={1: "2.4"}) as cluster:
...     cluster.bootstrap_servers.count("127.0.0.1")
3

This file is installed with `kafka-parley`, the rest of the package with its extra `cluster`.

Map: `cluster` owns its `brokers`, each a `broker`, its `scenes`, `faults` and groups
(`group_calls`), and a schema `registry`; `blocking` is its blocking form, `control` drives it from
outside. `handlers` answer requests, by the `policy` of a `release`; `apis` lists them. `security`,
`patterns`; `timers` are what happens later, `directory_lock` keeps a data directory to one cluster,
`refusals` turns refusals into errors. `state` has no clock and no socket.
"""

from importlib.util import find_spec

from parley.errors import NotInstalledError

if find_spec("parley.devcluster.blocking") is None:
    raise NotInstalledError(__name__, "cluster")

from parley.devcluster.blocking import (
    BrokerHandle,
    Faults,
    Groups,
    LocalCluster,
    Scenes,
    SchemaRegistry,
)
from parley.devcluster.broker import Broker
from parley.devcluster.cluster import AsyncLocalCluster
from parley.devcluster.faults.calls import AsyncFaults
from parley.devcluster.faults.requests import JournalEntry
from parley.devcluster.group_calls import AsyncGroups
from parley.devcluster.registry.server import (
    AsyncSchemaRegistry,
    RegistryListener,
    RegistryRequest,
)
from parley.devcluster.scenes import AsyncScenes, BrokerStatus
from parley.devcluster.security.certificates import Certificate
from parley.devcluster.security.security import Security
from parley.devcluster.state.agreement import Agreement
from parley.devcluster.state.replication.ledger import LostRecords
from parley.devcluster.state.settings import ClusterSettings
from parley.devcluster.state.topics import TopicSettings

__all__ = [
    "Agreement",
    "AsyncFaults",
    "AsyncGroups",
    "AsyncLocalCluster",
    "AsyncScenes",
    "AsyncSchemaRegistry",
    "Broker",
    "BrokerHandle",
    "BrokerStatus",
    "Certificate",
    "ClusterSettings",
    "Faults",
    "Groups",
    "JournalEntry",
    "LocalCluster",
    "LostRecords",
    "RegistryListener",
    "RegistryRequest",
    "Scenes",
    "SchemaRegistry",
    "Security",
    "TopicSettings",
]
