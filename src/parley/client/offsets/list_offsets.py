"""Where partitions begin and end, and which offset belongs to a time: ListOffsets, by leader."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_leaders
from parley.client.cluster.view import TRUSTED_EPOCHS_VERSION
from parley.client.options import arguments
from parley.client.options.client_options import READ_COMMITTED
from parley.client.results import OffsetAndTimestamp, OffsetSpec, Timestamp
from parley.errors import ConfigError, KafkaError, RemoteProtocolError
from parley.messages import ListOffsetsRequest, ListOffsetsResponse
from parley.net import BrokerConnection, Reply
from parley.schema import ApiKey
from parley.types import TopicPartition, shown
from parley.versions import BrokerVersions, Feature, VersionRange

_MAX_VERSION = 2**15 - 1
BY_TIME_VERSION = Feature.OFFSETS_BY_TIME.first_version(ApiKey.LIST_OFFSETS)
"""First ListOffsets version that looks a time up; v0 answers a list of segments' offsets."""
ISOLATION_VERSION = Feature.READ_COMMITTED.first_version(ApiKey.LIST_OFFSETS)
_SPECIAL = {
    -3: Feature.MAX_TIMESTAMP_OFFSET,
    -4: Feature.EARLIEST_LOCAL_OFFSET,
    -5: Feature.LATEST_TIERED_OFFSET,
}
"""The special timestamps besides earliest and latest, and what a broker needs to know them."""
_FIRST_VERSIONS = {
    **{code: feature.first_version(ApiKey.LIST_OFFSETS) for code, feature in _SPECIAL.items()},
    -6: 11,  # the earliest that is still to be uploaded (KIP-1023): no feature of parley's
}
_FEATURES = {
    feature.first_version(ApiKey.LIST_OFFSETS): feature
    for feature in (Feature.OFFSETS_BY_TIME, Feature.READ_COMMITTED, *_SPECIAL.values())
}
"""What an error says that a broker lacks, by the first version that would do."""

Spec = OffsetSpec | Timestamp
Answers = dict[TopicPartition, OffsetAndTimestamp | KafkaError]


def takes_epochs(versions: BrokerVersions) -> bool:
    """Return whether leader epochs may be sent: not to a broker whose metadata has unreliable ones.

    A broker before 2.4 would refuse an epoch with FENCED_LEADER_EPOCH and could never teach a newer
    one.
    """
    known = versions.ranges.get(ApiKey.METADATA)
    return known is not None and known.max >= TRUSTED_EPOCHS_VERSION


def spec_code(spec: Spec) -> int:
    """Return ListOffsets' number for a place. Raises ConfigError for anything else."""
    if isinstance(spec, OffsetSpec) and isinstance(spec.code, int) and spec.code < 0:
        return spec.code
    if isinstance(spec, Timestamp) and isinstance(spec.ms, int) and not isinstance(spec.ms, bool):
        if 0 <= spec.ms <= arguments.INT64:
            return spec.ms
        raise ConfigError(f"{spec!r} is no time; it is in milliseconds since 1970 and not negative")
    raise ConfigError(f"{shown(spec)} is no place in a partition: give {place_hint(spec)}")


def place_hint(given: object) -> str:
    """Return what to give for a place, above all where somebody gave its name as a text."""
    named = {"earliest": "EARLIEST", "latest": "LATEST", "max-timestamp": "MAX_TIMESTAMP"}
    if isinstance(given, str) and given.strip().lower().replace("_", "-") in named:
        found = named[given.strip().lower().replace("_", "-")]
        return f"parley.client.{found}, which is no text"
    return "EARLIEST, LATEST, MAX_TIMESTAMP or Timestamp(ms)"


def lowest_version(code: int, isolation_level: str) -> int:
    """Return the first ListOffsets version that can answer this."""
    needed = BY_TIME_VERSION if code >= 0 else _FIRST_VERSIONS.get(code, 0)
    return max(needed, ISOLATION_VERSION) if isolation_level == READ_COMMITTED else needed


async def list_offsets(
    cluster: Cluster, specs: Mapping[TopicPartition, Spec], isolation_level: str, deadline: Deadline
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the offset of each place, asking each leader once and again after errors that pass.

    Raises UnsupportedVersionError, before a byte is sent, where a leader cannot answer (times
    before 0.10.1), the broker's error for a missing topic or partition, RequestTimedOut at the
    deadline.
    """
    wanted = {tp: spec_code(spec) for tp, spec in specs.items()}

    async def ask(conn: BrokerConnection, group: Mapping[TopicPartition, int]) -> Answers:
        low = max(lowest_version(code, isolation_level) for code in group.values())
        allowed = VersionRange(low, _MAX_VERSION)
        conn.versions.choose(ApiKey.LIST_OFFSETS, allowed, feature=_FEATURES.get(low))
        timeout_ms = cluster.request_timeout_ms(deadline)
        trusted = takes_epochs(conn.versions)
        epochs = {tp: cluster.leader(tp).epoch if trusted else -1 for tp in group}
        message = _request(group, epochs, isolation_level, timeout_ms)
        answers = _read(await cluster.ask(conn, message, timeout_ms, allowed), group)
        for tp, answer in answers.items():
            if isinstance(answer, OffsetAndTimestamp):
                cluster.see_epoch(tp, answer.leader_epoch)
        return answers

    return await at_leaders(cluster, "listing offsets", deadline, wanted, ask)


def _request(
    group: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
    isolation_level: str,
    timeout_ms: int,
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for tp, code in group.items():
        topic = topics.setdefault(
            tp.topic, ListOffsetsRequest.ListOffsetsTopic(name=tp.topic, partitions=[])
        )
        topic.partitions.append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=tp.partition, current_leader_epoch=epochs[tp], timestamp=code
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if isolation_level == READ_COMMITTED else 0,
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )


def _read(reply: Reply[ListOffsetsResponse], asked: Collection[TopicPartition]) -> Answers:
    found: Answers = {}
    for topic in reply.message.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if tp not in asked or tp in found:
                continue  # never asked for, or answered twice
            if part.error_code:
                found[tp] = refusal(reply, part.error_code, None, tp)
            elif reply.version < BY_TIME_VERSION:
                old = part.old_style_offsets
                found[tp] = OffsetAndTimestamp(old[0] if old else -1)
            else:
                found[tp] = OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch)
    for tp in sorted(set(asked) - found.keys()):
        found[tp] = RemoteProtocolError(f"the broker's ListOffsets answer leaves out {tp}")
    return found
