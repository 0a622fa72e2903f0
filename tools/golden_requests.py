"""The requests that golden exchanges are made of: one function per API, every
version, many fields set.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden_records
from parley.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)
from parley.records import split
from parley.schema import ApiKey
from parley_laboratory.golden import read_logs

if TYPE_CHECKING:
    from golden_exchanges import Recorder

RECORDS = Path(__file__).parents[1] / "tests" / "golden" / "records"
ONE, TWO = "golden-one", "golden-two"
"""Topics of two partitions, whose leaders are broker 1, and brokers 1 and 2."""
TRANSACTIONS = "transactions"
GROUP = "golden-group"
UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_EXISTS, NOT_LEADER, OUT_OF_RANGE = 3, 17, 36, 6, 1
(
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_LEADER_EPOCH,
    INVALID_RECORD,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_VERSION,
) = 9, 75, 87, 100, 35


RECORDED = (
    ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS,
    ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH,
)  # fmt: skip
"""What is recorded here; golden_services has the other APIs."""


def play(recorder: Recorder) -> None:
    """Record every API; the order matters: what is written first is read later and deleted last."""
    api_versions(recorder)
    create_topics(recorder)
    metadata(recorder)
    produce(recorder)
    init_producer_id(recorder)
    transactions(recorder)
    fetch(recorder)
    fetch_sessions(recorder)
    list_offsets(recorder)
    coordinator = find_coordinator(recorder)
    offset_commit(recorder, coordinator)
    offset_fetch(recorder, coordinator)
    delete_topics(recorder)


def api_versions(recorder: Recorder) -> None:
    for version in recorder.versions(ApiKey.API_VERSIONS):
        request = ApiVersionsRequest()
        if version >= 3:
            request = ApiVersionsRequest(
                client_software_name="parley", client_software_version="0.1.0-golden.1"
            )
        recorder.record("plain", request, version)


def create_topics(recorder: Recorder) -> None:
    """Create ONE and TWO, and a few topics in each version; 0.10.0 cannot and makes
    topics when asked for them.
    """
    versions = recorder.versions(ApiKey.CREATE_TOPICS)
    if not versions:
        for version in recorder.versions(ApiKey.METADATA):
            names = [MetadataRequest.MetadataRequestTopic(name=f"made-{version}")]
            recorder.record("makes the topic", MetadataRequest(topics=names), version)
        golden_records.assign_topics(recorder.cluster, {ONE: (1, 1), TWO: (1, 2)})
        return
    node = controller(recorder)
    topic, assignment = (
        CreateTopicsRequest.CreatableTopic,
        CreateTopicsRequest.CreatableReplicaAssignment,
    )
    config = CreateTopicsRequest.CreatableTopicConfig

    def assigned(name: str, *leaders: int) -> Any:
        replicas = [
            assignment(partition_index=i, broker_ids=[leader]) for i, leader in enumerate(leaders)
        ]
        return topic(name=name, num_partitions=-1, replication_factor=-1, assignments=replicas)

    for version in versions:
        configs = [
            config(name="cleanup.policy", value="compact"),
            config(name="retention.ms", value="-1"),
        ]
        plain = topic(
            name=f"created-{version}", num_partitions=3, replication_factor=2, configs=configs
        )
        recorder.record(
            "new topic", CreateTopicsRequest(topics=[plain], timeout_ms=30_000), version, node=node
        )
        errors = CreateTopicsRequest(
            topics=[plain, topic(name="a/b", num_partitions=1, replication_factor=1)]
        )
        recorder.record("errors", errors, version, node=node, errors={TOPIC_EXISTS, INVALID_TOPIC})
        if version >= 1:
            dry = topic(name="only-validated", num_partitions=1, replication_factor=1)
            recorder.record(
                "validate only",
                CreateTopicsRequest(topics=[dry], validate_only=True),
                version,
                node=node,
            )
        if version >= 4:
            defaults = topic(name=f"defaults-{version}", num_partitions=-1, replication_factor=-1)
            recorder.record("defaults", CreateTopicsRequest(topics=[defaults]), version, node=node)
    both = CreateTopicsRequest(topics=[assigned(ONE, 1, 1), assigned(TWO, 1, 2)], timeout_ms=30_000)
    recorder.record("assignments", both, versions[-1], node=node)
    transactional = CreateTopicsRequest(topics=[assigned(TRANSACTIONS, 1)])
    recorder.record("one assignment", transactional, versions[0], node=node)


def controller(recorder: Recorder) -> int:
    version = min(1, recorder.newest(ApiKey.METADATA))
    node: int = recorder.ask(MetadataRequest(topics=None), version, node=1).controller_id
    return node


def metadata(recorder: Recorder) -> None:
    topic = MetadataRequest.MetadataRequestTopic
    for version in recorder.versions(ApiKey.METADATA):
        flags: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
        if version >= 8:
            flags["include_topic_authorized_operations"] = True
        if 8 <= version <= 10:
            flags["include_cluster_authorized_operations"] = True
        named = MetadataRequest(topics=[topic(name=ONE), topic(name=TWO)], **flags)
        answer = recorder.record("two topics", named, version)
        if version >= 4:
            unknown = MetadataRequest(topics=[topic(name="no-such-topic")], **flags)
            recorder.record("unknown topic", unknown, version, errors={UNKNOWN_TOPIC})
        if version >= 12:
            ids = [topic(topic_id=found.topic_id, name=None) for found in answer.topics]
            recorder.record("by topic id", MetadataRequest(topics=ids, **flags), version)
            lost = MetadataRequest(topics=[topic(topic_id=bytes(range(16)), name=None)], **flags)
            recorder.record("unknown topic id", lost, version, errors={UNKNOWN_TOPIC_ID})
        if version >= 1:
            recorder.record("no topics", MetadataRequest(topics=[], **flags), version)
    recorder.record("all topics",
                    MetadataRequest(topics=None if recorder.newest(ApiKey.METADATA) else []),
                    recorder.newest(ApiKey.METADATA))  # fmt: skip


def java_batch(magic: int, codec: str) -> bytes:
    """Return a small batch that a Java producer wrote,
    its offsets counting from 0 as a producer sends them.

    The offset of a magic-2 batch and of a compressed magic-1 message is outside the checksum;
    inside a compressed magic-0 message offsets are absolute, and only the log's first one counts
    from 0.
    """
    release = {0: "0.9.0.1", 1: "0.10.0.1", 2: "4.3.0"}[magic]
    (log,) = (log for log in read_logs(RECORDS / release) if log.topic == f"codec-{codec}")
    batches = split(log.data)
    batch = batches[0] if magic == 0 or (magic == 1 and codec == "none") else batches[-1]
    data = log.data[batch.start : batch.end]
    if magic == 2:
        return bytes(8) + data[8:]
    return (1).to_bytes(8, "big") + data[8:] if magic == 1 and codec != "none" else data


def produce(recorder: Recorder) -> None:
    """Produce Java's own batches in the format and the codecs of each
    version; then what is refused.
    """
    ids = topic_ids(recorder)
    for version in recorder.versions(ApiKey.PRODUCE):
        magic = min(version, 3) - 1 if version >= 2 else 0
        codecs = ["none", "gzip", "snappy", "lz4"] + (["zstd"] if version >= 7 else [])
        for codec in codecs:
            request = produce_request(
                ids, version, {ONE: {0: java_batch(magic, codec), 1: java_batch(magic, "none")}}
            )
            recorder.record(codec, request, version, node=leader(recorder, ONE, 0))
        lost = produce_request(ids, version, {ONE: {7: java_batch(magic, "none")}})
        recorder.record("unknown partition", lost, version, errors={UNKNOWN_TOPIC})
        if version >= 8:
            keyless = {
                f"created-{recorder.newest(ApiKey.CREATE_TOPICS)}": {0: java_batch(magic, "none")}
            }
            node = leader(recorder, next(iter(keyless)), 0)
            refused = produce_request(ids, version, keyless)
            recorder.record(
                "a record without key", refused, version, node=node, errors={INVALID_RECORD}
            )
        stale = produce_request(ids, version, {ONE: {0: java_batch(magic, "none")}})
        recorder.record("not the leader", stale, version, node=2, errors={not_leader(recorder)})


def not_leader(recorder: Recorder) -> int:
    """Return what a broker without the partition answers; before 2.4 it did not
    look further than itself.
    """
    return NOT_LEADER if recorder.version >= (2, 4) else UNKNOWN_TOPIC


def produce_request(
    ids: dict[str, bytes], version: int, topics: dict[str, dict[int, bytes]]
) -> Any:
    topic, partition = ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData
    data = []
    for name, records in topics.items():
        partitions = [partition(index=index, records=batch) for index, batch in records.items()]
        identity = {"topic_id": ids[name]} if version >= 13 else {"name": name}
        data.append(topic(partition_data=partitions, **identity))
    return ProduceRequest(acks=-1 if version % 2 else 1, timeout_ms=15_000, topic_data=data)


def topic_ids(recorder: Recorder) -> dict[str, bytes]:
    version = recorder.newest(ApiKey.METADATA)
    answer = recorder.ask(MetadataRequest(topics=None if version else []), version, node=1)
    return {topic.name: topic.topic_id for topic in answer.topics}


def leader(recorder: Recorder, topic: str, partition: int) -> int:
    """Return a partition's leader, waiting until it has one."""
    version = recorder.newest(ApiKey.METADATA)
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    for _ in range(300):
        for found in recorder.ask(request, version, node=1).topics[0].partitions:
            if found.partition_index == partition and found.leader_id > 0:
                node: int = found.leader_id
                return node
        time.sleep(0.1)
    raise RuntimeError(f"{topic}-{partition} has no leader")


