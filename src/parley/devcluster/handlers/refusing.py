"""The APIs that the embedded cluster does not act on: what each of them answers, and why.

Those that refuse whatever is asked are a table here; those with a rule of their own stand in a
`refused_*` module, each with `REFUSALS` like this table.

Every version that a release advertises is answered with a well-formed response, made from the
request by `mirror`. The errors are those that a real broker gives to a request about things that do
not exist, or whose feature is switched off; where a real broker would do what is asked, an error
that clients do not repeat. `parley cluster apis` prints all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import Chain, each, top
from parley.errors import codes as c
from parley.messages import Message, Request
from parley.schema import ApiKey, load

K = ApiKey
Build = Callable[[Call, Any], Message]
Choose = Callable[[Call, Chain], int]
"""Picks a code for an entry of a request, from the chain of the request's parts that lead to it."""


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
    head(K.ALTER_PARTITION, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    head(K.UPDATE_FEATURES, c.INVALID_UPDATE_VERSION, "features are those of the release"),
    head(
        K.UNREGISTER_BROKER,
        c.CLUSTER_AUTHORIZATION_FAILED,
        "brokers come and go with LocalCluster.stop_broker",
    ),
    head(K.ALLOCATE_PRODUCER_IDS, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.INITIALIZE_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.READ_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.WRITE_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.DELETE_SHARE_GROUP_STATE, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
    entries(K.READ_SHARE_GROUP_STATE_SUMMARY, c.CLUSTER_AUTHORIZATION_FAILED, INTER_BROKER),
)
"""Every API that is refused in one way, whatever is asked."""


def handler_of(refusal: Refusal) -> Handler[Request[Message]]:
    """Return the handler that answers by a row of the table."""
    return Handler(refusal.key, load(refusal.key).request.valid_versions, refusal.answer, top)
