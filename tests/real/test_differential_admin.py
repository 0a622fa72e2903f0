"""What administrators do, on a real broker and on the embedded one of its release: the same
answers, in order.

A scene runs in every version that the release advertises of the API it is about. Ids, ports, places
and texts are masked, as in test_differential.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley.versions import Release, release
from parley_laboratory.compare import differences, masked
from parley_laboratory.minimal import one_record
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

MASKED = {
    "cluster_id", "host", "log_dir", "port", "producer_id", "rack", "throttle_time_ms", "topic_id",
    "total_bytes", "usable_bytes", "documentation",
}  # fmt: skip
TEXTS = {"error_message", "batch_index_error_message"}
"""Of these only whether they are null, empty or say something is compared."""
ORDERED = ("name", "group_id", "partition_index")
"""By which entries are compared: Java's sets have no order."""
PATIENCE_S = GENEROUS_S
NOT_YET = {3, 5, 6, 14, 15, 16}
"""What a real broker says while a topic or coordinator is still coming up."""
TOPIC, BROKER = 2, 4

CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
DeleteTopics: Any = request_class(ApiKey.DELETE_TOPICS)
CreatePartitions: Any = request_class(ApiKey.CREATE_PARTITIONS)
DescribeConfigs: Any = request_class(ApiKey.DESCRIBE_CONFIGS)
AlterConfigs: Any = request_class(ApiKey.ALTER_CONFIGS)
Incremental: Any = request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS)
DeleteRecords: Any = request_class(ApiKey.DELETE_RECORDS)
DescribeLogDirs: Any = request_class(ApiKey.DESCRIBE_LOG_DIRS)
DescribeGroups: Any = request_class(ApiKey.DESCRIBE_GROUPS)
DeleteGroups: Any = request_class(ApiKey.DELETE_GROUPS)
OffsetCommit: Any = request_class(ApiKey.OFFSET_COMMIT)
OffsetDelete: Any = request_class(ApiKey.OFFSET_DELETE)
DescribeCluster: Any = request_class(ApiKey.DESCRIBE_CLUSTER)
DescribeProducers: Any = request_class(ApiKey.DESCRIBE_PRODUCERS)
DescribeQuorum: Any = request_class(ApiKey.DESCRIBE_QUORUM)
DescribePartitions: Any = request_class(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
FindCoordinator: Any = request_class(ApiKey.FIND_COORDINATOR)
Metadata: Any = request_class(ApiKey.METADATA)
Produce: Any = request_class(ApiKey.PRODUCE)


def plain(value: Any) -> Any:
    if isinstance(value, list):
        made = [plain(entry) for entry in value]
        # Here groups and transactions have no topics of their own.
        entries = [
            one
            for one in made
            if not (isinstance(one, dict) and str(one.get("name", "")).startswith("__"))
        ]
        keys = [
            key for key in ORDERED if entries and isinstance(entries[0], dict) and key in entries[0]
        ]
        return sorted(entries, key=lambda entry: entry[keys[0]]) if keys else entries
    if value is None or isinstance(value, bytes | str | int | float | memoryview):
        return value
    fields = (
        name for name in type(value).__slots__ if not name.startswith("_") and name not in MASKED
    )
    return {
        name: masked(getattr(value, name)) if name in TEXTS else plain(getattr(value, name))
        for name in fields
    }


def codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for name, entry in value.items():
            if name == "error_code":
                yield entry
            yield from codes(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from codes(entry)


class Side:
    """One of the two brokers: asks, and keeps the masked answers."""

    def __init__(self, address: str, found: Release, topic: str) -> None:
        self.wire, self.release, self.topic = Wire(address), found, topic
        self.log: list[tuple[str, Any]] = []

    def versions(self, message: Any) -> list[int]:
        served = self.release.ranges.get(int(message.API_KEY))
        return [] if served is None else list(served.versions())

    def ask(
        self,
        message: Any,
        version: int | None = None,
        *,
        until: Callable[[Any], bool] | None = None,
    ) -> Any:
        """Ask and note. `until` asks again, up to a bound, while a broker is not as far yet."""
        version = self.versions(message)[-1] if version is None else version
        end = time.monotonic() + PATIENCE_S
        answer = plain(self.wire.ask(message, version))
        while until is not None and not until(answer) and time.monotonic() < end:
            answer = plain(self.wire.ask(message, version))
        self.log.append((f"{type(message).__name__} v{version}", answer))
        return answer

    def make_topic(self, partitions: int = 2, suffix: str = "") -> None:
        name = self.topic + suffix
        made = CreateTopics.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1
        )
        self.wire.ask(
            CreateTopics(topics=[made], timeout_ms=10_000), self.versions(CreateTopics())[0]
        )
        asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=name)])
        self.ask(
            asked,
            1,
            until=lambda a: not any(codes(a)) and len(a["topics"][0]["partitions"]) == partitions,
        )
        self.log.pop()


