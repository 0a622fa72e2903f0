"""The pieces of a transaction: versions per generation, sequences used
again, doubt, topics, options.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from parley.client import PreparedTransaction, ProduceOptions
from parley.client.produce.answers import Action, judge, leaves_in_doubt
from parley.client.produce.rebatch import rebatch
from parley.client.produce.sequences import PartitionSequences
from parley.client.produce.state import InTransaction, OutBatch, PartitionLog, ProduceCall
from parley.client.produce.wire import ProduceAnswer, allowed_versions, produce_request
from parley.client.results import BatchAck, PartitionAck
from parley.client.transactions.handover import FencedProducer
from parley.client.transactions.options import TransactionOptions
from parley.client.transactions.producer import TransactionProducer
from parley.client.transactions.requests import Writer, generation_of
from parley.client.transactions.state import Identity
from parley.client.transactions.topics import WrittenTopics
from parley.errors import (
    ConfigError,
    DataLossError,
    KafkaError,
    LocalProtocolError,
    NetworkError,
    ProducerFencedError,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
    broker_error,
)
from parley.records import Record, WriteOptions, columns_from_records, encode_batches, split
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import BrokerVersions, VersionRange

TP = TopicPartition("t", 0)
IDS = {"t": b"0123456789abcdef"}
FIRST, SECOND = InTransaction("id", 1), InTransaction("id", 2)


def batch(
    sequence: int = 0, records: int = 5, transaction: InTransaction | None = FIRST, codec: int = 0
) -> OutBatch:
    rows = [Record(-1, 0, 0, None, str(number).encode(), ()) for number in range(records)]
    options = WriteOptions(
        producer_id=7,
        producer_epoch=2,
        base_sequence=sequence,
        transactional=transaction is not None,
    )
    (made,) = encode_batches(columns_from_records(rows, with_offsets=False), None, options)
    return OutBatch(
        tp=TP,
        data=made.data,
        records=records,
        magic=2,
        codec=codec,
        call=ProduceCall(),
        acks=-1,
        deadline_ms=1000,
        timeout_ms=100,
        producer_id=7,
        epoch=2,
        base_sequence=sequence,
        transaction=transaction,
        needs_idempotence=True,
    )


def log() -> PartitionLog:
    return PartitionLog(TP, numbers=PartitionSequences(7, 2, 0))


def flying(state: PartitionLog, records: int = 5) -> OutBatch:
    assert state.numbers is not None
    made = batch(state.numbers.reserve(records), records)
    made.call.opened()
    state.add(made)
    state.sent(made)
    return made


@pytest.mark.parametrize(
    ("transaction", "codec", "ids", "versions"),
    [
        (None, 0, IDS, (3, 32767)),
        (FIRST, 0, IDS, (3, 11)),
        (FIRST, 4, IDS, (7, 11)),
        (SECOND, 0, IDS, (12, 32767)),
        (SECOND, 4, {}, (12, 12)),
    ],
)
def test_each_generation_keeps_to_its_versions_of_produce(
    transaction: InTransaction | None, codec: int, ids: dict[str, bytes], versions: tuple[int, int]
) -> None:
    made = batch(transaction=transaction, codec=codec)
    assert allowed_versions([made], ids) == VersionRange(*versions)
    assert produce_request([made], ids, 100).transactional_id == (
        None if transaction is None else "id"
    )


def test_each_generation_keeps_to_its_versions_of_the_other_requests() -> None:
    first, second = (Writer("id", Identity(1, 0), generation) for generation in (1, 2))
    for api, high in (
        (ApiKey.END_TXN, 4),
        (ApiKey.TXN_OFFSET_COMMIT, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3),
    ):
        assert first.versions(api).max == high
        assert second.versions(api).max > high


@pytest.mark.parametrize(
    ("release", "finalized", "most", "generation"),
    [
        ("0.11.0.3", {}, 2, 1),
        # not the versions: what is finalized does not help
        ("3.9.1", {"transaction.version": 2}, 2, 1),
        ("4.3.0", {}, 2, 1),
        ("4.3.0", {"transaction.version": 1}, 2, 1),
        ("4.3.0", {"transaction.version": 2}, 2, 2),
        ("4.3.0", {"transaction.version": 2}, 1, 1),
    ],
)
def test_the_second_generation_needs_versions_and_the_finalized_feature(
    release: str, finalized: dict[str, int], most: int, generation: int
) -> None:
    ranges = {
        key: (low, high) for key, (low, high) in BrokerVersions.from_release(release).ranges.items()
    }
    versions = BrokerVersions(ranges, finalized_features=finalized, finalized_features_epoch=1)
    assert generation_of([versions], most) == generation
    assert generation_of([versions, BrokerVersions.from_release("3.9.1")], most) == 1


def test_sequences_that_were_never_written_are_used_again_after_an_abort() -> None:
    state = log()
    first, refused = flying(state), flying(state)
    state.acknowledged(first)
    state.dropped(refused)
    assert not state.in_doubt
    state.rewind()
    assert state.numbers is not None
    assert state.numbers.next == 5
    again = flying(state)
    assert again.base_sequence == 5


def test_sequences_after_a_retry_that_is_acknowledged_last_are_not_used_again() -> None:
    state = log()
    first = flying(state)
    state.acknowledged(first)
    repeated, successor = flying(state), flying(state)
    state.failed(repeated, 0, 0, 1)
    state.acknowledged(successor)
    state.put_back()
    state.sent(repeated)
    state.acknowledged(repeated)
    state.rewind()
    assert state.numbers is not None
    assert state.numbers.next == 15


def test_an_answer_that_comes_after_its_call_was_given_up_still_counts() -> None:
    state = log()
    late = flying(state)
    late.call.error = KafkaError("given up")
    state.acknowledged(late)
    state.rewind()
    assert state.numbers is not None
    assert state.numbers.next == 5


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [
        (RequestTimedOut("late", stage="request"), True),
        (NetworkError("lost", stage="request"), True),
        (NetworkError("lost"), True),
        (RemoteProtocolError("torn"), True),
        (broker_error(7), True),
        (broker_error(20), True),
        (broker_error(-1), True),
        (NetworkError("refused", stage="connect"), False),
        (NetworkError("no such name", stage="name lookup"), False),
        (UnsupportedVersionError("too old"), False),
        (broker_error(10), False),
        (broker_error(45), False),
        (broker_error(6), True),
        (broker_error(19), False),
    ],
)
def test_a_batch_is_in_doubt_where_nobody_said_that_it_was_not_written(
    error: KafkaError, doubtful: bool
) -> None:
    state = log()
    given_up = flying(state)
    assert leaves_in_doubt(error, given_up) is doubtful
    given_up.in_doubt = doubtful
    given_up.call.error = error
    state.failed(given_up, 0, 0, 1)
    assert state.in_doubt is doubtful
    state.renumber()
    assert not state.in_doubt


def test_a_leader_that_waited_for_nobody_has_not_written_where_it_says_that_it_leads_no_more() -> (
    None
):
    alone = flying(log())
    alone.acks = 1
    assert not leaves_in_doubt(broker_error(6), alone)


@pytest.mark.parametrize(("code", "log_start_offset"), [(45, -1), (59, 10)])
def test_a_transactions_records_are_never_numbered_again_in_its_middle(
    code: int, log_start_offset: int
) -> None:
    state = log()
    answer = ProduceAnswer(TP, code, -1, -1, log_start_offset, None, None)
    assert judge(state, flying(state), answer, 8, hinted=False).action is Action.FAIL
    plain = log()
    outside = flying(plain)
    outside.transaction = None
    assert judge(plain, outside, answer, 8, hinted=False).action is Action.RESTAMP


def test_halves_of_a_transactional_batch_stay_transactional() -> None:
    whole = batch(sequence=10, records=8)
    whole.must_split = True
    (pieces,) = rebatch([whole], None)
    assert [piece.base_sequence for piece in pieces] == [10, 14]
    for piece in pieces:
        (found,) = split(piece.data)
        assert found.is_transactional
        assert (found.producer_id, found.producer_epoch, piece.transaction) == (7, 2, FIRST)


def test_a_transactional_batch_has_no_older_format() -> None:
    made = batch()
    made.convert_to = 1
    with pytest.raises(UnsupportedVersionError) as caught:
        rebatch([made], None)
    assert caught.value.feature == "exactly-once"


def acks(*spans: tuple[int, int]) -> list[PartitionAck]:
    return [PartitionAck(TP, tuple(BatchAck(start, count) for start, count in spans))]


def test_offsets_that_come_twice_are_those_of_another_log() -> None:
    for spans in ([(0, 10)], [(9, 1)], [(5, 2)], [(2, 30)], [(20, 3)]):
        written = WrittenTopics()
        written.acknowledged(acks((0, 10), (10, 10)))
        written.acknowledged(acks((20, 5)))
        written.acknowledged(acks((-1, 5)))
        with pytest.raises(DataLossError, match="deleted"):
            written.acknowledged(acks(*spans))


def test_offsets_of_calls_that_ended_in_any_order_are_well() -> None:
    written = WrittenTopics()
    for span in ((30, 5), (0, 10), (10, 5), (50, 1), (15, 15), (35, 15)):
        written.acknowledged(acks(span))


def test_ids_report_a_topic_that_was_created_again_or_deleted() -> None:
    written = WrittenTopics()
    written.begun("t", IDS["t"])
    written.begun("t", b"x" * 16)  # the first one counts
    written.begun("old", bytes(16))
    assert written.known == ["t"]
    written.check(IDS)
    written.check({"t": bytes(16)})  # a broker that reports none says nothing
    for ids in ({"t": b"x" * 16}, {}):
        with pytest.raises(DataLossError) as caught:
            written.check(ids)
        assert caught.value.topic == "t"
    written.clear()
    written.check({})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"transactional_id": ""}, "a text is expected"),
        ({"transactional_id": None}, "a text is expected"),
        ({"transaction_timeout_ms": 0}, "1 to 2147483647"),
        ({"transaction_timeout_ms": True}, "1 to 2147483647"),
        ({"max_generation": 3}, "1 or 2"),
        ({"produce": ProduceOptions(acks="1")}, 'needs acks="all"'),
        ({"produce": ProduceOptions(enable_idempotence=False)}, "needs idempotence"),
    ],
)
def test_options_that_no_transaction_can_have_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TransactionOptions(**{"transactional_id": "id", **given})


def test_what_crosses_processes_can_be_pickled_and_the_producer_says_why_not() -> None:
    for value in (PreparedTransaction("id", 7, 2), FencedProducer("id", 7, 3)):
        assert pickle.loads(pickle.dumps(value)) == value
    error = ProducerFencedError(
        "fenced", transactional_id="id", producer_id=7, producer_epoch=2, code=47
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.transactional_id) == ("fenced", 47, "id")
    producer = TransactionProducer(None, None)  # type: ignore[arg-type]  # it never gets as far as using them
    with pytest.raises(LocalProtocolError, match="prepare_transaction returns what can"):
        pickle.dumps(producer)
