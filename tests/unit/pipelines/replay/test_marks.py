"""What a replay writes down: read again as it was, and nothing foreign taken for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.errors import ConfigError, KafkaError
from parley.pipelines.replay.marks import Mark, Settled, mark_records, read, settled_record
from parley.pipelines.replay.options import ReplayOptions

offsets = st.integers(0, 2**63 - 1)
uuids = st.binary(min_size=16, max_size=16)
settled = st.builds(
    Settled,
    st.just("flights"),
    st.just("again"),
    st.none() | offsets,
    st.none() | offsets,
    st.sampled_from(["source", "key"]),
    uuids,
    uuids,
    st.dictionaries(st.integers(0, 2**31 - 1), st.tuples(offsets, offsets), max_size=5),
)
marks = st.dictionaries(
    st.integers(0, 2**31 - 1), st.builds(Mark, offsets, st.integers(-1, 2**31 - 1)), max_size=5
)


@given(settled, marks)
def test_what_was_written_is_read(found: Settled, held: dict[int, Mark]) -> None:
    newest = dict([settled_record(found), *mark_records(held)])
    assert read("again-offsets", newest) == (found, held)


def test_the_format_is_the_one_that_is_documented() -> None:
    found = Settled(
        "flights", "again", None, 7, "key", bytes(16), bytes(15) + b"\1", {0: (17, 605)}
    )
    assert settled_record(found) == (
        b"replay",
        b'{"version":1,"topic":"flights","to":"again","from":null,"until":7,"partition_by":"key",'
        b'"topic_id":null,"target_id":"AAAAAAAAAAAAAAAAAAAAAQ","ranges":{"0":[17,605]}}',
    )
    assert mark_records({3: Mark(120, 4)}) == [(b"at/3", b'{"next":120,"epoch":4}')]


@given(st.dictionaries(st.binary(max_size=8) | st.just(b"replay"), st.none() | st.binary()))
def test_foreign_records_are_only_refused(newest: dict[bytes, bytes | None]) -> None:
    try:
        assert read("x", newest) is None
        assert not newest
    except KafkaError:
        assert newest


@pytest.mark.parametrize("key", [b"at/x", b"at/"])
@pytest.mark.parametrize("value", [b"{}", b"1", b'{"next":"x","epoch":1}'])
def test_a_damaged_mark_is_named(key: bytes, value: bytes) -> None:
    found = Settled("flights", "again", None, None, "source", bytes(16), bytes(16), {0: (0, 1)})
    with pytest.raises(KafkaError, match='"x" has a record that cannot be read'):
        read("x", {**dict([settled_record(found)]), key: value})


def test_a_newer_format_asks_for_a_newer_parley() -> None:
    with pytest.raises(KafkaError, match="a newer parley"):
        read("x", {b"replay": b'{"version": 2}'})


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "others"},
        {"to": "elsewhere"},
        {"from_timestamp_ms": 1},
        {"until_timestamp_ms": 1},
        {"partition_by": "key"},
    ],
)
def test_other_options_are_another_replay(changed: dict[str, Any]) -> None:
    given_ = {"name": "n", "topic": "flights", "to": "again"}
    found = Settled("flights", "again", None, None, "source", bytes(16), bytes(16), {})
    found.check(ReplayOptions(**given_))
    with pytest.raises(ConfigError, match=next(iter(changed))):
        found.check(ReplayOptions(**{**given_, **changed}))
