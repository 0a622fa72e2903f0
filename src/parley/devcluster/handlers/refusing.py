"""The APIs that the embedded cluster does not act on: one table says what each of them answers, and
why.

Every version that a release advertises is answered with a well-formed response, made from the
request by `mirror`. The errors are those that a real broker gives to a request about things that do
not exist, or whose feature is switched off; where a real broker would do what is asked, an error
that clients do not repeat. `parley cluster apis` prints this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from parley.devcluster.handlers import refusal_codes as choose
from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import Chain, each, top
from parley.devcluster.handlers.refusal_codes import Choose
from parley.errors import codes as c
from parley.messages import Message, Request
from parley.schema import ApiKey, load

K = ApiKey
Build = Callable[[Call, Any], Message]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What one API answers: `codes` are all that it may say (0: nothing to report), `why` is for
    people.

    `choose` picks one of them; without it the first is said. `at_each` puts it at each thing asked
    for instead of the head of the response. `build` makes the response instead.
    """

    key: ApiKey
    codes: tuple[int, ...]
    why: str
    choose: Choose | None = None
    at_each: bool = False
    build: Build | None = None

    def answer(self, call: Call, request: Request[Message]) -> Answer:
        """Return the response to a request."""
        if self.build is not None:
            return self.build(call, request)
        if self.at_each:
            return each(request, call.version, partial(self._code, call), self.why)
        code = self._code(call, (request,))
        return top(request, call.version, code, self.why if code else None)

    def _code(self, call: Call, chain: Chain) -> int:
        return self.codes[0] if self.choose is None else self.choose(call, chain)


def head(key: ApiKey, code: int, why: str) -> Refusal:
    """Return a refusal with one code for the whole answer."""
    return Refusal(key, (code,), why)


def entries(key: ApiKey, code: int, why: str) -> Refusal:
    """Return a refusal with one code at each thing asked for."""
    return Refusal(key, (code,), why, at_each=True)


INTER_BROKER = "brokers say this to each other; a client is no broker"
NO_AUTHORIZER = "No Authorizer is configured."
NO_TOKENS = "delegation tokens need a login that this listener does not have"
NO_NEW_GROUPS = "the group protocols of this kind are switched off"
NO_QUORUM = "the controllers are inside the cluster; their quorum cannot be changed"
NO_QUOTAS = "there are no quotas here"
NO_CREDENTIALS = choose.NO_CREDENTIALS

TABLE: tuple[Refusal, ...] = (
    head(K.LEADER_AND_ISR, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    head(K.STOP_REPLICA, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    head(K.UPDATE_METADATA, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    head(K.CONTROLLED_SHUTDOWN, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.WRITE_TXN_MARKERS, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    head(K.DESCRIBE_ACLS, c.SECURITY_DISABLED, NO_AUTHORIZER),
    entries(K.CREATE_ACLS, c.SECURITY_DISABLED, NO_AUTHORIZER),
    entries(K.DELETE_ACLS, c.SECURITY_DISABLED, NO_AUTHORIZER),
    entries(
        K.ALTER_REPLICA_LOG_DIRS,
        c.LOG_DIR_NOT_FOUND,
        "each broker has one directory, there is none to move to",
    ),
    Refusal(K.CREATE_DELEGATION_TOKEN, choose.TOKEN_CODES, NO_TOKENS, build=choose.token),
    Refusal(K.RENEW_DELEGATION_TOKEN, choose.TOKEN_CODES, NO_TOKENS, build=choose.token),
    Refusal(K.EXPIRE_DELEGATION_TOKEN, choose.TOKEN_CODES, NO_TOKENS, build=choose.token),
    head(K.DESCRIBE_DELEGATION_TOKEN, c.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TOKENS),
    Refusal(
        K.ELECT_LEADERS,
        (c.ELECTION_NOT_NEEDED, c.UNKNOWN_TOPIC_OR_PARTITION),
        "leaders are elected by themselves; LocalCluster.move_leader moves them",
        choose.election,
        at_each=True,
    ),
    Refusal(
        K.ALTER_PARTITION_REASSIGNMENTS,
        (c.INVALID_REPLICA_ASSIGNMENT, c.UNKNOWN_TOPIC_OR_PARTITION, c.NO_REASSIGNMENT_IN_PROGRESS),
        "replicas stay where they are; LocalCluster.move_leader moves them",
        choose.reassignment,
        at_each=True,
    ),
    head(K.LIST_PARTITION_REASSIGNMENTS, c.NONE, "no reassignment is ever in progress"),
    Refusal(
        K.DESCRIBE_CLIENT_QUOTAS,
        (c.NONE, c.INVALID_REQUEST),
        NO_QUOTAS,
        build=choose.describe_quotas,
    ),
    entries(K.ALTER_CLIENT_QUOTAS, c.INVALID_REQUEST, NO_QUOTAS),
    Refusal(
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        (c.RESOURCE_NOT_FOUND, c.DUPLICATE_RESOURCE),
        NO_CREDENTIALS,
        build=choose.describe_credentials,
    ),
    Refusal(
        K.ALTER_USER_SCRAM_CREDENTIALS,
        choose.CREDENTIAL_CODES,
        NO_CREDENTIALS,
        build=choose.alter_credentials,
    ),
    head(K.ALTER_PARTITION, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    head(K.UPDATE_FEATURES, c.INVALID_UPDATE_VERSION, "features are those of the release"),
    head(
        K.UNREGISTER_BROKER,
        c.CLUSTER_AUTHORIZATION_FAILED,
        "brokers come and go with LocalCluster.stop_broker",
    ),
    head(K.ALLOCATE_PRODUCER_IDS, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    Refusal(
        K.LIST_CONFIG_RESOURCES,
        (c.NONE, c.UNSUPPORTED_VERSION),
        "topics, brokers and groups with settings are listed; there are no resources of "
        "other kinds",
        build=choose.list_resources,
    ),
    Refusal(K.ADD_RAFT_VOTER, choose.VOTER_CODES, NO_QUORUM, choose.voter),
    Refusal(K.REMOVE_RAFT_VOTER, choose.VOTER_CODES, NO_QUORUM, choose.voter),
    entries(K.INITIALIZE_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.READ_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.WRITE_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.DELETE_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.READ_SHARE_GROUP_STATE_SUMMARY, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    Refusal(
        K.STREAMS_GROUP_HEARTBEAT, choose.NEW_GROUP_CODES, NO_NEW_GROUPS, choose.streams_heartbeat
    ),
    entries(K.STREAMS_GROUP_DESCRIBE, c.GROUP_ID_NOT_FOUND, NO_NEW_GROUPS),
)
"""Every API that is advertised by some release and has no handler of its own."""

REFUSALS: dict[int, Refusal] = {int(row.key): row for row in TABLE}


def handler_of(refusal: Refusal) -> Handler[Request[Message]]:
    """Return the handler that answers by a row of the table."""
    return Handler(refusal.key, load(refusal.key).request.valid_versions, refusal.answer, top)