def accepted(answer: Any) -> bool:
    return not NOT_YET & set(codes(answer))


def shows(text: str, *, no: bool = False) -> Callable[[Any], bool]:
    return lambda answer: (text in str(answer)) is not no


def has_partitions(count: int) -> Callable[[Any], bool]:
    return lambda answer: len(answer["topics"][0]["partitions"]) == count and accepted(answer)


def has_logs(answer: Any) -> bool:
    found = [
        one
        for place in answer["results"]
        for topic in place["topics"]
        for one in topic["partitions"]
    ]
    return len(found) == 2 and all(one["offset_lag"] >= 0 for one in found)


# -- scenes ----------------------------------------------------------------------------------------


def described(kind: int, name: str, keys: list[str] | None = None, **of: Any) -> Any:
    resource = DescribeConfigs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigs(resources=[resource], **of)


def scene_describe_topic_configs(side: Side) -> None:
    side.make_topic()
    for version in side.versions(DescribeConfigs()):
        side.ask(described(TOPIC, side.topic, include_synonyms=version >= 1), version)
        side.ask(described(TOPIC, side.topic, ["retention.ms", "no.such"]), version)
        side.ask(described(TOPIC, ""), version)
        for kind, name in ((BROKER, "77"), (BROKER, "abc"), (9, "x")):
            side.ask(described(kind, name), version)


def scene_alter_topic_configs(side: Side) -> None:
    side.make_topic()

    def alter(version: int, configs: dict[str, str | None], **of: Any) -> None:
        entries = [
            AlterConfigs.AlterableConfig(name=name, value=value) for name, value in configs.items()
        ]
        resource = AlterConfigs.AlterConfigsResource(
            resource_type=TOPIC, resource_name=side.topic, configs=entries
        )
        side.ask(AlterConfigs(resources=[resource], **of), version)

    wanted = ["retention.ms", "max.message.bytes", "cleanup.policy"]
    for version in side.versions(AlterConfigs()):
        alter(version, {"retention.ms": "1000"}, validate_only=True)
        alter(version, {"retention.ms": str(5_000 + version), "cleanup.policy": "compact"})
        shown = described(TOPIC, side.topic, wanted)
        side.ask(shown, until=shows(str(5_000 + version)))
        alter(version, {"no.such": "1"})
        alter(version, {"max.message.bytes": "many"})
        alter(version, {"cleanup.policy": "burn"})


def scene_incremental_alter_configs(side: Side) -> None:
    if not side.versions(Incremental()):
        return
    side.make_topic()

    def alter(version: int, *changes: tuple[str, int, str | None]) -> None:
        entries = [
            Incremental.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes
        ]
        resource = Incremental.AlterConfigsResource(
            resource_type=TOPIC, resource_name=side.topic, configs=entries
        )
        side.ask(Incremental(resources=[resource]), version)

    for version in side.versions(Incremental()):
        alter(version, ("retention.ms", 0, str(7_000 + version)), ("cleanup.policy", 0, "delete"))
        wanted = described(
            TOPIC, side.topic, ["retention.ms", "cleanup.policy"], include_synonyms=True
        )
        side.ask(wanted, until=shows(str(7_000 + version)))
        alter(version, ("cleanup.policy", 2, "compact"))
        side.ask(wanted, until=shows("compact"))
        alter(version, ("leader.replication.throttled.replicas", 2, "0:1"))
        alter(version, ("cleanup.policy", 3, "compact"), ("retention.ms", 1, None))
        side.ask(wanted, until=shows(str(7_000 + version), no=True))
        alter(version, ("retention.ms", 2, "1"))
        alter(version, ("retention.ms", 0, None))
        alter(version, ("no.such", 0, "1"))
        alter(version, ("retention.ms", 0, "1"), ("retention.ms", 1, None))


