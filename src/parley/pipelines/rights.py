"""What the users of a job need on topics, and what brokers say they have (KIP-430).

Of topics that are still to be created, of groups and of transactional ids nothing is said here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parley.client import AclOperation, AsyncClient
from parley.pipelines.replication.plan import Finding

Operations = tuple[AclOperation, ...]
READING: Operations = (AclOperation.READ, AclOperation.DESCRIBE)
WRITING: Operations = (AclOperation.WRITE, AclOperation.DESCRIBE)
GROWING: Operations = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER)
"""On a topic that gets more partitions."""
RIGHTS = "rights"
"""The code of these findings."""


async def rights_of(
    source: AsyncClient,
    reads: Mapping[str, Operations],
    target: AsyncClient | None = None,
    writes: Mapping[str, Operations] | None = None,
) -> tuple[Finding, ...]:
    """Return what the users of both sides may do, of what they need on topics that are there."""
    found = await rights_on("source", source, reads)
    if target is not None and writes:
        found += await rights_on("target", target, writes)
    return found


async def rights_on(
    side: str, client: AsyncClient, needed: Mapping[str, Operations]
) -> tuple[Finding, ...]:
    """Return the same of one side."""
    return compared(side, needed, await client.authorized_operations(list(needed)))


def compared(
    side: str,
    needed: Mapping[str, Operations],
    allowed: Mapping[str, frozenset[AclOperation] | None],
) -> tuple[Finding, ...]:
    """Return a finding that stops for each topic on which something is not allowed, and one for
    all topics of the same needs on which nothing is missing. Topics that are not there are left
    out.
    """
    lacking: list[Finding] = []
    enough: dict[tuple[Operations, bool], list[str]] = {}
    for topic, wanted in needed.items():
        if topic not in allowed:
            continue
        found = allowed[topic]
        if found is not None and (missing := [one for one in wanted if one not in found]):
            text = f"the {side}'s user may not {_names(missing)} it, and needs {_names(wanted)}"
            lacking.append(Finding(topic, RIGHTS, True, f"{text}: add ACLs"))
        else:
            enough.setdefault((wanted, found is not None), []).append(topic)
    return (*(_enough(side, *key, topics) for key, topics in enough.items()), *lacking)


def _enough(side: str, wanted: Operations, is_known: bool, topics: list[str]) -> Finding:
    topic, those = (topics[0], "it") if len(topics) == 1 else (None, f"{len(topics)} topics")
    what = f"{_names(wanted)} {those}"
    text = f"the {side}'s user may {what}"
    if not is_known:
        text = f"the {side}'s user needs to {what}; its brokers do not say who may (Kafka 2.3)"
    return Finding(topic, RIGHTS, False, text)


def _names(operations: Iterable[AclOperation]) -> str:
    """Return operations as people read them: "Read and DescribeConfigs"."""
    *rest, last = [one.name.title().replace("_", "") for one in operations]
    return f"{', '.join(rest)} and {last}" if rest else last
