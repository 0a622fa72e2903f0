"""Which call and which request may follow which: the transaction's state
machine, by table and by rng.
"""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from parley.client.transactions.decisions import Severity, judge, judge_code
from parley.client.transactions.state import Identity, State, Step, TransactionState
from parley.errors import (
    KafkaError,
    LocalProtocolError,
    NetworkError,
    ProducerFencedError,
    RemoteProtocolError,
    RequestTimedOut,
    TransactionAbortableError,
    TransactionFatalError,
    UnsupportedVersionError,
    broker_error,
)
from parley.schema import ApiKey
from parley.types import TopicPartition

TP = TopicPartition("t", 0)
ME = Identity(7, 3)


def ready(*, can_renew: bool = True) -> TransactionState:
    txn = TransactionState("id")
    assert txn.next_step is Step.INIT_PRODUCER_ID
    txn.initialized(ME, can_renew=can_renew)
    return txn


def written(*, can_renew: bool = True, generation: int = 1) -> TransactionState:
    txn = ready(can_renew=can_renew)
    txn.begin(generation)
    txn.adding()
    txn.partitions.add(TP)
    return txn


def ends(txn: TransactionState, identity: Identity | None = None) -> None:
    assert txn.next_step is Step.END_TXN
    txn.sending(Step.END_TXN)
    txn.end_answered(identity)


_TABLE = """
    InitProducerId     14 retry     15 retry     16 retry      51 retry
    InitProducerId     47 fatal     90 fatal     53 fatal      31 fatal     50 fatal
    AddPartitionsToTxn 14 retry     16 retry     51 retry      3 retry
    AddPartitionsToTxn 29 abortable 55 abortable 120 abortable
    AddPartitionsToTxn 49 renew     59 renew
    AddPartitionsToTxn 47 fatal     90 fatal     53 fatal      48 fatal
    AddOffsetsToTxn    15 retry     51 retry     30 abortable  120 abortable
    AddOffsetsToTxn    49 renew     90 fatal     53 fatal      48 fatal
    TxnOffsetCommit    14 retry     16 retry
    TxnOffsetCommit    30 abortable 22 abortable 25 abortable  82 abortable
    TxnOffsetCommit    47 fatal     43 fatal
    EndTxn             14 retry     16 retry     51 retry      120 abortable
    EndTxn             49 renew     59 renew
    EndTxn             47 fatal     90 fatal     48 fatal      53 fatal     -1 fatal
    Produce            10 abortable 29 abortable 7 abortable   120 abortable -1 abortable
    Produce            45 renew     47 renew     59 renew      48 renew
    Produce            90 fatal     31 fatal     53 fatal
"""


def _rows() -> list[tuple[ApiKey, int, Severity]]:
    keys = {"".join(word.capitalize() for word in key.name.split("_")): key for key in ApiKey}
    found = []
    for line in _TABLE.split("\n"):
        name, *words = line.split() or [""]
        found += [
            (keys[name], int(code), Severity(severity))
            for code, severity in zip(words[::2], words[1::2], strict=True)
        ]
    return found


@pytest.mark.parametrize(("api", "code", "severity"), _rows())
def test_each_error_of_each_request_does_what_java_makes_of_it(
    api: ApiKey, code: int, severity: Severity
) -> None:
    error = broker_error(code, api=api.name)
    assert judge_code(api, code, retriable=error.retriable) is severity
    if severity is Severity.RETRY and api not in (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
        severity = Severity.ABORTABLE  # what was retried to the end of the caller's time
    assert judge(ApiKey.PRODUCE, error) is severity, (
        "the error knows its request better than the caller"
    )


def test_an_end_without_an_answer_is_asked_again_and_everything_else_is_aborted() -> None:
    for error in (RequestTimedOut("late", stage="request"), NetworkError("gone", stage="connect")):
        assert judge(ApiKey.END_TXN, error) is Severity.RETRY
        assert judge(ApiKey.INIT_PRODUCER_ID, error) is Severity.RETRY
        for api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.PRODUCE):
            assert judge(api, error) is Severity.ABORTABLE
    assert judge(ApiKey.END_TXN, UnsupportedVersionError("no")) is Severity.FATAL
    assert judge(ApiKey.TXN_OFFSET_COMMIT, UnsupportedVersionError("no")) is Severity.ABORTABLE
    assert judge(ApiKey.PRODUCE, RemoteProtocolError("torn")) is Severity.ABORTABLE
    assert judge(ApiKey.PRODUCE, KafkaError("given up")) is Severity.ABORTABLE


def test_commit_and_abort_in_both_generations() -> None:
    for generation, next_identity in ((1, None), (2, Identity(7, 4))):
        for committed in (True, False):
            txn = written(generation=generation)
            txn.commit() if committed else txn.abort()
            assert txn.committed is committed
            ends(txn, next_identity)
            assert txn.next_step is None
            txn.finish()
            assert (txn.state, txn.identity) == (State.READY, next_identity or ME)


