"""The journal's text: what is written is read back, and what nobody wrote is refused."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from parley.errors import RemoteProtocolError
from parley.spark.write.intent import (
    BatchOfQuery,
    Done,
    Entry,
    Intent,
    Mark,
    Newest,
    OpenTransaction,
    decode,
    encode,
    newest,
)
from parley.spark.write.turns import Identity, Slot

identities = st.builds(Identity, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
numbers = st.integers(0, 2**31 - 1)
intents = st.builds(
    Intent,
    st.builds(BatchOfQuery, st.text(max_size=40), st.integers(0, 2**63 - 1)),
    identities,
    st.lists(
        st.builds(OpenTransaction, numbers, identities, identities, identities, numbers), max_size=5
    ).map(tuple),
    st.dictionaries(numbers, st.builds(Slot, identities, st.none() | identities), max_size=5),
)


@given(st.one_of(intents, st.builds(Done, identities), st.builds(Mark)))
def test_there_and_back(entry: Entry) -> None:
    assert decode(encode(entry)) == entry
    assert decode(encode(entry).encode()) == entry


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_foreign_bytes_raise_the_protocol_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="no entry of parley's"):
        decode(data)


@given(intents, st.data())
def test_an_entry_with_one_value_of_another_kind_is_refused_or_read(
    intent: Intent, data: st.DataObject
) -> None:
    body = json.loads(encode(intent))
    name = data.draw(st.sampled_from(sorted(body)))
    body[name] = data.draw(st.sampled_from([None, "x", 5, [], [[]], [["x"]], {}, True, [[1, 2]]]))
    with contextlib.suppress(RemoteProtocolError):  # and nothing else
        decode(json.dumps(body))


def test_an_entry_of_a_later_version_says_who_can_read_it() -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"version 2; this parley knows version 1.*Resume"
    ):
        decode('{"parley":2,"kind":"mark"}')


def test_the_newest_intent_is_done_when_its_own_writer_says_so() -> None:
    first, second = (Intent(BatchOfQuery("q", n), Identity(9, n), (), {}) for n in range(2))
    assert newest([]) == newest([Mark()]) == Newest(None, True)
    assert newest([first, Mark()]) == Newest(first, False)
    assert newest([first, Done(first.by)]) == Newest(first, True)
    # a driver that hung notes down the first one late
    assert newest([first, Done(first.by), second, Done(first.by)]) == Newest(second, False)


def test_an_intent_of_10_000_transactions_fits_into_a_record() -> None:
    """A broker takes 1 MiB by default."""
    turn = Identity(2**40, 32_000)
    transactions = tuple(OpenTransaction(slot, turn, turn, turn, 10**7) for slot in range(10_000))
    assert len(encode(Intent(BatchOfQuery("q" * 36, 10**6), turn, transactions))) < 2**20


def test_ids_of_a_decided_batch_are_spare_and_those_it_did_not_use_stay() -> None:
    turn, name = Identity(1, 5), Identity(1, 2)
    idle = Slot(Identity(2, 0), Identity(2, 0))
    intent = Intent(
        BatchOfQuery("q", 1), turn, (OpenTransaction(0, turn, name, Identity(7, 1), 3),), {4: idle}
    )
    assert intent.pool() == {0: Slot(turn, name), 4: idle}
    assert intent.rows == 3
