"""Probes of administration: topics, configs, ACLs, quotas, users, elections."""

from __future__ import annotations

from typing import Any

from parley.client import NewTopic
from parley.errors import BrokerError
from parley.messages import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    CreatePartitionsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from parley.types import TopicPartition
from parley.versions import Feature

from .probe import probe
from .scene import NODE, Scene

TOPIC, BROKER = 2, 4
"""Resource types of configs."""
SECURITY_DISABLED = 54
ANY, DESCRIBE, ALLOW, LITERAL, PREFIXED = 1, 8, 3, 3, 4
ILLEGAL_SASL_STATE = 34


async def is_there(s: Scene, name: str) -> bool:
    return name in (await s.client.metadata()).topics


@probe(Feature.CREATE_TOPICS)
async def create_topics(s: Scene) -> None:
    name = s.name("made")
    s.mark()
    await s.client.create_topics([NewTopic(name, num_partitions=2)])
    assert len((await s.client.metadata([name])).topics[name].partitions) == 2


@probe(Feature.DELETE_TOPICS)
async def delete_topics(s: Scene) -> None:
    name = await s.fresh()
    s.mark()
    try:
        await s.client.delete_topics([name], timeout_ms=2_000 if not s.since("1.0") else None)
    # delete.topic.enable was false by default: taken, and never carried out
    except BrokerError as error:
        if error.code != 7 or s.since("1.0"):
            raise
        return
    await s.until("the deletion", lambda: is_there(s, name), lambda there: not there)


@probe(Feature.CREATE_TOPICS_VALIDATE_ONLY)
async def create_topics_validate_only(s: Scene) -> None:
    name = s.name("dry")
    s.mark()
    await s.client.create_topics([NewTopic(name)], validate_only=True)
    assert not await is_there(s, name)


@probe(Feature.CREATE_TOPICS_DEFAULTS)
async def create_topics_defaults(s: Scene) -> None:
    name = s.name("default")
    s.mark()
    await s.client.create_topics([NewTopic(name, num_partitions=-1, replication_factor=-1)])
    assert len((await s.client.metadata([name])).topics[name].partitions) == 1


@probe(Feature.CREATE_PARTITIONS)
async def create_partitions(s: Scene) -> None:
    name = await s.fresh()
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=3, assignments=None)
    answer = await s.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))
    assert [found.error_code for found in answer.results] == [0]

    async def count() -> int:
        return len((await s.client.metadata([name])).topics[name].partitions)

    await s.until("the new partitions", count, lambda found: found == 3)


def config_question(kind: int, name: str, **asked: bool) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource], **asked)


async def config_of(s: Scene, topic: str, name: str) -> str:
    answer = await s.send(config_question(TOPIC, topic))
    return {config.name: config.value for config in answer.results[0].configs}[name]


@probe(Feature.DESCRIBE_CONFIGS)
async def describe_configs(s: Scene) -> None:
    answer = await s.ask(config_question(BROKER, str(NODE)))
    assert answer.results[0].error_code == 0
    values = {config.name: config.value for config in answer.results[0].configs}
    assert values["offsets.topic.num.partitions"] == "4"


@probe(Feature.ALTER_CONFIGS)
async def alter_configs(s: Scene) -> None:
    name = await s.fresh()
    config = AlterConfigsRequest.AlterableConfig(name="retention.ms", value="123456789")
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC, resource_name=name, configs=[config]
    )
    answer = await s.ask(AlterConfigsRequest(resources=[resource]))
    assert [found.error_code for found in answer.responses] == [0]
    await s.until(
        "the change", lambda: config_of(s, name, "retention.ms"), lambda value: value == "123456789"
    )


@probe(Feature.INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(s: Scene) -> None:
    name = s.name("own")
    if s.since("0.10.1"):
        await s.client.create_topics([NewTopic(name, configs={"max.message.bytes": "54321"})])
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name="retention.ms", config_operation=0, value="987654321"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC, resource_name=name, configs=[config]
    )
    answer = await s.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert [found.error_code for found in answer.responses] == [0]
    await s.until(
        "the change", lambda: config_of(s, name, "retention.ms"), lambda value: value == "987654321"
    )
    assert await config_of(s, name, "max.message.bytes") == "54321"  # the others are as they were