def test_a_transaction_that_nothing_was_added_to_ends_without_a_request() -> None:
    txn = ready()
    for end in (txn.commit, txn.abort):
        txn.begin()
        end()
        assert txn.next_step is None
        txn.finish()
        assert txn.state is State.READY


def test_calls_out_of_turn_say_what_to_do_first() -> None:
    txn = TransactionState("id")
    for call, remedy in (
        (txn.begin, r"start\(\)"),
        (txn.commit, r"start\(\)"),
        (txn.abort, r"start\(\)"),
        (txn.prepare, r"start\(\)"),
    ):
        with pytest.raises(LocalProtocolError, match=remedy):
            call()
    txn = ready()
    with pytest.raises(LocalProtocolError, match="begin_transaction first"):
        txn.commit()
    txn.begin()
    with pytest.raises(LocalProtocolError, match="commit or abort it first"):
        txn.begin()
    txn.prepare()
    for call in (txn.commit, txn.abort, txn.begin, txn.prepare):
        with pytest.raises(LocalProtocolError, match="handed over"):
            call()


def test_after_an_abortable_error_only_an_abort_goes_on() -> None:
    txn = written()
    cause = broker_error(29, api="ADD_PARTITIONS_TO_TXN")
    txn.failed(Severity.ABORTABLE, cause)
    for call in (txn.commit, txn.begin, txn.prepare):
        with pytest.raises(TransactionAbortableError, match="call abort_transaction") as caught:
            call()
        assert caught.value.__cause__ is cause
        assert (caught.value.code, caught.value.producer_id, caught.value.producer_epoch) == (
            29,
            7,
            3,
        )
    txn.abort()
    ends(txn)
    txn.finish()
    txn.begin()
    assert txn.error is None


def test_a_commit_without_an_answer_can_only_be_repeated() -> None:
    txn = written()
    txn.commit()
    txn.sending(Step.END_TXN)
    txn.failed(Severity.RETRY, RequestTimedOut("late", stage="request"))
    assert txn.state is State.COMMITTING
    assert not txn.is_open, "nothing may abort it on the way out"
    with pytest.raises(LocalProtocolError, match="call commit_transaction again"):
        txn.abort()
    txn.commit()
    assert txn.committed
    ends(txn)
    txn.finish()


def test_a_commit_that_was_not_sent_yet_may_still_be_aborted() -> None:
    txn = written()
    txn.commit()
    txn.failed(Severity.ABORTABLE, broker_error(10, api="PRODUCE"))
    with pytest.raises(TransactionAbortableError):
        txn.commit()
    txn.abort()
    assert not txn.committed


def test_an_epoch_in_doubt_is_renewed_after_the_abort_and_not_instead_of_it() -> None:
    txn = written()
    txn.doubt()
    txn.abort()
    ends(txn)
    assert txn.next_step is Step.INIT_PRODUCER_ID
    txn.initialized(Identity(7, 4), can_renew=True)
    assert txn.next_step is None
    txn.finish()
    assert (txn.state, txn.identity) == (State.READY, Identity(7, 4))


def test_an_epoch_in_doubt_before_2_5_is_the_producers_end_after_the_abort() -> None:
    txn = written(can_renew=False)
    txn.doubt()
    txn.abort()
    ends(txn)
    with pytest.raises(TransactionFatalError, match="make a new one of the same transactional id"):
        txn.finish()
    assert txn.state is State.FATAL
    with pytest.raises(TransactionFatalError):
        txn.begin()


def test_the_second_generations_end_renews_the_epoch_by_itself() -> None:
    txn = written(generation=2)
    txn.doubt()
    txn.abort()
    ends(txn, Identity(7, 4))
    assert txn.next_step is None
    txn.finish()


def test_an_id_that_the_coordinator_forgot_is_taken_again_without_an_end() -> None:
    txn = written()
    txn.failed(Severity.RENEW, broker_error(49, api="ADD_PARTITIONS_TO_TXN"))
    txn.abort()
    assert txn.next_step is Step.INIT_PRODUCER_ID
    txn.initialized(Identity(8, 0), can_renew=True)
    txn.finish()
    txn = written()
    txn.abort()
    txn.sending(Step.END_TXN)
    txn.failed(Severity.RENEW, broker_error(49, api="END_TXN"))
    assert (txn.state, txn.next_step) == (State.ABORTING, Step.INIT_PRODUCER_ID)
    txn = written(can_renew=False)
    txn.failed(Severity.RENEW, broker_error(49, api="ADD_PARTITIONS_TO_TXN"))
    assert txn.state is State.FATAL


