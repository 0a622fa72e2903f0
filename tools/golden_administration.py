"""The requests of golden exchanges that administrators send: topics, configs, ACLs,
quotas, users, the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from golden_exchanges import ANY
from golden_fields import fitting
from parley.messages import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    DeleteAclsRequest,
    DeleteRecordsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
    OffsetForLeaderEpochRequest,
    SaslHandshakeRequest,
)
from parley.schema import ApiKey

if TYPE_CHECKING:
    from golden_exchanges import Recorder

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
UNKNOWN_TOPIC, INVALID_CONFIG, INVALID_PARTITIONS, OUT_OF_RANGE, ELECTION_NOT_NEEDED = (
    3,
    40,
    37,
    1,
    84,
)
NO_REASSIGNMENT, RESOURCE_NOT_FOUND = 85, 91
ILLEGAL_SASL_STATE = 34
ANY_OPERATION, READ, ALLOW, LITERAL = 1, 3, 3, 3


def play(recorder: Recorder, topic: str) -> None:
    for version in recorder.versions(ApiKey.SASL_HANDSHAKE):
        request = SaslHandshakeRequest(mechanism="PLAIN")
        recorder.record(
            "on a listener without logins", request, version, errors={ILLEGAL_SASL_STATE}
        )
    configs(recorder, topic)
    partitions(recorder, topic)
    acls(recorder)
    quotas_and_users(recorder)
    cluster(recorder, topic)


def configs(recorder: Recorder, topic: str) -> None:
    for version in recorder.versions(ApiKey.DESCRIBE_CONFIGS):
        resource = DescribeConfigsRequest.DescribeConfigsResource
        wanted = [
            resource(
                resource_type=TOPIC_RESOURCE,
                resource_name=topic,
                configuration_keys=["retention.ms"],
            ),
            resource(
                resource_type=BROKER_RESOURCE,
                resource_name="1",
                configuration_keys=["log.dirs", "no.such"],
            ),
        ]
        flags = {"include_synonyms": True, "include_documentation": True}
        recorder.record("a topic and a broker",
                        fitting(DescribeConfigsRequest, version, resources=wanted, **flags),
                        version)  # fmt: skip
        absent = resource(
            resource_type=TOPIC_RESOURCE, resource_name="never-made", configuration_keys=None
        )
        # Before 2.0 a topic that is not there has defaults all the same.
        recorder.record("unknown topic", DescribeConfigsRequest(resources=[absent]), version,
                        errors={UNKNOWN_TOPIC} if recorder.version >= (2, 0) else ANY)  # fmt: skip
    for version in recorder.versions(ApiKey.ALTER_CONFIGS):
        made = AlterConfigsRequest
        for title, value, errors in (
            ("retention", "86400001", frozenset[int]()),
            ("not a number", "x", ANY),
        ):
            entry = made.AlterableConfig(name="retention.ms", value=value)
            resource = made.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[entry]
            )
            recorder.record(title, made(resources=[resource]), version, errors=errors)
    for version in recorder.versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        made_now = IncrementalAlterConfigsRequest
        append = 2 if recorder.version >= (3, 0) else 0  # 2.4 appends to no default
        changes = [
            ("retention.ms", 0, "86400002"),
            ("cleanup.policy", append, "compact"),
            ("segment.ms", 1, None),
        ]
        entries = [
            made_now.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes
        ]
        resource = made_now.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=entries
        )
        recorder.record(
            "set, append and delete", made_now(resources=[resource], validate_only=True), version
        )
    for version in recorder.versions(ApiKey.LIST_CONFIG_RESOURCES):
        recorder.record("all", ListConfigResourcesRequest(), version)
        if version >= 1:
            recorder.record(
                "topics", ListConfigResourcesRequest(resource_types=[TOPIC_RESOURCE]), version
            )


def partitions(recorder: Recorder, topic: str) -> None:
    for count, version in enumerate(recorder.versions(ApiKey.CREATE_PARTITIONS), start=3):
        made = CreatePartitionsRequest
        more = made.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        recorder.record("one more", made(topics=[more], timeout_ms=10_000), version)
        fewer = made.CreatePartitionsTopic(name=topic, count=1, assignments=None)
        recorder.record(
            "fewer", made(topics=[fewer], timeout_ms=10_000), version, errors={INVALID_PARTITIONS}
        )
    for version in recorder.versions(ApiKey.DELETE_RECORDS):
        part = DeleteRecordsRequest.DeleteRecordsPartition
        asked = [part(partition_index=0, offset=-1), part(partition_index=1, offset=99)]
        named = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=asked)
        request = DeleteRecordsRequest(topics=[named], timeout_ms=5_000)
        second = OUT_OF_RANGE if recorder.versions(ApiKey.CREATE_PARTITIONS) else UNKNOWN_TOPIC
        recorder.record("all, and too many", request, version, errors={second})
    for version in recorder.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        epochs = OffsetForLeaderEpochRequest
        parts = [
            epochs.OffsetForLeaderPartition(partition=0, leader_epoch=epoch) for epoch in (0, 9)
        ]
        wanted = epochs.OffsetForLeaderTopic(topic=topic, partitions=parts[:1])
        recorder.record(
            "the first epoch", fitting(epochs, version, replica_id=-1, topics=[wanted]), version
        )
    _replicas(recorder, topic)
    for version in recorder.versions(ApiKey.DESCRIBE_PRODUCERS):
        named = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0, 99])
        request = DescribeProducersRequest(topics=[named])
        recorder.record("one, and one that is not there", request, version, errors={UNKNOWN_TOPIC})
    for version in recorder.versions(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        topics = [
            DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in (topic, "never-made")
        ]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2)
        recorder.record("a page", request, version, errors=ANY)


def _replicas(recorder: Recorder, topic: str) -> None:
    for version in recorder.versions(ApiKey.ELECT_LEADERS):
        wanted = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[0])
        request = fitting(
            ElectLeadersRequest, version, topic_partitions=[wanted], timeout_ms=10_000
        )
        # v0 and 2.4 leave out the partitions that have their preferred leader.
        recorder.record("preferred", request, version, errors=ANY)
    for version in recorder.versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        alter = AlterPartitionReassignmentsRequest
        for title, replicas, errors in (
            ("same replicas", [1], set()),
            ("cancelled", None, {NO_REASSIGNMENT}),
            ("no such broker", [77], {39}),
        ):
            parts = [alter.ReassignablePartition(partition_index=0, replicas=replicas)]
            moved = alter.ReassignableTopic(name=topic, partitions=parts)
            recorder.record(title, alter(topics=[moved], timeout_ms=10_000), version, errors=errors)
    for version in recorder.versions(ApiKey.LIST_PARTITION_REASSIGNMENTS):
        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000)
        recorder.record("all", request, version)
    for version in recorder.versions(ApiKey.DESCRIBE_LOG_DIRS):
        named = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0])
        recorder.record("one partition", DescribeLogDirsRequest(topics=[named]), version)
    for version in recorder.versions(ApiKey.ALTER_REPLICA_LOG_DIRS):
        move = AlterReplicaLogDirsRequest
        place = move.AlterReplicaLogDirTopic(name=topic, partitions=[0])
        request = move(dirs=[move.AlterReplicaLogDir(path="/no/such/place", topics=[place])])
        recorder.record("no such place", request, version, errors={57})


def acls(recorder: Recorder) -> None:
    filters: dict[str, Any] = {
        "resource_type_filter": TOPIC_RESOURCE, "resource_name_filter": None,
        "pattern_type_filter": 1, "principal_filter": None, "host_filter": None,
        "operation": ANY_OPERATION, "permission_type": 1,
    }  # fmt: skip
    for version in recorder.versions(ApiKey.CREATE_ACLS):
        made = fitting(
            CreateAclsRequest.AclCreation, version, resource_type=TOPIC_RESOURCE,
            resource_name=f"topic-{version}", resource_pattern_type=LITERAL,
            principal="User:golden", host="*", operation=READ, permission_type=ALLOW,
        )  # fmt: skip
        recorder.record("a grant", CreateAclsRequest(creations=[made]), version)
    for version in recorder.versions(ApiKey.DESCRIBE_ACLS):
        recorder.record("of all topics", fitting(DescribeAclsRequest, version, **filters), version)
    for version in recorder.versions(ApiKey.DELETE_ACLS):
        mine = fitting(
            DeleteAclsRequest.DeleteAclsFilter,
            version,
            **{**filters, "resource_name_filter": f"topic-{version}"},
        )
        recorder.record("a grant", DeleteAclsRequest(filters=[mine]), version)


def quotas_and_users(recorder: Recorder) -> None:
    for version in recorder.versions(ApiKey.ALTER_CLIENT_QUOTAS):
        made = AlterClientQuotasRequest
        entity = [made.EntityData(entity_type="client-id", entity_name="golden"),
                  made.EntityData(entity_type="user", entity_name=None)]  # fmt: skip
        ops = [made.OpData(key="consumer_byte_rate", value=54_321.0, remove=False)]
        recorder.record("a rate", made(entries=[made.EntryData(entity=entity, ops=ops)]), version)
    for version in recorder.versions(ApiKey.DESCRIBE_CLIENT_QUOTAS):
        part = DescribeClientQuotasRequest.ComponentData(
            entity_type="client-id", match_type=0, match="golden"
        )
        recorder.record("of one client", DescribeClientQuotasRequest(components=[part]), version)
    for version in recorder.versions(ApiKey.ALTER_USER_SCRAM_CREDENTIALS):
        users = AlterUserScramCredentialsRequest
        user = users.ScramCredentialUpsertion(
            name="golden", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"\1" * 32
        )
        lost = users.ScramCredentialDeletion(name="never-made", mechanism=2)
        recorder.record(
            "one made, one unknown",
            users(upsertions=[user], deletions=[lost]),
            version,
            errors={RESOURCE_NOT_FOUND},
        )
    for version in recorder.versions(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS):
        names = [
            DescribeUserScramCredentialsRequest.UserName(name=name)
            for name in ("golden", "never-made")
        ]
        recorder.record(
            "one known, one unknown",
            DescribeUserScramCredentialsRequest(users=names),
            version,
            errors={RESOURCE_NOT_FOUND},
        )


def cluster(recorder: Recorder, topic: str) -> None:
    for version in recorder.versions(ApiKey.DESCRIBE_CLUSTER):
        asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
        recorder.record("brokers", asked, version)
    for version in recorder.versions(ApiKey.DESCRIBE_QUORUM):
        made = DescribeQuorumRequest
        part = made.PartitionData(partition_index=0)
        known = made.TopicData(topic_name="__cluster_metadata", partitions=[part])
        recorder.record("the metadata's", made(topics=[known]), version)
        unknown = made.TopicData(topic_name=topic, partitions=[part])
        recorder.record("another topic's", made(topics=[unknown]), version, errors=ANY)
