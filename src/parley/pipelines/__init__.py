"""Complete jobs: the demo, with Spark; replication, replay and comparison of topics, with clients
alone.

This file is installed with `kafka-parley`, the rest of the package with its extra `pipelines`.

demo/        the demo, from a file to a table, which is counted
replication/ copies topics from a cluster to another
replay/      writes a topic's records into another one once more
verify/      compares topics of two clusters
queries/     streaming queries of Spark, from topics to a topic or a table
declared/    what a file says that is to be done, by these
checks       options that jobs share
rights       what users of clusters need on topics, and may
attempts     how long a job tries again after trouble that may pass
blocking     a job for blocking code

Map: `demo`, `replication`, `replay`, `verify` and `queries` are jobs of their own; they share
`attempts`, `blocking`, `checks` and `rights`, and `declared` runs them.
"""

from importlib.util import find_spec

if find_spec("parley.pipelines.checks") is None:
    from parley.errors import NotInstalledError

    raise NotInstalledError(__name__, "pipelines")