def scene_create_partitions(side: Side) -> None:
    total = 2
    side.make_topic(total)
    for version in side.versions(CreatePartitions()):

        def create(
            count: int, brokers: list[int] | None = None, version: int = version, **of: Any
        ) -> None:
            assignment = CreatePartitions.CreatePartitionsAssignment
            topic = CreatePartitions.CreatePartitionsTopic(
                name=side.topic, count=count, assignments=None
            )
            if brokers is not None:
                topic.assignments = [assignment(broker_ids=[broker]) for broker in brokers]
            side.ask(CreatePartitions(topics=[topic], timeout_ms=10_000, **of), version)

        create(total + 1, validate_only=True)
        create(total)
        create(total - 1)
        create(total + 1, [77])
        create(total + 1, [1, 1])
        total += 1
        create(total, [1])
        asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=side.topic)])
        side.ask(asked, 1, until=has_partitions(total))


def scene_delete_records(side: Side) -> None:
    if not side.versions(DeleteRecords()):
        return
    side.make_topic(1)
    version = min(side.versions(Produce())[-1], 9)
    partition = Produce.PartitionProduceData(index=0, records=one_record(2))
    topic = Produce.TopicProduceData(name=side.topic, partition_data=[partition])
    for _ in range(6):
        side.ask(Produce(acks=-1, timeout_ms=5_000, topic_data=[topic]), version, until=accepted)
    side.log.clear()  # what a new leader says at first is no part of the scene
    for version in side.versions(DeleteRecords()):
        for offset in (version, 99, -1 if version == 2 else version + 1, -5):
            asked = DeleteRecords.DeleteRecordsPartition(partition_index=0, offset=offset)
            named = DeleteRecords.DeleteRecordsTopic(name=side.topic, partitions=[asked])
            side.ask(DeleteRecords(topics=[named], timeout_ms=5_000), version)


