"""Error 43: a topic that keeps an older record format than its broker, as in
the middle of an upgrade.
"""

import pytest

from parley.client.produce.answers import Action, judge
from parley.client.produce.state import OutBatch, PartitionLog, ProduceCall
from parley.client.produce.wire import ProduceAnswer
from parley.types import TopicPartition

TP = TopicPartition("t", 0)
ANSWER = ProduceAnswer(TP, 43, -1, -1, -1, None, None)


def sent(*, producer_id=7, needs_idempotence=False):
    batch = OutBatch(
        TP,
        b"",
        1,
        2,
        0,
        ProduceCall(),
        -1,
        0,
        0,
        producer_id,
        0,
        0,
        needs_idempotence=needs_idempotence,
    )
    log = PartitionLog(TP)
    log.add(batch)
    log.sent(batch)
    return log, batch


def test_idempotence_by_default_gives_way_to_the_topics_format():
    assert judge(*sent(), ANSWER, 8, hinted=False).action is Action.OLDER_FORMAT


def test_idempotence_that_was_asked_for_fails_with_the_remedy():
    follow_up = judge(*sent(needs_idempotence=True), ANSWER, 8, hinted=False)
    assert follow_up.action is Action.FAIL
    assert follow_up.error.name == "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    assert "log.message.format.version" in follow_up.error.__notes__[0]


@pytest.mark.parametrize("producer_id", [-1])
def test_without_idempotence_it_is_an_error_like_any_other(producer_id):
    assert judge(*sent(producer_id=producer_id), ANSWER, 8, hinted=False).action is Action.FAIL