def init_producer_id(recorder: Recorder) -> None:
    for version in recorder.versions(ApiKey.INIT_PRODUCER_ID):
        idempotent = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        recorder.record("idempotent", idempotent, version)
        # A coordinator answers only on its own node, and which one that is says FindCoordinator v1.
        name = f"golden-{version}"
        search = FindCoordinatorRequest(key=name, key_type=1)
        node = recorder.record("of a transaction", search, 1).node_id
        first = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer = recorder.record("transactional", first, version, node=node)
        if version >= 3:
            again = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=60_000,
                producer_id=answer.producer_id,
                producer_epoch=answer.producer_epoch,
            )  # fmt: skip
            recorder.record("with its epoch", again, version, node=node)


def transactions(recorder: Recorder) -> None:
    """Have the Java producer write a committed, an aborted and a committed transaction."""
    if recorder.version >= (0, 11):
        golden_records.write_transactions(recorder.cluster)


def fetch(recorder: Recorder) -> None:
    ids = topic_ids(recorder)
    for version in recorder.versions(ApiKey.FETCH):
        extra: dict[str, Any] = {"max_bytes": 1_000_000} if version >= 3 else {}
        if version >= 11:
            extra["rack_id"] = "rack-1"
        node = leader(recorder, ONE, 0)
        wanted = {ONE: {0: {"fetch_offset": 0}, 1: {"fetch_offset": 3}}}
        recorder.record(
            "two partitions", fetch_request(ids, version, wanted, **extra), version, node=node
        )
        beyond = fetch_request(ids, version, {ONE: {0: {"fetch_offset": 10**12}}}, **extra)
        recorder.record("out of range", beyond, version, node=node, errors={OUT_OF_RANGE})
        if version >= 4:
            wanted = {TRANSACTIONS: {0: {"fetch_offset": 0}}}
            committed = fetch_request(ids, version, wanted, isolation_level=1, **extra)
            recorder.record(
                "read committed", committed, version, node=leader(recorder, TRANSACTIONS, 0)
            )
        if version >= 9:
            wanted = {ONE: {0: {"fetch_offset": 0, "current_leader_epoch": 99}}}
            unknown = fetch_request(ids, version, wanted)
            recorder.record(
                "unknown leader epoch", unknown, version, node=node, errors={UNKNOWN_LEADER_EPOCH}
            )
        if version >= 12:
            wanted = {
                ONE: {
                    0: {"fetch_offset": 10**6, "last_fetched_epoch": 0, "current_leader_epoch": 0}
                }
            }
            recorder.record(
                "diverging epoch", fetch_request(ids, version, wanted), version, node=node
            )
        stale = fetch_request(ids, version, {ONE: {0: {"fetch_offset": 0}}})
        # 2.4 looks for a replica to read from there (KIP-392), and has none.
        error = (
            REPLICA_NOT_AVAILABLE
            if recorder.release == "2.4.1" and version >= 11
            else not_leader(recorder)
        )
        recorder.record("not the leader", stale, version, node=2, errors={error})


