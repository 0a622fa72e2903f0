"""Which of its errors a refused API gives to a request: the rules behind the table of `refusing`.

A rule gets the call and the chain of the request's parts that lead to the entry it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.mirror import Chain, top
from parley.devcluster.release.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC
from parley.errors.codes import (
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    DUPLICATE_RESOURCE,
    ELECTION_NOT_NEEDED,
    INCONSISTENT_CLUSTER_ID,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    NO_REASSIGNMENT_IN_PROGRESS,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
)
from parley.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateDelegationTokenResponse,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsResponse,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from parley.messages import (
        CreateDelegationTokenRequest,
        DescribeClientQuotasRequest,
        DescribeUserScramCredentialsRequest,
        ExpireDelegationTokenRequest,
        ListConfigResourcesRequest,
        Message,
        RenewDelegationTokenRequest,
    )

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Choose = Callable[[Call, Chain], int]

TOKEN_CODES = (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,)
NEW_GROUP_CODES = (UNSUPPORTED_VERSION, INVALID_REQUEST)
CREDENTIAL_CODES = (
    INVALID_REQUEST, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)  # fmt: skip
NO_CREDENTIALS = "users are given to the cluster at its start, not by clients"
SCRAM_MECHANISMS = (1, 2)  # SCRAM-SHA-256 and SCRAM-SHA-512
SCRAM_ITERATIONS = range(4096, 16384 + 1)
ANONYMOUS = ("User", "ANONYMOUS")
FIRST_REQUESTER_VERSION = 3
VOTER_CODES = (UNSUPPORTED_VERSION, INCONSISTENT_CLUSTER_ID)


# -- groups ----------------------------------------------------------------------------------------


def streams_heartbeat(call: Call, chain: Chain) -> int:
    """As `consumer_heartbeat`, for streams groups."""
    (request,) = chain
    wrong = (
        not request.group_id
        or not request.member_id
        or request.task_offsets
        or request.task_end_offsets
    )
    return INVALID_REQUEST if wrong else UNSUPPORTED_VERSION


# -- partitions ------------------------------------------------------------------------------------


def election(call: Call, chain: Chain) -> int:
    """Every partition that exists has the best leader it can have."""
    return ELECTION_NOT_NEEDED if _exists(call, chain) else UNKNOWN_TOPIC_OR_PARTITION


def reassignment(call: Call, chain: Chain) -> int:
    """Refuse new replicas, find nothing to cancel."""
    replicas = chain[-1].replicas
    unusable = replicas is not None and not (
        replicas and set(replicas) <= call.image.brokers.keys()
    )
    if call.profile.behaviour.names_controller and unusable:
        # ZooKeeper releases look at the replicas before the topic
        return INVALID_REPLICA_ASSIGNMENT
    if not _exists(call, chain):
        return UNKNOWN_TOPIC_OR_PARTITION
    return NO_REASSIGNMENT_IN_PROGRESS if replicas is None else INVALID_REPLICA_ASSIGNMENT


def _exists(call: Call, chain: Chain) -> bool:
    topic, partition = chain[-2], chain[-1]
    name = topic.topic if hasattr(type(topic), "topic") else topic.name
    index = partition if isinstance(partition, int) else partition.partition_index
    return call.image.partition(name, index) is not None


# -- the cluster -----------------------------------------------------------------------------------


def describe_quotas(call: Call, request: DescribeClientQuotasRequest) -> Message:
    """Find no quota; refuse what asks for nothing."""
    if any(not component.entity_type for component in request.components):
        answer = top(request, call.version, INVALID_REQUEST, "Invalid empty entity type.")
        answer.entries = None
        return answer
    return DescribeClientQuotasResponse(entries=[])


def token(
    call: Call,
    request: CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest,
) -> Message:
    """Refuse a token, naming who asked: nobody logs in on this listener."""
    response: Message = top(request, call.version, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    for name in ("expiry_timestamp_ms", "issue_timestamp_ms", "max_timestamp_ms"):
        if hasattr(type(response), name):
            setattr(response, name, -1)
    if isinstance(response, CreateDelegationTokenResponse):
        response.principal_type, response.principal_name = ANONYMOUS
        if call.version >= FIRST_REQUESTER_VERSION:
            response.token_requester_principal_type, response.token_requester_principal_name = (
                ANONYMOUS
            )
    return response


def alter_credentials(call: Call, request: AlterUserScramCredentialsRequest) -> Message:
    """Refuse each user once: for what real brokers refuse too, else since users
    cannot be changed here.
    """
    every: list[Deletion | Upsertion] = [*request.deletions, *request.upsertions]
    changes = Counter((one.name, one.mechanism) for one in every)
    response = AlterUserScramCredentialsResponse()
    found: dict[str, tuple[int, str]] = {}
    for change in every:
        outcome = _refused_credential(change)
        # what is wrong comes first
        if changes[change.name, change.mechanism] > 1 and outcome[0] == INVALID_REQUEST:
            outcome = (
                DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        found.setdefault(change.name, outcome)
    for user, (code, text) in found.items():
        result = response.AlterUserScramCredentialsResult(
            user=user, error_code=code, error_message=text
        )
        response.results.append(result)
    return response


def _refused_credential(change: Deletion | Upsertion) -> tuple[int, str]:
    iterations = change.iterations if isinstance(change, Upsertion) else None
    if not change.name:
        return UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in SCRAM_MECHANISMS:
        return UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if iterations is None:
        return RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    if iterations not in SCRAM_ITERATIONS:
        few = iterations < SCRAM_ITERATIONS.start
        return UNACCEPTABLE_CREDENTIAL, "Too few iterations" if few else "Too many iterations"
    return INVALID_REQUEST, NO_CREDENTIALS


def describe_credentials(call: Call, request: DescribeUserScramCredentialsRequest) -> Message:
    """Say of each user named that no client gave him credentials."""
    response = DescribeUserScramCredentialsResponse()
    for user, times in Counter(one.name for one in request.users or ()).items():
        code, text = (
            RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {user}",
        )
        if times > 1:
            code = DUPLICATE_RESOURCE
            text = (
                "Cannot describe SCRAM credentials for the same user twice in a single request: "
                f"{user}"
            )
        result = response.DescribeUserScramCredentialsResult(
            user=user, error_code=code, error_message=text
        )
        response.results.append(result)
    return response


def voter(call: Call, chain: Chain) -> int:
    """Refuse another cluster's voters, and this one's because its quorum is fixed."""
    asked = chain[0].cluster_id
    return (
        UNSUPPORTED_VERSION
        if asked is None or asked == call.image.cluster_id
        else INCONSISTENT_CLUSTER_ID
    )


def list_resources(call: Call, request: ListConfigResourcesRequest) -> Message:
    """List the topics and brokers that have settings; v0 asks for metrics resources only."""
    response = ListConfigResourcesResponse()
    if call.version == 0:
        return response
    kinds = set(request.resource_types)
    if kinds - {TOPIC, BROKER, LOGGER, METRICS, GROUP}:
        return ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
    for kind in sorted(kinds or {TOPIC, BROKER, LOGGER, GROUP}):
        names = [str(broker) for broker in call.image.brokers] if kind in (BROKER, LOGGER) else []
        names = list(call.image.topics) if kind == TOPIC else names
        names = call.cluster.configured_groups() if kind == GROUP else names
        response.config_resources += [
            response.ConfigResource(resource_name=n, resource_type=kind) for n in names
        ]
    return response
