"""Creating topics, adding partitions to them, and deleting them, through the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parley.client.admin.calls import Begin
from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline, raise_first
from parley.client.cluster.routing import at_controller
from parley.client.cluster.wanted_topics import ensure_topics
from parley.client.options import arguments
from parley.client.results import CreatedTopic, NewTopic
from parley.errors import BrokerError, ConfigError, KafkaError, broker_error
from parley.errors.codes import (
    INVALID_PARTITIONS,
    LEADER_NOT_AVAILABLE,
    NOT_CONTROLLER,
    THROTTLING_QUOTA_EXCEEDED,
)
from parley.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import Names, Several, TopicPartition, several, shown, text
from parley.versions import Feature, VersionRange

_MAX_VERSION = 2**15 - 1


async def create_topics(
    begin: Begin,
    topics: Several[NewTopic],
    *,
    timeout_ms: int | None = None,
    validate_only: bool = False,
) -> dict[str, CreatedTopic]:
    """Create topics; they can be used on return: each partition has a leader then.

    Raises the first topic's error, with a note for each other one that failed (topics that did not
    fail exist then), and UnsupportedVersionError before anything is sent where the controller
    cannot do it.
    """
    wanted = _new_topics(topics)
    arguments.timeout(timeout_ms)
    arguments.flag("validate_only", validate_only)
    cluster, deadline = await begin(timeout_ms)
    feature = Feature.CREATE_TOPICS_VALIDATE_ONLY if validate_only else Feature.CREATE_TOPICS
    if any(
        -1 in (topic.num_partitions, topic.replication_factor)
        for topic in wanted
        if not topic.replica_assignments
    ):
        feature = Feature.CREATE_TOPICS_DEFAULTS
    allowed = VersionRange(feature.first_version(ApiKey.CREATE_TOPICS), _MAX_VERSION)
    pending = {topic.name: topic for topic in wanted}
    made: dict[str, CreatedTopic] = {}

    async def attempt(conn: BrokerConnection) -> None:
        timeout_ms = cluster.request_timeout_ms(deadline)
        conn.versions.choose(ApiKey.CREATE_TOPICS, allowed, feature=feature)
        message = CreateTopicsRequest(
            topics=[_creatable(topic) for name, topic in pending.items() if name not in made],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        reply = await cluster.ask(conn, message, timeout_ms + 1_000, allowed)
        errors = []
        for found in reply.message.topics:
            if found.error_code:
                code, said = found.error_code, found.error_message
                errors.append(refusal(reply, code, said, topic=found.name, conn=conn))
            else:
                counts = (found.num_partitions, found.replication_factor)
                made[found.name] = CreatedTopic(found.name, bytes(found.topic_id), *counts)
        _raise_all(errors)

    if pending:
        await at_controller(cluster, "creating topics", deadline, attempt)
        if not validate_only:
            await _until_led(cluster, dict.fromkeys(pending, 0), deadline)
    return made


async def create_partitions(
    begin: Begin,
    counts: Mapping[str, int],
    *,
    replica_assignments: Mapping[str, Sequence[Several[int]]] | None = None,
    timeout_ms: int | None = None,
    validate_only: bool = False,
) -> None:
    """Add partitions to topics until each has this many; they can be used on return.

    `replica_assignments` has the brokers of each added partition, the leader first; without it the
    controller chooses. Keys go to other partitions afterwards. Raises the first topic's error, with
    a note for each other one that failed (InvalidPartitionsError where a topic has that many, or
    more), and UnsupportedVersionError, before anything is sent, below Kafka 1.0.
    """
    wanted = _new_counts(counts, replica_assignments or {})
    arguments.timeout(timeout_ms)
    arguments.flag("validate_only", validate_only)
    cluster, deadline = await begin(timeout_ms)
    done: set[str] = set()
    unanswered = False

    async def attempt(conn: BrokerConnection) -> None:
        nonlocal unanswered
        timeout_ms = cluster.request_timeout_ms(deadline)
        conn.versions.require(Feature.CREATE_PARTITIONS)
        message = CreatePartitionsRequest(
            topics=[topic for topic in wanted if topic.name not in done],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        asked_before, unanswered = unanswered, True
        reply = await cluster.ask(conn, message, timeout_ms + 1_000)
        unanswered = False
        errors = []
        for found in reply.message.results:
            there = asked_before and found.error_code == INVALID_PARTITIONS  # since then
            if found.error_code and not there:
                error = broker_error(
                    found.error_code,
                    found.error_message,
                    topic=found.name,
                    api="CREATE_PARTITIONS",
                    version=reply.version,
                )
                errors.append(error)
            else:
                done.add(found.name)
        _raise_all(errors)

    if wanted:
        await at_controller(cluster, "adding partitions", deadline, attempt)
        if not validate_only:
            await _until_led(cluster, {topic.name: topic.count for topic in wanted}, deadline)


async def delete_topics(begin: Begin, names: Names, *, timeout_ms: int | None = None) -> None:
    """Delete topics. Raises the first one's error, with a note for each other one that failed.

    A single text instead of several names is a ConfigError.
    """
    wanted = arguments.topic_names("names", names)
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    pending = list(dict.fromkeys(wanted))
    done: set[str] = set()

    async def attempt(conn: BrokerConnection) -> None:
        timeout_ms = cluster.request_timeout_ms(deadline)
        rest = [name for name in pending if name not in done]
        conn.versions.require(Feature.DELETE_TOPICS)
        if conn.versions.supports(Feature.DELETE_TOPICS_BY_ID):
            states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in rest]
            message = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
        else:
            message = DeleteTopicsRequest(topic_names=rest, timeout_ms=timeout_ms)
        reply = await cluster.ask(conn, message, timeout_ms + 1_000)
        errors = []
        for found in reply.message.responses:
            if found.error_code:
                code, said = found.error_code, found.error_message
                errors.append(refusal(reply, code, said, topic=found.name, conn=conn))
            elif found.name is not None:  # asked by name, answered by name
                done.add(found.name)
        _raise_all(errors)

    if pending:
        await at_controller(cluster, "deleting topics", deadline, attempt)
    for name in pending:
        cluster.schedule.unwant(name)
        cluster.cache.forget(name)


def _new_topics(topics: object) -> tuple[NewTopic, ...]:
    """Return the topics that a caller wants to create. Raises ConfigError for what is none."""
    found = tuple(_checked(topic) for topic in several("topics", topics, "topics"))
    names: set[str] = set()
    for topic in found:
        if topic.name in names:
            raise ConfigError(f'topics names "{topic.name}" twice')
        names.add(topic.name)
    return found


def _new_counts(
    counts: object, assignments: object
) -> list[CreatePartitionsRequest.CreatePartitionsTopic]:
    """Return what is to be asked for. Raises ConfigError for what is no count, or no assignment."""
    arguments.instance("counts", counts, Mapping, how='give a mapping, {"flights": 6}')
    arguments.instance("replica_assignments", assignments, Mapping)
    assert isinstance(counts, Mapping)
    assert isinstance(assignments, Mapping)
    for name in assignments:
        if name not in counts:
            raise ConfigError(f"replica_assignments names {shown(name)}, and counts does not")
    make = CreatePartitionsRequest
    wanted = []
    for name, count in counts.items():
        arguments.number(f"counts[{arguments.topic_name(name)!r}]", count, 1, arguments.INT32)
        given = None
        if name in assignments:
            what = f"replica_assignments[{name!r}]"
            given = [
                make.CreatePartitionsAssignment(
                    broker_ids=[
                        arguments.number(what, broker, 0, arguments.INT32)
                        for broker in several(what, brokers, "brokers")
                    ]
                )
                for brokers in several(what, assignments[name], "partitions")
            ]
        wanted.append(make.CreatePartitionsTopic(name=name, count=count, assignments=given))
    return wanted


def _checked(topic: object) -> NewTopic:
    if not isinstance(topic, NewTopic):
        hint = (
            f"NewTopic({topic!r})" if isinstance(topic, str) else "NewTopic(name, num_partitions=1)"
        )
        raise ConfigError(f"{shown(topic)} is no topic to create: give {hint}")
    arguments.topic_name(topic.name)
    assigned = bool(topic.replica_assignments)
    for name, value, top in (
        ("num_partitions", topic.num_partitions, 2**31 - 1),
        ("replication_factor", topic.replication_factor, 2**15 - 1),
    ):
        what = f'topic "{topic.name}": {name}'
        arguments.number(what, value, -(2**31), 2**31 - 1)
        if value != -1 and not 1 <= value <= top:
            raise ConfigError(
                f'topic "{topic.name}": {name}={value} is neither -1 (the broker\'s default) '
                f"nor 1 to {top}"
            )
    if assigned and (topic.num_partitions, topic.replication_factor) not in ((1, 1), (-1, -1)):
        raise ConfigError(
            f'topic "{topic.name}": give replica_assignments or the two counts, not both'
        )
    _check_mappings(topic)
    return topic


def _check_mappings(topic: NewTopic) -> None:
    what = f'topic "{topic.name}"'
    arguments.instance(f"{what}: configs", topic.configs, Mapping)
    for name, value in topic.configs.items():
        text(f"{what}: configs", name)
        if value is not None and not isinstance(value, str):
            hint = str(value).lower() if isinstance(value, bool) else str(value)
            raise ConfigError(f'{what}: configs["{name}"]={shown(value)} is no text; give "{hint}"')
    arguments.instance(f"{what}: replica_assignments", topic.replica_assignments, Mapping)
    for index, brokers in topic.replica_assignments.items():
        arguments.number(f"{what}: replica_assignments: partition", index, 0, arguments.INT32)
        for broker in several(f"{what}: replica_assignments[{index}]", brokers, "brokers"):
            arguments.number(
                f"{what}: replica_assignments[{index}]: broker", broker, 0, arguments.INT32
            )


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    assigned = bool(topic.replica_assignments)
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assigned else topic.num_partitions,
        replication_factor=-1 if assigned else topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(
                partition_index=index, broker_ids=list(brokers)
            )
            for index, brokers in topic.replica_assignments.items()
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def _raise_all(errors: list[KafkaError]) -> None:
    """Raise one error for all: the first that will not pass, else the first, with notes.

    Only a wrong controller and a quota are worth another attempt. Kafka calls more codes retriable,
    but a topic that is missing here stays missing, and after a timeout another attempt would meet
    its own topic.
    """
    for error in errors:
        if isinstance(error, BrokerError) and error.code not in (
            NOT_CONTROLLER,
            THROTTLING_QUOTA_EXCEEDED,
        ):
            error.retriable = False
    raise_first(errors)


async def _until_led(cluster: Cluster, counts: Mapping[str, int], deadline: Deadline) -> None:
    """Return when every partition of these topics, and at least so many of each, has a leader that
    this client can see.
    """

    async def attempt() -> None:
        view = await ensure_topics(cluster, counts, deadline)
        for name, count in counts.items():
            for index in {*view.topics[name].partitions, *range(count)}:
                if cluster.leader(TopicPartition(name, index)).node is None:
                    raise broker_error(
                        LEADER_NOT_AVAILABLE,
                        "the new partition has no leader yet",
                        topic=name,
                        partition=index,
                    )

    await cluster.retrying("waiting for leaders of new topics", deadline, attempt)
