"""One partition being read: what moves it, what does not, and when it gives up."""

import pytest

from parley.client.fetch.positions import PartitionPosition
from parley.client.fetch.state import PartitionFetch
from parley.errors import DataLossError, RequestTimedOut, broker_error
from parley.types import TopicPartition

TP = TopicPartition("t", 0)


def part(position=10, **kwargs):
    positions = PartitionPosition(TP)
    positions.seek(position)
    return PartitionFetch(
        **({"tp": TP, "positions": positions, "end": 20, "max_bytes": 100} | kwargs)
    )


def test_only_records_move_the_position_and_never_past_the_end():
    state = part()
    state.failed(broker_error(6), 0, delay_ms=5, patience_ms=100)
    assert state.position == 10
    state.moved(15)
    assert (state.position, state.done) == (15, False)
    state.moved(999)
    assert (state.position, state.done) == (20, True)
    endless = part(end=None)
    endless.moved(999)
    assert (endless.position, endless.done) == (999, False)


def test_trouble_is_borne_for_its_time_and_success_forgives_it():
    state, error = part(), broker_error(6)
    assert state.failed(error, 1000, delay_ms=100, patience_ms=500, epoch=7) is None
    assert (state.not_before_ms, state.failed_epoch, state.attempts) == (1100, 7, 1)
    assert state.failed(error, 1499, delay_ms=0, patience_ms=500) is None
    state.succeeded()
    assert (state.attempts, state.not_before_ms, state.failed_epoch) == (0, 0, None)
    assert state.failed(error, 1600, delay_ms=0, patience_ms=500) is None
    final = state.failed(error, 2100, delay_ms=0, patience_ms=500)
    assert final is error
    assert "offset 10" in final.__notes__[0]


def test_a_promised_end_that_never_comes_is_data_loss_or_a_timeout():
    state = part()
    state.high_watermark = 15
    assert state.idle(0, 100) is None
    assert state.idle(99, 100) is None
    lost = state.idle(100, 100)
    assert isinstance(lost, DataLossError)
    assert (lost.topic, lost.partition, lost.expected_offset, lost.available_offset) == (
        "t",
        0,
        20,
        15,
    )
    held_back = part()
    held_back.high_watermark = 50
    held_back.idle(0, 100)
    assert isinstance(held_back.idle(100, 100), RequestTimedOut)
    assert part(end=None).idle(10**9, 1) is None


def test_records_reset_the_wait_for_more():
    state = part()
    state.idle(0, 100)
    state.moved(12)
    assert state.idle(150, 100) is None


def test_a_large_message_is_asked_for_with_more_room_until_the_limit():
    state = part(max_bytes=100)
    head = (5).to_bytes(8, "big") + (1000).to_bytes(4, "big") + b"xxxx"
    assert state.grow(memoryview(head), 4096) is None
    assert state.wanted_bytes == 1012  # its own size says how much
    assert state.grow(memoryview(b"short"), 4096) is None
    assert state.wanted_bytes == 2024
    state.max_bytes = state.least_bytes = 4096
    error = state.grow(memoryview(head), 4096)
    assert error.code == 10
    assert "fetch_max_bytes=4096" in str(error)
    assert (error.topic, error.partition) == ("t", 0)


def test_who_allows_no_bytes_of_a_partition_asks_for_one_and_then_for_more():
    for end in (None, 1_000):
        state = part(end=end, max_bytes=0)
        assert state.wanted_bytes == 1
        assert state.grow(memoryview(b"x"), 1) is not None
        assert "needs more than 1 bytes" in str(state.grow(memoryview(b"x"), 1))
        assert state.grow(memoryview(b"x"), 4096) is None
        assert state.wanted_bytes == 2


def test_of_a_range_not_much_more_is_asked_for_than_is_left_of_it():
    state = part(position=0, end=1_000_000, max_bytes=2**23)
    assert state.wanted_bytes == 2**20  # nothing is known of its records yet
    state.moved(10_000, size_bytes=1_000_000)
    assert state.wanted_bytes == 2**23  # 99 MB are left
    state.moved(980_000, size_bytes=97_000_000)
    assert state.wanted_bytes == 2_500_000  # 20,000 records of 100 bytes, and a quarter more
    state.moved(999_999, size_bytes=1_999_900)
    assert state.wanted_bytes == 2**16


def test_without_an_end_as_much_is_asked_for_as_may_be():
    state = part(end=None, max_bytes=2**23)
    assert state.wanted_bytes == 2**23
    state.moved(12, size_bytes=100)
    assert state.wanted_bytes == 2**23


def test_a_small_rest_with_a_large_record_is_asked_for_until_it_comes():
    """Brokers before KIP-74 send a part of a record that is larger than what was asked for."""
    state = part(position=0, end=11, max_bytes=2**23)
    state.moved(10, size_bytes=1_000)
    assert state.wanted_bytes == 2**16
    head = (10).to_bytes(8, "big") + (3_000_000).to_bytes(4, "big") + b"xxxx"
    assert state.grow(memoryview(head), 2**25) is None
    assert (state.wanted_bytes, state.max_bytes) == (3_000_012, 2**23)


@pytest.mark.parametrize(
    ("position", "end", "done"), [(0, 0, True), (5, 5, True), (5, 6, False), (7, 5, True)]
)
def test_an_empty_range_is_done_at_once(position, end, done):
    assert part(position=position, end=end).done is done
