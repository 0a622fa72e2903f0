"""Probes of producer ids and transactions, sent by hand: both generations of the protocol."""

from __future__ import annotations

from typing import Any

from parley.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
)
from parley.versions import Feature

from .probe import probe
from .records import read_on
from .scene import Scene, one_batch

TIMEOUT_MS = 10_000


async def identity(s: Scene, transaction: str, *, first: bool = True, **fields: Any) -> Any:
    """Return the answer of InitProducerId, once the coordinator is there; the first
    request says what is probed.
    """
    message = InitProducerIdRequest(
        transactional_id=transaction, transaction_timeout_ms=TIMEOUT_MS, **fields
    )
    send = s.ask if first else s.send
    answer = await s.settled(lambda: send(message), lambda found: found.error_code)
    assert answer.error_code == 0
    return answer


async def coordinator(s: Scene, transaction: str) -> None:
    if s.since("0.11"):
        await s.find_coordinator(transaction, key_type=1)
        await s.find_coordinator(s.group)


def offset_commit(s: Scene, transaction: str, who: Any, **member: Any) -> Any:
    parts = [
        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=11
        )
    ]
    topics = [TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=s.topic, partitions=parts)]
    return TxnOffsetCommitRequest(
        transactional_id=transaction, group_id=s.group, producer_id=who.producer_id,
        producer_epoch=who.producer_epoch, topics=topics, **member,
    )  # fmt: skip


def batch_of(who: Any, value: bytes) -> bytes:
    return one_batch(
        value,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        base_sequence=0,
        transactional=True,
    )


async def committed_by(s: Scene, at: int, value: bytes) -> None:
    """Readers of committed records see the record, and the group has its offset, once
    the transaction has ended.
    """
    assert [row["value"] for row in await s.get(at, isolation_level="read_committed")] == [value]

    async def offset() -> int | None:
        found = (await s.client.committed_offsets(s.group, [s.tp]))[s.tp]
        return None if found is None else found.offset

    await s.until("the committed offset", offset, lambda found: found == 11)


def code_of(answer: Any) -> int:
    """Return the first error code of TxnOffsetCommit's or AddPartitionsToTxn's answer."""
    for name, inner in (
        ("topics", "partitions"),
        ("results_by_topic_v3_and_below", "results_by_partition"),
    ):
        for topic in getattr(answer, name, None) or ():
            for part in getattr(topic, inner):
                return next(
                    getattr(part, f)
                    for f in ("partition_error_code", "error_code")
                    if hasattr(part, f)
                )
    return 0


@probe(Feature.EXACTLY_ONCE)
async def exactly_once(s: Scene) -> None:
    await first_generation(s)


async def first_generation(s: Scene, *, probed: bool = True) -> None:
    transaction = s.name("transaction")
    await coordinator(s, transaction)
    who = await identity(s, transaction, first=probed)
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=s.topic, partitions=[0])]
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction, v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.producer_epoch, v3_and_below_topics=topics,
    )  # fmt: skip
    answer = await s.settled(lambda: s.send(message, high=3), code_of)
    assert code_of(answer) == 0
    s.feature, probe_feature = (s.feature if probed else Feature.EXACTLY_ONCE), s.feature
    found = await s.produce_raw(batch_of(who, b"exactly"), transactional_id=transaction, high=11)
    s.feature = probe_feature
    assert found.error_code == 0
    offsets = AddOffsetsToTxnRequest(
        transactional_id=transaction,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        group_id=s.group,
    )
    assert (
        await s.settled(lambda: s.send(offsets), lambda found: found.error_code)
    ).error_code == 0
    commit = offset_commit(s, transaction, who)
    assert code_of(await s.settled(lambda: s.send(commit, high=4), code_of)) == 0
    end = EndTxnRequest(
        transactional_id=transaction,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        committed=True,
    )
    assert (await s.send(end, high=4)).error_code == 0
    await committed_by(s, found.base_offset, b"exactly")


async def the_first_generation(s: Scene) -> None:
    await first_generation(s, probed=False)


@probe(Feature.TRANSACTIONS_V2, older=the_first_generation, older_since="0.11")
async def transactions_v2(s: Scene) -> None:
    transaction = s.name("transaction")
    await coordinator(s, transaction)
    who = await identity(s, transaction)
    found = await s.produce_raw(  # no AddPartitionsToTxn: the leader adds the partition
        batch_of(who, b"second"), transactional_id=transaction, low=12, high=2**15 - 1
    )
    assert found.error_code == 0
    commit = offset_commit(s, transaction, who)
    assert code_of(await s.settled(lambda: s.send(commit), code_of)) == 0
    end = EndTxnRequest(
        transactional_id=transaction,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        committed=True,
    )
    answer = await s.send(end)
    assert (answer.error_code, answer.producer_epoch) == (0, who.producer_epoch + 1)
    await committed_by(s, found.base_offset, b"second")


@probe(Feature.TXN_GROUP_METADATA, older=the_first_generation, older_since="0.11")
async def txn_group_metadata(s: Scene) -> None:
    transaction = s.name("transaction")
    await coordinator(s, transaction)
    who = await identity(s, transaction)
    offsets = AddOffsetsToTxnRequest(
        transactional_id=transaction,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        group_id=s.group,
    )
    assert (
        await s.settled(lambda: s.send(offsets), lambda found: found.error_code)
    ).error_code == 0
    stale = offset_commit(s, transaction, who, generation_id=5, member_id="gone")
    answer = await s.settled(lambda: s.ask(stale, high=4), code_of)
    assert code_of(answer) in {22, 25}  # fenced: no such generation, no such member


async def an_id_without_a_bump(s: Scene) -> None:
    transaction = s.name("transaction")
    await coordinator(s, transaction)
    assert (await identity(s, transaction, first=False)).producer_id >= 0
    await read_on(s)


@probe(Feature.PRODUCER_EPOCH_BUMP, older=an_id_without_a_bump, older_since="0.11")
async def producer_epoch_bump(s: Scene) -> None:
    transaction = s.name("transaction")
    await coordinator(s, transaction)
    who = await identity(s, transaction)
    again = await identity(
        s, transaction, producer_id=who.producer_id, producer_epoch=who.producer_epoch
    )
    assert (again.producer_id, again.producer_epoch) == (who.producer_id, who.producer_epoch + 1)


@probe(Feature.DESCRIBE_PRODUCERS)
async def describe_producers(s: Scene) -> None:
    await s.put()
    topics = [DescribeProducersRequest.TopicRequest(name=s.topic, partition_indexes=[0])]
    answer = await s.ask(DescribeProducersRequest(topics=topics))
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0
    assert found.active_producers


@probe(Feature.DESCRIBE_TRANSACTIONS)
async def describe_transactions(s: Scene) -> None:
    transaction = s.name("transaction")
    if s.since("3.0"):
        await coordinator(s, transaction)
        await identity(s, transaction, first=False)
    answer = await s.ask(DescribeTransactionsRequest(transactional_ids=[transaction]))
    (found,) = answer.transaction_states
    assert (found.error_code, found.transaction_state) == (0, "Empty")
    answer = await s.send(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    assert transaction in [state.transactional_id for state in answer.transaction_states]