def fetch_request(
    ids: dict[str, bytes], version: int, topics: dict[str, dict[int, dict[str, int]]], **extra: Any
) -> Any:
    topic, partition = FetchRequest.FetchTopic, FetchRequest.FetchPartition
    data = []
    for name, positions in topics.items():
        partitions = [
            partition(partition=i, partition_max_bytes=600, **position)
            for i, position in positions.items()
        ]
        identity = {"topic_id": ids[name]} if version >= 13 else {"topic": name}
        data.append(topic(partitions=partitions, **identity))
    return FetchRequest(max_wait_ms=10, min_bytes=1, topics=data, **extra)


def fetch_sessions(recorder: Recorder) -> None:
    """Open a fetch session, and ask it for what is new, forgetting one partition (KIP-227)."""
    ids = topic_ids(recorder)
    for version in recorder.versions(ApiKey.FETCH):
        if version >= 7:
            node = leader(recorder, ONE, 0)
            wanted = {ONE: {0: {"fetch_offset": 2}, 1: {"fetch_offset": 2}}}
            opened = fetch_request(ids, version, wanted, session_id=0, session_epoch=0)
            session = recorder.record("new session", opened, version, node=node).session_id
            identity = {"topic_id": ids[ONE]} if version >= 13 else {"topic": ONE}
            forgotten = FetchRequest.ForgottenTopic(partitions=[1], **identity)
            following = fetch_request(
                ids, version, {ONE: {0: {"fetch_offset": 4}}}, session_id=session, session_epoch=1,
                forgotten_topics_data=[forgotten],
            )  # fmt: skip
            recorder.record("incremental", following, version, node=node)


