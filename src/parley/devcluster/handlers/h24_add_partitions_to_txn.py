"""AddPartitionsToTxn (24), v0-5.

Behaviours:
- Answered by the transactional id's coordinator (others NOT_COORDINATOR), in the journal before it
  is answered.
- All or nothing: where a partition does not exist it has UNKNOWN_TOPIC_OR_PARTITION, the others
  have OPERATION_NOT_ATTEMPTED.

Version notes:
- v2+ PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588), v4+ several transactions at once,
  and `verify_only`, as brokers ask each other (KIP-890); any client may ask so where nobody
  authorizes.
- v5+ TRANSACTION_ABORTABLE (KIP-890); 3.8 and later say it in v4 too.

Not implemented: -
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import require_transaction_coordinator
from parley.devcluster.handlers.transacting import code_for
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.devcluster.state.transactions.transaction import Partition
from parley.errors.codes import NONE, OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION
from parley.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from parley.schema import ApiKey, VersionRange

FIRST_FENCED_VERSION = 2
FIRST_BATCH_VERSION = 4

Codes = dict[Partition, int]


def handle(call: Call, request: AddPartitionsToTxnRequest) -> Answer:
    """Make the partitions part of the transactions."""
    response = AddPartitionsToTxnResponse()
    if call.version < FIRST_BATCH_VERSION:
        only = _first_form(request)
        response.results_by_topic_v3_and_below = _results(response, only.topics, _codes(call, only))
        return response
    for asked in request.transactions:
        result = response.AddPartitionsToTxnResult(transactional_id=asked.transactional_id)
        result.topic_results = _results(response, asked.topics, _codes(call, asked))
        response.results_by_transaction.append(result)
    return response


def _first_form(
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    """Return the one transaction of a request before v4."""
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _codes(call: Call, asked: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction) -> Codes:
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    unknown = {at for at in partitions if call.image.partition(*at) is None}
    if call.profile.behaviour.adds_unknown_partitions:
        unknown = {at for at in unknown if at[0] not in call.image.topics}
    if unknown:
        return {
            at: UNKNOWN_TOPIC_OR_PARTITION if at in unknown else OPERATION_NOT_ATTEMPTED
            for at in partitions
        }
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
    transactions, name = call.cluster.transactions, asked.transactional_id
    codes = dict.fromkeys(partitions, NONE)
    try:
        require_transaction_coordinator(call, name)
        if asked.verify_only:
            code = call.profile.behaviour.unverified_code
            return codes | dict.fromkeys(transactions.missing(name, producer, partitions), code)
        second = call.version >= FIRST_BATCH_VERSION
        transactions.add(name, producer, partitions, now_ms=call.now_ms, second_generation=second)
    except (Refused, OSError) as error:
        return dict.fromkeys(partitions, code_for(error, call.version, FIRST_FENCED_VERSION))
    return codes


def _results(
    response: AddPartitionsToTxnResponse,
    topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic],
    codes: Codes,
) -> list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    return [
        response.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                response.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def refuse(
    request: AddPartitionsToTxnRequest, version: int, code: int
) -> AddPartitionsToTxnResponse:
    """Answer `code` for each partition, from v4 on at the head."""
    response = AddPartitionsToTxnResponse()
    if version >= FIRST_BATCH_VERSION:
        response.error_code = code
        return response
    topics = request.v3_and_below_topics
    codes = {(topic.name, index): code for topic in topics for index in topic.partitions}
    response.results_by_topic_v3_and_below = _results(response, topics, codes)
    return response


API = Handler(ApiKey.ADD_PARTITIONS_TO_TXN, VersionRange(0, 5), handle, refuse)