@pytest.mark.parametrize("code", [47, 90])
def test_a_fenced_producer_is_reported_what_became_of_its_records(code: int) -> None:
    txn = written()
    txn.commit()
    txn.sending(Step.END_TXN)
    txn.failed(Severity.FATAL, broker_error(code, api="END_TXN"))
    for call in (txn.begin, txn.commit, txn.abort):
        with pytest.raises(ProducerFencedError, match="What it did not commit is discarded"):
            call()
    assert txn.next_step is None


class Producers(RuleBasedStateMachine):
    """A coordinator of one id beside the client's state: what was asked of it must
    make sense at each step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.txn = TransactionState("id")
        self.seen_abortable = self.commit_out = False
        self.fatal = False

    def _step(self) -> Step | None:
        return self.txn.next_step

    @precondition(lambda self: self.txn.next_step is Step.INIT_PRODUCER_ID)
    @rule(can_renew=st.booleans(), new_id=st.booleans())
    def initialize(self, can_renew: bool, new_id: bool) -> None:
        before = self.txn.identity
        made = (
            Identity(before.producer_id + 1, 0)
            if new_id
            else Identity(max(0, before.producer_id), before.epoch + 1)
        )
        self.txn.sending(Step.INIT_PRODUCER_ID)
        self.txn.initialized(made, can_renew=can_renew)
        self._finish()

    @rule(generation=st.sampled_from([1, 2]))
    def begin(self, generation: int) -> None:
        allowed = self.txn.state is State.READY
        try:
            self.txn.begin(generation)
        except KafkaError:
            assert not allowed
        else:
            assert allowed
            self.seen_abortable = self.commit_out = False

    @precondition(lambda self: self.txn.state is State.IN_TRANSACTION)
    @rule(taken=st.booleans())
    def write(self, taken: bool) -> None:
        self.txn.adding()
        if taken:
            self.txn.partitions.add(TP)

    @precondition(lambda self: self.txn.state in (State.IN_TRANSACTION, State.COMMITTING))
    @rule(
        severity=st.sampled_from([Severity.ABORTABLE, Severity.RENEW, Severity.FATAL]),
        code=st.sampled_from([10, 49, 59]),
    )
    def write_fails(self, severity: Severity, code: int) -> None:
        if self.txn.end_sent:
            return  # no write is under way any more
        self.txn.failed(severity, broker_error(code, api="PRODUCE"))
        self.seen_abortable = True

    @rule()
    def commit(self) -> None:
        try:
            self.txn.commit()
        except KafkaError:
            return
        assert not self.seen_abortable
        self._finish()

    @rule()
    def abort(self) -> None:
        try:
            self.txn.abort()
        except KafkaError:
            return
        assert not self.commit_out, "an abort after a commit that may have arrived"
        self._finish()

    @precondition(lambda self: self.txn.state in (State.IN_TRANSACTION, State.ABORTING))
    @rule()
    def doubt(self) -> None:
        if not self.txn.ended:
            self.txn.doubt()

    @precondition(lambda self: self.txn.next_step is Step.END_TXN)
    @rule(answer=st.sampled_from(["done", "bumped", "lost", "abortable", "forgotten", "fenced"]))
    def end(self, answer: str) -> None:
        committed = self.txn.committed
        assert not (committed and self.seen_abortable), "a commit after an abortable error"
        assert not (self.commit_out and not committed), (
            "an abort after a commit that may have arrived"
        )
        self.txn.sending(Step.END_TXN)
        self.commit_out = self.commit_out or committed
        if answer == "done":
            self.txn.end_answered()
        elif answer == "bumped":
            self.txn.end_answered(
                Identity(self.txn.identity.producer_id, self.txn.identity.epoch + 1)
            )
        elif answer == "lost":
            self.txn.failed(Severity.RETRY, RequestTimedOut("late", stage="request"))
        elif answer == "abortable":
            self.txn.failed(Severity.ABORTABLE, broker_error(120, api="END_TXN"))
            self.seen_abortable, self.commit_out = True, False  # the coordinator said no
        elif answer == "forgotten":
            self.txn.failed(Severity.RENEW, broker_error(49, api="END_TXN"))
            self.seen_abortable, self.commit_out = True, False
        else:
            self.txn.failed(Severity.FATAL, broker_error(90, api="END_TXN"))
        self._finish()

    def _finish(self) -> None:
        if self.txn.state in (State.COMMITTING, State.ABORTING) and self.txn.next_step is None:
            try:
                self.txn.finish()
            except TransactionFatalError:
                assert self.txn.state is State.FATAL
            else:
                assert self.txn.state is State.READY
                assert not self.txn.must_renew

    @invariant()
    def fatal_is_the_end(self) -> None:
        self.fatal = self.fatal or self.txn.state is State.FATAL
        if self.fatal:
            assert self.txn.state is State.FATAL
            assert self.txn.next_step is None
            assert isinstance(self.txn.trouble(), TransactionFatalError)


Producers.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestProducers = Producers.TestCase
