"""SCRAM credentials: users are given to the cluster at its start, not by clients."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.refusing import Refusal
from parley.errors.codes import (
    DUPLICATE_RESOURCE,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)
from parley.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponse,
)
from parley.schema import ApiKey

if TYPE_CHECKING:
    from parley.messages import DescribeUserScramCredentialsRequest, Message

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

WHY = "users are given to the cluster at its start, not by clients"
SCRAM_MECHANISMS = (1, 2)  # SCRAM-SHA-256 and SCRAM-SHA-512
SCRAM_ITERATIONS = range(4096, 16384 + 1)


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
    return INVALID_REQUEST, WHY


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


REFUSALS = (
    Refusal(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        (RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE),
        WHY,
        build=describe_credentials,
    ),
    Refusal(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        (
            INVALID_REQUEST,
            RESOURCE_NOT_FOUND,
            DUPLICATE_RESOURCE,
            UNACCEPTABLE_CREDENTIAL,
            UNSUPPORTED_SASL_MECHANISM,
        ),
        WHY,
        build=alter_credentials,
    ),
)
