"""ListTransactions (66), v0-2.

Behaviours:
- Each broker lists the transactional ids that it coordinates, those that match every filter.
- States that do not exist are named in the answer and match nothing.

Version notes:
- v1+ those that have lasted longer than `duration_filter` (KIP-994), v2+ those whose id matches a pattern
  (KIP-1152): INVALID_REGULAR_EXPRESSION for one that cannot be read.

Not implemented: patterns with more than three repetitions, or with a repeated group, are refused as unreadable:
real brokers match in linear time, Python does not.
"""

from __future__ import annotations

import re

from parley.devcluster.handlers.base import Answer, Call, Handler, Message
from parley.devcluster.handlers.coordination import find_coordinator
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.codes import INVALID_REGULAR_EXPRESSION, Refused
from parley.devcluster.state.groups import TRANSACTION
from parley.devcluster.state.transactions import PREPARED, State, Transaction
from parley.messages import ListTransactionsResponse
from parley.schema import ApiKey, VersionRange

STATES = {state.value for state in State}
REPETITION = re.compile(r"[*+{]")
REPEATED_GROUP = re.compile(r"\)[*+{]")
MOST_REPETITIONS = 3


def handle(call: Call, request: Message) -> Answer:
    """List the transactional ids of this coordinator."""
    response = ListTransactionsResponse()
    response.unknown_state_filters = [name for name in request.state_filters if name not in STATES]
    try:
        pattern = _pattern(request.transactional_id_pattern or "")
    except Refused as error:
        return top(request, call.version, error.code)
    for held in call.cluster.transactions:
        if _matches(call, request, held, pattern) and _is_mine(call, held.transactional_id):
            response.transaction_states.append(
                response.TransactionState(
                    transactional_id=held.transactional_id,
                    producer_id=held.producer_id,
                    transaction_state=held.state.value,
                )
            )
    return response


def _pattern(text: str) -> re.Pattern[str]:
    if len(REPETITION.findall(text)) > MOST_REPETITIONS or REPEATED_GROUP.search(text):
        raise Refused(INVALID_REGULAR_EXPRESSION, "the pattern could take forever")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refused(INVALID_REGULAR_EXPRESSION, str(error)) from error


def _is_mine(call: Call, name: str) -> bool:
    try:
        return find_coordinator(call, name, TRANSACTION).id == call.broker.id
    except Refused:
        return False


def _matches(call: Call, request: Message, held: Transaction, pattern: re.Pattern[str]) -> bool:
    if request.state_filters and held.state.value not in request.state_filters:
        return False
    if request.producer_id_filters and held.producer_id not in request.producer_id_filters:
        return False
    is_open = held.state is State.ONGOING or held.state in PREPARED
    if request.duration_filter >= 0 and not (is_open and call.now_ms - held.started_ms > request.duration_filter):
        return False
    return not request.transactional_id_pattern or pattern.fullmatch(held.transactional_id) is not None


API = Handler(ApiKey.LIST_TRANSACTIONS, VersionRange(0, 2), handle, top)
