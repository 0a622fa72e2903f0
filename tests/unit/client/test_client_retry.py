"""Classification, backoff and deadlines."""

import random

import pytest

from parley.client.cluster.retry import Backoff, Deadline, Reaction, classify
from parley.errors import (
    BrokersUnreachable,
    ConfigError,
    CorruptRecordError,
    DataLossError,
    LocalProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
    broker_error,
)


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (broker_error(6), Reaction.REFRESH),
        (broker_error(5), Reaction.REFRESH),
        (broker_error(3), Reaction.REFRESH),
        (broker_error(7), Reaction.RETRY),
        (broker_error(19), Reaction.RETRY),
        (broker_error(76), Reaction.FAIL),
        (broker_error(29), Reaction.FAIL),
        (broker_error(10), Reaction.FAIL),
        (broker_error(35), Reaction.FAIL),
        (broker_error(9999), Reaction.FAIL),
        (RequestTimedOut("late"), Reaction.REFRESH),
        (BrokersUnreachable({"a:1": OSError("no")}), Reaction.REFRESH),
        (ConfigError("x"), Reaction.FAIL),
        (CorruptRecordError("x"), Reaction.FAIL),
        (DataLossError("x"), Reaction.FAIL),
        (LocalProtocolError("x"), Reaction.FAIL),
        (UnsupportedVersionError("x"), Reaction.FAIL),
        (ValueError("a bug"), Reaction.FAIL),
    ],
)
def test_what_is_done_after_an_error(error, reaction):
    assert classify(error) is reaction


def test_the_pause_grows_within_its_jitter_and_never_passes_the_maximum():
    backoff, rng = Backoff(100, 1000), random.Random(7).random
    for attempt in range(200):
        delay = backoff.delay_ms(attempt, rng)
        middle = min(1000, 100 * 2**attempt)
        assert middle * 0.8 - 1 <= delay <= min(1000, middle * 1.2 + 1)


def test_jitter_spreads_the_pauses():
    backoff, rng = Backoff(100, 1000), random.Random(1).random
    assert len({backoff.delay_ms(2, rng) for _ in range(50)}) > 20


def test_a_deadline():
    deadline = Deadline.after(100, 50)
    assert (deadline.remaining_ms(100), deadline.remaining_ms(149), deadline.remaining_ms(900)) == (
        50,
        1,
        0,
    )
    assert not deadline.passed(149)
    assert deadline.passed(150)
    assert deadline.earlier(100, 10) == Deadline(110)
    assert deadline.earlier(100, 1000) == deadline