def commit(side: Side, group: str, index: int = 0) -> None:
    partition = OffsetCommit.OffsetCommitRequestPartition(
        partition_index=index, committed_offset=5, committed_metadata=""
    )
    topic = OffsetCommit.OffsetCommitRequestTopic(name=side.topic, partitions=[partition])
    request = OffsetCommit(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
    side.wire.ask(FindCoordinator(key=group), 0)
    side.ask(request, 2, until=accepted)
    side.log.pop()


def scene_groups(side: Side) -> None:
    side.make_topic(1)
    group = f"{side.topic}-group"
    commit(side, group)
    for version in side.versions(DescribeGroups()):
        reported = {"include_authorized_operations": True} if version >= 3 else {}
        side.ask(DescribeGroups(groups=[group, "never-made"], **reported), version, until=accepted)
    for version in side.versions(DeleteGroups()):
        commit(side, group)
        side.ask(DeleteGroups(groups_names=[group, "never-made", ""]), version)
        side.ask(DescribeGroups(groups=[group]), 0)


def scene_offset_delete(side: Side) -> None:
    if not side.versions(OffsetDelete()):
        return
    side.make_topic(1)
    group = f"{side.topic}-group"
    commit(side, group)
    partition = OffsetDelete.OffsetDeleteRequestPartition
    indexes = [partition(partition_index=index) for index in (0, 9)]
    topic = OffsetDelete.OffsetDeleteRequestTopic(name=side.topic, partitions=indexes)
    for name in (group, "never-made", ""):
        answer = side.ask(
            OffsetDelete(group_id=name, topics=[topic]),
            0,
            until=lambda a: not {15, 16} & set(codes(a)),
        )
        # 2.4 names a topic twice, once for its errors.
        found = [
            (t["name"], p["partition_index"], p["error_code"])
            for t in answer["topics"]
            for p in t["partitions"]
        ]
        side.log[-1] = (
            "OffsetDelete",
            {"error_code": answer["error_code"], "partitions": sorted(set(found))},
        )


def scene_describe_cluster(side: Side) -> None:
    for version in side.versions(DescribeCluster()):
        for reported in (True, False):
            side.ask(DescribeCluster(include_cluster_authorized_operations=reported), version)
        if version >= 1:
            for kind in (2, 3):
                side.ask(DescribeCluster(endpoint_type=kind), version)


def scene_describe_partitions(side: Side) -> None:
    if not side.versions(DescribePartitions()):
        return
    side.make_topic(3)
    names = [side.topic, "never-made", "a b"]
    topics = [DescribePartitions.TopicRequest(name=name) for name in names]
    settled = {"until": lambda a: 6 not in set(codes(a)) and 5 not in set(codes(a))}
    side.ask(DescribePartitions(topics=topics), 0, **settled)
    side.ask(DescribePartitions(topics=topics[:1], response_partition_limit=2), 0)
    cursor = DescribePartitions.Cursor(topic_name=side.topic, partition_index=1)
    side.ask(DescribePartitions(topics=topics[:1], cursor=cursor), 0)


def scene_describe_log_dirs(side: Side) -> None:
    if not side.versions(DescribeLogDirs()):
        return
    side.make_topic(2)
    side.make_topic(1, "-unasked")
    named = DescribeLogDirs.DescribableLogDirTopic(topic=side.topic, partitions=[0, 1])
    for version in side.versions(DescribeLogDirs()):
        # A real broker makes its log when it has heard that it
        # leads, and knows its high watermark a moment later.
        answer = side.ask(DescribeLogDirs(topics=[named]), version, until=has_logs)
        for place in answer["results"]:
            # Some releases name every topic. A deleted one
            # of another test keeps its files for a minute.
            place["topics"] = [one for one in place["topics"] if one["name"].startswith(side.topic)]


def scene_describe_producers(side: Side) -> None:
    if not side.versions(DescribeProducers()):
        return
    side.make_topic(1)
    named = DescribeProducers.TopicRequest(name=side.topic, partition_indexes=[0, 9])
    side.ask(DescribeProducers(topics=[named]), 0, until=lambda a: 6 not in set(codes(a)))


def scene_describe_quorum(side: Side) -> None:
    asked = DescribeQuorum.TopicData
    part = DescribeQuorum.PartitionData
    log = asked(topic_name="__cluster_metadata", partitions=[part(partition_index=0)])
    other = asked(topic_name=side.topic, partitions=[part(partition_index=0)])
    second = asked(topic_name="__cluster_metadata", partitions=[part(partition_index=1)])
    for version in side.versions(DescribeQuorum()):
        for topics in ([log], [other], [second], [log, other], []):
            answer = side.ask(DescribeQuorum(topics=topics), version)
            for found in (p for t in answer["topics"] for p in t["partitions"]):
                mask_progress(found, *found["current_voters"])
            for node in answer["nodes"]:
                del node["listeners"]  # controllers have none of their own here


def mask_progress(*entries: dict[str, Any]) -> None:
    """Take out how far the log of the metadata is, and since when: both go on."""
    for entry in entries:
        for name in ("leader_epoch", "high_watermark", "log_end_offset", "replica_directory_id"):
            entry.pop(name, None)
        for name in ("last_fetch_timestamp", "last_caught_up_timestamp"):
            if name in entry:
                entry[name] = entry[name] > 0


SCENES = {name[6:]: play for name, play in list(globals().items()) if name.startswith("scene_")}


@pytest.fixture(scope="session")
def embedded(real_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=real_release) as cluster:
        yield cluster


@pytest.mark.parametrize("scene", list(SCENES))
def test_administrators_are_answered_alike(
    real_broker: Any, real_release: str, embedded: LocalCluster, topic_name: str, scene: str
) -> None:
    play_on_both(real_broker, embedded, real_release, topic_name, SCENES[scene])


def play_on_both(
    real_broker: Any, embedded: LocalCluster, name: str, topic: str, scene: Callable[[Side], None]
) -> None:
    """Play a scene on both brokers; fail, naming each difference between their answers."""
    found, logs = release(name), []
    if ApiKey.CREATE_TOPICS not in found.ranges:
        return  # before 0.10.1 there is nothing that an administrator could ask
    for address in (real_broker.bootstrap_servers, embedded.bootstrap_servers):
        side = Side(address, found, topic)
        scene(side)
        side.wire.close()
        logs.append(side.log)
    real, ours = logs
    assert [name for name, _ in ours] == [name for name, _ in real]
    differing = [
        text
        for number, (one, other) in enumerate(zip(real, ours, strict=True))
        for text in differences(one[1], other[1], f"{number}: {one[0]}")
    ]
    assert not differing, "\n".join(differing)
