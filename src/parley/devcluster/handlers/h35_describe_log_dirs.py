"""DescribeLogDirs (35), v0-5.

Behaviours:
- Each broker describes its one directory: its partitions with their sizes. Null topics ask for all.
- 2.8 to 3.6 name the other topics too, without partitions.
- A cluster in memory calls its place `memory`.

Version notes:
- v3+ an error for the whole answer, v4+ the size of the volume and what is free (-1 in memory;
  KIP-827), v5+ whether the directory is cordoned (never).

Not implemented: several directories, moving replicas between them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.state.log.replica import Replica
from parley.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from parley.schema import ApiKey, VersionRange

FIRST_HEAD_CODE_VERSION = 3
FIRST_VOLUME_VERSION = 4
IN_MEMORY = "memory"


def handle(call: Call, request: DescribeLogDirsRequest) -> Answer:
    """Describe this broker's directory."""
    response = DescribeLogDirsResponse()
    place = call.cluster.directory_of(call.broker.id)
    found = response.DescribeLogDirsResult(log_dir=IN_MEMORY if place is None else str(place))
    for name, replicas in _asked(call, request).items():
        topic = response.DescribeLogDirsTopic(name=name)
        topic.partitions = [
            response.DescribeLogDirsPartition(
                partition_index=replica.key.partition, partition_size=replica.log.size, offset_lag=0
            )
            for replica in replicas
        ]
        found.topics.append(topic)
    if call.version >= FIRST_VOLUME_VERSION and place is not None:
        # The broker's own directory comes with its first topic.
        usage = shutil.disk_usage(place if place.exists() else place.parent)
        found.total_bytes, found.usable_bytes = usage.total, usage.free
    response.results.append(found)
    return response


def _asked(call: Call, request: DescribeLogDirsRequest) -> dict[str, list[Replica]]:
    held = sorted(
        call.broker.replicas.values(), key=lambda replica: (replica.topic, replica.key.partition)
    )
    by_topic: dict[str, list[Replica]] = {}
    wanted: dict[str, Iterable[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: topic.partitions for topic in request.topics}
    for replica in held:
        if call.profile.behaviour.names_unasked_topics:
            by_topic.setdefault(replica.topic, [])
        if wanted is None or replica.key.partition in wanted.get(replica.topic, ()):
            by_topic.setdefault(replica.topic, []).append(replica)
    return by_topic


def refuse(request: DescribeLogDirsRequest, version: int, code: int) -> DescribeLogDirsResponse:
    """Answer `code` for everything, before v3 for the directory."""
    if version >= FIRST_HEAD_CODE_VERSION:
        return DescribeLogDirsResponse(error_code=code)
    response = DescribeLogDirsResponse()
    response.results = [response.DescribeLogDirsResult(error_code=code, log_dir=IN_MEMORY)]
    return response


API = Handler(ApiKey.DESCRIBE_LOG_DIRS, VersionRange(0, 5), handle, refuse)
