"""ListTransactions (66), v0-2.

Behaviours:
- Each broker lists the transactional ids that it coordinates, those that match every filter.
- While the broker loads ids, any of them: COORDINATOR_LOAD_IN_PROGRESS, and none are listed.
- States that do not exist are named in the answer and match nothing.

Version notes:
- v1+ those that have lasted longer than `duration_filter` (KIP-994), v2+ those whose id matches a
  pattern (KIP-1152): INVALID_REGULAR_EXPRESSION for one that cannot be read.

Not implemented: what `patterns.syntax` says, and patterns of more than 2,000 steps, are refused as
unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.devcluster.handlers.base import Answer, Call, Handler, Slices
from parley.devcluster.handlers.coordination import coordinates
from parley.devcluster.handlers.mirror import top
from parley.devcluster.patterns import Pattern, PatternError
from parley.devcluster.state.groups.offsets import TRANSACTION
from parley.devcluster.state.transactions.transaction import PREPARED, State, Transaction
from parley.errors.codes import COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION
from parley.messages import ListTransactionsRequest, ListTransactionsResponse
from parley.schema import ApiKey, VersionRange

STATES = {state.value for state in State}


def handle(call: Call, request: ListTransactionsRequest) -> Answer:
    """List the transactional ids of this coordinator."""
    loading = call.cluster.transactions.loading
    loading.take_finished(call.now_ms)
    if loading.at(call.broker.id):
        return top(request, call.version, COORDINATOR_LOAD_IN_PROGRESS)
    if not request.transactional_id_pattern:
        return _listed(request, _asked_for(call, request))
    try:
        pattern = Pattern(request.transactional_id_pattern)
    except PatternError:
        return top(request, call.version, INVALID_REGULAR_EXPRESSION)
    return Slices(_matching(call, request, pattern))


def _matching(
    call: Call, request: ListTransactionsRequest, pattern: Pattern
) -> Iterator[ListTransactionsResponse | None]:
    found = []
    for held in _asked_for(call, request):
        if (yield from pattern.slices(held.transactional_id)):
            found.append(held)
    yield _listed(request, found)


def _listed(request: ListTransactionsRequest, found: list[Transaction]) -> ListTransactionsResponse:
    response = ListTransactionsResponse()
    response.unknown_state_filters = [name for name in request.state_filters if name not in STATES]
    response.transaction_states = [
        response.TransactionState(
            transactional_id=held.transactional_id,
            producer_id=held.producer_id,
            transaction_state=held.state.value,
        )
        for held in found
    ]
    return response


def _asked_for(call: Call, request: ListTransactionsRequest) -> list[Transaction]:
    """Return this coordinator's transactions that every filter but the pattern lets through."""
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    return [
        held
        for held in call.cluster.transactions
        if (not states or held.state.value in states)
        and (not producers or held.producer_id in producers)
        and (request.duration_filter < 0 or _has_lasted(held, request.duration_filter, call.now_ms))
        and coordinates(call, held.transactional_id, TRANSACTION)
    ]


def _has_lasted(held: Transaction, duration_ms: int, now_ms: int) -> bool:
    is_open = held.state is State.ONGOING or held.state in PREPARED
    return is_open and now_ms - held.started_ms > duration_ms


API = Handler(ApiKey.LIST_TRANSACTIONS, VersionRange(0, 2), handle, top)