async def configs_without_synonyms(s: Scene) -> None:
    answer = await s.send(config_question(BROKER, str(NODE)))
    assert answer.results[0].configs
    assert not any(config.synonyms for config in answer.results[0].configs)


@probe(Feature.CONFIG_SYNONYMS, older=configs_without_synonyms, older_since="0.11")
async def config_synonyms(s: Scene) -> None:
    answer = await s.ask(config_question(BROKER, str(NODE), include_synonyms=True))
    assert any(config.synonyms for config in answer.results[0].configs)


async def configs_without_texts(s: Scene) -> None:
    answer = await s.send(config_question(BROKER, str(NODE)))
    assert answer.results[0].configs
    assert not any(config.documentation for config in answer.results[0].configs)


@probe(Feature.CONFIG_DOCUMENTATION, older=configs_without_texts, older_since="0.11")
async def config_documentation(s: Scene) -> None:
    answer = await s.ask(config_question(BROKER, str(NODE), include_documentation=True))
    assert any(config.documentation for config in answer.results[0].configs)


async def acls(s: Scene, pattern: int) -> None:
    """Ask, make and remove: a broker without an authorizer answers
    SECURITY_DISABLED, and has the APIs.
    """
    creation = CreateAclsRequest.AclCreation(
        resource_type=TOPIC, resource_name="absent", resource_pattern_type=pattern,
        principal="User:nobody", host="*", operation=DESCRIBE, permission_type=ALLOW,
    )  # fmt: skip
    filters = {
        "resource_type_filter": TOPIC, "resource_name_filter": "absent",
        "pattern_type_filter": pattern,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
    }  # fmt: skip
    assert (await s.ask(DescribeAclsRequest(**filters))).error_code == SECURITY_DISABLED
    answer = await s.send(CreateAclsRequest(creations=[creation]))
    assert [found.error_code for found in answer.results] == [SECURITY_DISABLED]
    answer = await s.send(
        DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**filters)])
    )
    assert [found.error_code for found in answer.filter_results] == [SECURITY_DISABLED]


@probe(Feature.ACLS)
async def literal_acls(s: Scene) -> None:
    await acls(s, LITERAL)


@probe(Feature.PREFIXED_ACLS)
async def prefixed_acls(s: Scene) -> None:
    await acls(s, PREFIXED)


@probe(Feature.DELETE_TOPICS_BY_ID)
async def delete_topics_by_id(s: Scene) -> None:
    name = await s.fresh()
    topic_id = await s.topic_id(name)
    states = [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)]
    answer = await s.ask(DeleteTopicsRequest(topics=states, timeout_ms=10_000))
    assert [(found.name, found.error_code) for found in answer.responses] == [(name, 0)]
    await s.until("the deletion", lambda: is_there(s, name), lambda there: not there)


