"""DescribeTransactions (65), v0-0.

Behaviours:
- Each id is answered by its coordinator: NOT_COORDINATOR elsewhere, TRANSACTIONAL_ID_NOT_FOUND for
  one that nobody has used, INVALID_REQUEST for no name.
- The partitions are those of the open transaction; offsets of groups are partitions of
  `__consumer_offsets`.

Version notes:
- v0 (KIP-664) is the only one.

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_transaction_coordinator
from parley.devcluster.handlers.mirror import top
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.transaction import NO_TIME, State, Transaction
from parley.errors.codes import TRANSACTIONAL_ID_NOT_FOUND
from parley.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: DescribeTransactionsRequest) -> Answer:
    """Describe each transactional id."""
    response = DescribeTransactionsResponse()
    for name in request.transactional_ids:
        state = response.TransactionState(transactional_id=name)
        try:
            require_transaction_coordinator(call, name)
            held = call.cluster.transactions.get(name)
            if held is None:
                raise Refused(TRANSACTIONAL_ID_NOT_FOUND, f"nobody has used {name!r}")
            _describe(call, response, state, held)
        except Refused as error:
            state.error_code = error.code
        response.transaction_states.append(state)
    return response


def _describe(
    call: Call,
    response: DescribeTransactionsResponse,
    state: DescribeTransactionsResponse.TransactionState,
    held: Transaction,
) -> None:
    state.transaction_state = held.state.value
    state.transaction_timeout_ms = held.timeout_ms
    begun = held.state is not State.EMPTY or not call.profile.behaviour.forgets_start_time
    state.transaction_start_time_ms = held.started_ms if begun else NO_TIME
    state.producer_id, state.producer_epoch = held.identity
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(held.partitions):
        topics.setdefault(topic, []).append(index)
    state.topics = [
        response.TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()
    ]


API = Handler(ApiKey.DESCRIBE_TRANSACTIONS, VersionRange(0, 0), handle, top)