def list_offsets(recorder: Recorder) -> None:
    for version in recorder.versions(ApiKey.LIST_OFFSETS):
        times = {"latest": -1, "earliest": -2}
        if version >= 1:
            times |= {"by time": 1_600_000_000_001, "later than all": 4_000_000_000_000}
        if version >= 7:
            times["largest timestamp"] = -3
        if version >= 8:
            times["earliest local"] = -4
        if version >= 9:
            times["latest tiered"] = -5
        if version >= 11:
            times["earliest pending upload"] = -6
        node = leader(recorder, ONE, 0)
        for title, timestamp in times.items():
            recorder.record(title, list_offsets_request(version, timestamp), version, node=node)
        lost = list_offsets_request(version, -1, topic="no-such-topic")
        recorder.record("unknown topic", lost, version, node=node, errors={UNKNOWN_TOPIC})


def list_offsets_request(version: int, timestamp: int, topic: str = ONE) -> Any:
    extra: dict[str, Any] = {"max_num_offsets": 5} if version == 0 else {}
    if version >= 4:
        extra["current_leader_epoch"] = -1
    partition = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, **extra
    )
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])]
    more: dict[str, Any] = {"isolation_level": 1} if version >= 2 else {}
    if version >= 10:
        more["timeout_ms"] = 5_000
    return ListOffsetsRequest(replica_id=-1, topics=topics, **more)