@probe(Feature.DELEGATION_TOKENS)
async def delegation_tokens(s: Scene) -> None:
    answer = await s.ask(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
    # disabled, or not for a client that has not said who it is
    assert answer.error_code in {61, 64, 65}


async def cluster_by_metadata(s: Scene) -> None:
    assert set((await s.client.metadata()).brokers) == {NODE}


@probe(Feature.DESCRIBE_CLUSTER, older=cluster_by_metadata)
async def describe_cluster(s: Scene) -> None:
    answer = await s.ask(DescribeClusterRequest())
    assert (answer.error_code, answer.cluster_id) == (0, (await s.client.metadata()).cluster_id)
    assert [f"{broker.host}:{broker.port}" for broker in answer.brokers] == [
        s.cluster.broker(NODE).address
    ]


@probe(Feature.CLIENT_QUOTAS)
async def client_quotas(s: Scene) -> None:
    made = AlterClientQuotasRequest
    entity = [made.EntityData(entity_type="client-id", entity_name=s.group)]
    ops = [made.OpData(key="consumer_byte_rate", value=54321.0, remove=False)]
    answer = await s.ask(
        made(entries=[made.EntryData(entity=entity, ops=ops)], validate_only=False)
    )
    assert [found.error_code for found in answer.entries] == [0]
    part = DescribeClientQuotasRequest.ComponentData(
        entity_type="client-id", match_type=0, match=s.group
    )

    async def quota() -> list[float]:
        found = await s.send(DescribeClientQuotasRequest(components=[part], strict=True))
        return [value.value for entry in found.entries or [] for value in entry.values]

    await s.until("the quota", quota, lambda values: values == [54321.0])


@probe(Feature.SCRAM_USERS)
async def scram_users(s: Scene) -> None:
    made = AlterUserScramCredentialsRequest
    user = made.ScramCredentialUpsertion(
        name=s.group,
        mechanism=1,
        iterations=4096,
        salt=b"salt of the probe",
        salted_password=b"\1" * 32,
    )
    answer = await s.ask(made(deletions=[], upsertions=[user]))
    assert [found.error_code for found in answer.results] == [0]
    names = [DescribeUserScramCredentialsRequest.UserName(name=s.group)]

    async def iterations() -> list[int]:
        found = await s.send(DescribeUserScramCredentialsRequest(users=names))
        return [info.iterations for result in found.results for info in result.credential_infos]

    await s.until("the user", iterations, lambda found: found == [4096])


@probe(Feature.ELECT_LEADERS)
async def elect_leaders(s: Scene) -> None:
    wanted = ElectLeadersRequest.TopicPartitions(topic=s.topic, partitions=[0])
    answer = await s.ask(
        ElectLeadersRequest(election_type=0, topic_partitions=[wanted], timeout_ms=10_000)
    )
    assert answer.error_code == 0
    codes = [
        part.error_code
        for result in answer.replica_election_results
        for part in result.partition_result
    ]
    assert codes in ([], [84])  # ELECTION_NOT_NEEDED: the preferred one leads


@probe(Feature.PARTITION_REASSIGNMENT)
async def partition_reassignment(s: Scene) -> None:
    made = AlterPartitionReassignmentsRequest
    parts = [made.ReassignablePartition(partition_index=0, replicas=[NODE])]
    topics = [made.ReassignableTopic(name=s.topic, partitions=parts)]
    answer = await s.ask(made(topics=topics, timeout_ms=10_000))
    assert answer.error_code == 0
    assert [part.error_code for topic in answer.responses for part in topic.partitions] == [0]
    answer = await s.send(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000))
    assert answer.error_code == 0
    view = await s.client.metadata([s.topic])
    assert view.partition(TopicPartition(s.topic, 0)) is not None


async def handshake_0(s: Scene) -> None:
    answer = await s.send(SaslHandshakeRequest(mechanism="PLAIN"), high=0)
    assert answer.error_code == ILLEGAL_SASL_STATE


@probe(Feature.SASL_AUTHENTICATE, older=handshake_0, older_since="0.10")
async def sasl_authenticate(s: Scene) -> None:
    answer = await s.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    # this listener has no logins; test_sasl_real.py logs in
    assert answer.error_code == ILLEGAL_SASL_STATE
    answer = await s.send(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"))
    assert answer.error_code == ILLEGAL_SASL_STATE


@probe(Feature.SASL_REAUTHENTICATION, older=handshake_0, older_since="0.10")
async def sasl_reauthentication(s: Scene) -> None:
    answer = await s.ask(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"))
    assert (answer.error_code, answer.session_lifetime_ms) == (ILLEGAL_SASL_STATE, 0)


async def nameless(s: Scene) -> None:
    versions = await s.client.api_versions(NODE)
    assert versions.ranges
    if s.since("0.10"):
        assert (await s.send(ApiVersionsRequest())).error_code == 0


@probe(Feature.CLIENT_SOFTWARE_NAME, older=nameless)
async def client_software_name(s: Scene) -> None:
    answer = await s.ask(
        ApiVersionsRequest(client_software_name="parley", client_software_version="1")
    )
    assert answer.error_code == 0
    answer = await s.ask(ApiVersionsRequest(client_software_name="", client_software_version="1"))
    assert answer.error_code == 42  # the name is looked at
