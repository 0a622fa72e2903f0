"""Headers of dead letters: Connect's and Spring's are read, Connect's are written."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from parley.types.dead_letters import Header, Origin, dead_letter_headers, origin_of

PLACE = Origin("orders", 2, 17, "no frame")
SPRING: list[Header] = [
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", struct.pack(">i", 2)),
    ("kafka_dlt-original-offset", struct.pack(">q", 17)),
    ("kafka_dlt-exception-message", b"no frame"),
]


def test_what_is_written_is_read_again() -> None:
    own: list[Header] = [("trace", b"7"), ("nothing", None)]
    written = dead_letter_headers(own, PLACE, part="key", code="framing", query="q", batch="3")
    assert written[:2] == own
    assert origin_of(written) == PLACE
    assert dict(written)["__connect.errors.stage"] == b"KEY_CONVERTER"
    assert (dict(written)["parley-query"], dict(written)["parley-batch"]) == (b"q", b"3")
    assert origin_of(own) is None


def test_one_that_fails_again_keeps_its_place_and_counts() -> None:
    later = Origin("orders.dlq", 0, 1, "still no frame")
    for before in (SPRING, dead_letter_headers([], PLACE, part="value", code="framing")):
        assert origin_of(before) == PLACE
        again = dead_letter_headers(before, later, part="value", code="framing")
        assert origin_of(again) == Origin("orders", 2, 17, "still no frame", 2)
        assert len(dict(again)) == len(again), "each header once"


NAMES = [name for name, _ in [*SPRING, *dead_letter_headers([], PLACE, part="value", code="x")]]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.binary(max_size=24))))
def test_any_bytes_are_some_place_or_none(headers: list[Header]) -> None:
    found = origin_of(headers)
    assert found is None or found.attempts >= 1
    dead_letter_headers(headers, PLACE, part="value", code="datum")


@pytest.mark.parametrize("offset", [b"", b"-1", b"1e3", "²".encode(), b"9" * 20, b" 7"])
def test_a_place_that_is_no_number_is_none(offset: bytes) -> None:
    headers: list[Header] = [
        ("__connect.errors.topic", b"t"), ("__connect.errors.partition", b"0"),
        ("__connect.errors.offset", offset),
    ]  # fmt: skip
    assert origin_of(headers) is None