def find_coordinator(recorder: Recorder) -> int:
    """Record each version and return the node of GROUP's coordinator."""
    node = 0
    for version in recorder.versions(ApiKey.FIND_COORDINATOR):
        if version >= 4:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, "another-group"])
            node = recorder.record("two groups", request, version).coordinators[0].node_id
            bad = FindCoordinatorRequest(key_type=9, coordinator_keys=[GROUP])
            recorder.record("bad key type", bad, version, errors={42})
        else:
            node = recorder.record("group", FindCoordinatorRequest(key=GROUP), version).node_id
    return node


def offset_commit(recorder: Recorder, node: int) -> None:
    ids = topic_ids(recorder)
    topic, partition = (
        OffsetCommitRequest.OffsetCommitRequestTopic,
        OffsetCommitRequest.OffsetCommitRequestPartition,
    )
    for version in recorder.versions(ApiKey.OFFSET_COMMIT):
        epoch = {"committed_leader_epoch": 0} if version >= 6 else {}
        committed = [
            partition(
                partition_index=0, committed_offset=3, committed_metadata="note \u2603", **epoch
            ),
            partition(partition_index=1, committed_offset=0, committed_metadata=None),
        ]
        identity = {"topic_id": ids[ONE]} if version >= 10 else {"name": ONE}
        request = OffsetCommitRequest(
            group_id=GROUP, topics=[topic(partitions=committed, **identity)]
        )
        # Version 0 is kept in ZooKeeper, which KRaft has not.
        kraft_refuses = {UNSUPPORTED_VERSION} if version == 0 and recorder.cluster.kraft else set()
        recorder.record("two partitions", request, version, node=node, errors=kraft_refuses)
        identity = {"topic_id": bytes(range(16))} if version >= 10 else {"name": "no-such-topic"}
        lost = OffsetCommitRequest(
            group_id=GROUP, topics=[topic(partitions=committed[:1], **identity)]
        )
        error = UNKNOWN_TOPIC_ID if version >= 10 else UNKNOWN_TOPIC
        recorder.record("unknown topic", lost, version, node=node, errors={error})


def offset_fetch(recorder: Recorder, node: int) -> None:
    ids = topic_ids(recorder)
    for version in recorder.versions(ApiKey.OFFSET_FETCH):
        if version < 8:
            topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=ONE, partition_indexes=[0, 1])
            request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
            everything = OffsetFetchRequest(group_id=GROUP, topics=None)
        else:
            identity = {"topic_id": ids[ONE]} if version >= 10 else {"name": ONE}
            topic = OffsetFetchRequest.OffsetFetchRequestTopics(
                partition_indexes=[0, 1], **identity
            )
            group = OffsetFetchRequest.OffsetFetchRequestGroup
            request = OffsetFetchRequest(groups=[group(group_id=GROUP, topics=[topic])])
            empty = group(group_id="no-such-group", topics=None)
            everything = OffsetFetchRequest(groups=[group(group_id=GROUP, topics=None), empty])
        if version >= 7:
            request.require_stable = True
        kraft_refuses = {UNSUPPORTED_VERSION} if version == 0 and recorder.cluster.kraft else set()
        recorder.record("two partitions", request, version, node=node, errors=kraft_refuses)
        if version >= 2:
            recorder.record("everything", everything, version, node=node)


def delete_topics(recorder: Recorder) -> None:
    ids = topic_ids(recorder)
    versions = recorder.versions(ApiKey.DELETE_TOPICS)
    node = controller(recorder) if versions else 1
    created = [f"created-{version}" for version in recorder.versions(ApiKey.CREATE_TOPICS)]
    for version in versions:
        name = created.pop() if created else TWO
        if version < 6:
            request = DeleteTopicsRequest(topic_names=[name, "no-such-topic"], timeout_ms=30_000)
        else:
            state = DeleteTopicsRequest.DeleteTopicState
            topics = [state(name=name), state(name="no-such-topic")]
            request = DeleteTopicsRequest(topics=topics, timeout_ms=30_000)
        recorder.record(
            "a topic and an unknown one", request, version, node=node, errors={UNKNOWN_TOPIC}
        )
        if version >= 6:
            request = DeleteTopicsRequest(topics=[state(topic_id=ids[ONE])], timeout_ms=30_000)
            recorder.record("by topic id", request, version, node=node)
