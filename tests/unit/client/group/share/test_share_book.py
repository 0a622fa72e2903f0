"""What a member owes for records: acquired ranges, acknowledgements, sessions,
requests. All of it is pure.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from parley.client.group.share.acquired import Acquired, AcquiredRange
from parley.client.group.share.book import GAP, AcknowledgeType, Book, Due, Grant, batches
from parley.client.group.share.heartbeat import ShareStanding
from parley.client.group.share.session import Request, SessionPart, ShareSession, next_request
from parley.client.group.share.wire import (
    Limits,
    acknowledge_request,
    allowed_versions,
    fetch_request,
)
from parley.errors import broker_error
from parley.types import TopicPartition

TP, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)
ID = b"a" * 16
GRANT = Grant(1, 0, ID)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
ME = ShareStanding("jobs", "me")


# -- what was acquired ----------------------------------------------------------------------------


def met(
    ranges: list[tuple[int, int, int]], offsets: list[int]
) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Return the delivery counts of the offsets that are this member's, and the gaps."""
    acquired = Acquired(AcquiredRange(*one) for one in ranges)
    counts = {offset: acquired.meet(offset) for offset in offsets}
    return {
        offset: count for offset, count in counts.items() if count
    }, acquired.take_gaps() + acquired.take_rest()


def test_only_what_was_acquired_is_handed_out() -> None:
    assert met([(2, 3, 1), (6, 6, 4)], list(range(10))) == ({2: 1, 3: 1, 6: 4}, [])


def test_offsets_without_records_are_gaps() -> None:
    assert met([(0, 9, 1)], [3, 5]) == ({3: 1, 5: 1}, [(0, 2), (4, 4), (6, 9)])
    assert met([(0, 1, 1), (4, 5, 1)], [7]) == ({}, [(0, 1), (4, 5)])


def test_ranges_that_cannot_be_are_made_ones_that_can() -> None:
    assert met([(5, 4, 1), (3, 6, 2), (1, 4, 1), (2, 2, 9)], list(range(8)))[0].keys() == set(
        range(1, 7)
    )
    assert met([(-5, 2, 1)], [0])[1] == [(1, 2)]
    assert met([(0, 2**62, 0)], [5]) == ({5: 1}, [(0, 4), (6, 2**62)])  # and takes no memory


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 5)), max_size=6),
    st.sets(st.integers(0, 45)),
)
def test_each_acquired_offset_is_either_handed_out_or_a_gap(
    ranges: list[tuple[int, int, int]], records: set[int]
) -> None:
    counts, gaps = met(ranges, sorted(records))
    acquired = {offset for first, last, _ in ranges for offset in range(first, last + 1)}
    assert set(counts) == acquired & records
    passed = [offset for first, last in gaps for offset in range(first, last + 1)]
    assert sorted(passed) == sorted(acquired - records)


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 30))
def test_records_that_were_not_handed_out_can_be_met_again(
    records: set[int], decoded: int, handed: int
) -> None:
    ranges = [AcquiredRange(2, 9, 1), AcquiredRange(12, 25, 3)]
    acquired, whole = Acquired(ranges), Acquired(ranges)
    counts = {offset: whole.meet(offset) for offset in sorted(records)}
    ahead = [offset for offset in sorted(records) if offset < max(decoded, handed)]
    again = [offset for offset in sorted(records) if offset >= handed]
    for offset in ahead:
        acquired.meet(offset)
    acquired.meet_again(handed)
    assert acquired.left(handed) == sum(
        1 for one in ranges for offset in range(one.first, one.last + 1) if offset >= handed
    )
    assert [acquired.meet(offset) for offset in again] == [counts[offset] for offset in again]
    gaps = [acquired.take_gaps() + acquired.take_rest(), whole.take_gaps() + whole.take_rest()]
    spread = [{at for first, last in some for at in range(first, last + 1)} for some in gaps]
    assert spread[0] == spread[1]


# -- the book -------------------------------------------------------------------------------------


def book_of(*offsets: int, tp: TopicPartition = TP) -> Book[str]:
    book: Book[str] = Book()
    for offset in offsets:
        book.hand_out(tp, offset, f"record {offset}", GRANT)
    return book


def sent(book: Book[str]) -> list[tuple[int, int, int]]:
    return [tuple(one) for one in batches(book.take(1, 0)[0])]


def test_what_was_said_is_due_when_it_is_committed() -> None:
    book = book_of(0, 1, 2)
    assert book.unacknowledged == 3
    assert book.acknowledge(TP, 0, ACCEPT)
    assert book.acknowledge(TP, 1, ACCEPT)
    assert book.acknowledge(TP, 1, REJECT)  # the last word counts
    assert book.unacknowledged == 1
    assert not book.due_at
    book.commit()
    assert book.due_at == {1}
    assert sent(book) == [(0, 0, ACCEPT), (1, 1, REJECT)]
    assert not book.due_at
    assert not book.acknowledge(TP, 0, RELEASE)
    assert not book.acknowledge(OTHER, 2, RELEASE)
    book.accept_all()
    book.commit()
    assert sent(book) == [(2, 2, ACCEPT)]


def test_outcomes_speak_of_what_the_application_had() -> None:
    book = book_of(0, 2)
    book.accept_all()
    book.commit()
    book.settle_unseen(TP, [(1, 1), (3, 9)], GAP, GRANT)
    taken, dead = book.take(1, 0)
    assert [tuple(one) for one in batches(taken)] == [(0, 0, 1), (1, 1, 0), (2, 2, 1), (3, 9, 0)]
    assert not dead
    late = broker_error(121)
    assert book.settle(taken, {}) == [(TP, (0, 2), None)]
    assert book.settle(taken, {TP: late}) == [(TP, (0, 2), late)]
    assert book.settle(taken, {OTHER: late}) == [(TP, (0, 2), None)]


def test_what_a_session_gave_cannot_be_said_in_another() -> None:
    book = book_of(0)
    book.hand_out(TP, 1, "record 1", Grant(1, 1, ID))
    book.accept_all()
    book.commit()
    alive, dead = book.take(1, 1)
    assert [due.first for due in alive] == [1]
    assert [due.first for due in dead] == [0]


def test_a_renewed_record_is_handed_out_again() -> None:
    book = book_of(0, 1)
    book.acknowledge(TP, 0, RENEW)
    book.acknowledge(TP, 1, RENEW)
    book.commit()
    taken, _ = book.take(1, 0)
    assert book.take_renewed(5) == []
    book.settle(taken, {})
    assert book.unacknowledged == 0
    assert book.take_renewed(1) == [(TP, "record 0")]
    assert book.unacknowledged == 1
    assert book.acknowledge(TP, 1, ACCEPT)  # without having it again
    assert book.take_renewed(5) == []


def test_a_record_that_could_not_be_renewed_is_gone() -> None:
    book = book_of(0)
    book.acknowledge(TP, 0, RENEW)
    book.commit()
    book.settle(book.take(1, 0)[0], {TP: broker_error(121)})
    assert book.take_renewed(5) == []
    assert not book.acknowledge(TP, 0, ACCEPT)


def test_no_offset_is_sent_twice_though_a_record_was_delivered_again() -> None:
    book = book_of(0, 1)
    book.accept_all()
    book.commit()
    book.hand_out(TP, 1, "again", GRANT)
    book.acknowledge(TP, 1, RELEASE)
    book.commit()
    assert sent(book) == [(0, 0, ACCEPT), (1, 1, RELEASE)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4), st.integers(0, 4))))
def test_batches_are_in_order_and_each_offset_is_in_one(given: list[tuple[int, int, int]]) -> None:
    found = batches(Due(TP, first, first + more, kind, GRANT) for first, more, kind in given)
    said = [offset for one in found for offset in range(one.first, one.last + 1)]
    assert said == sorted(set(said))
    assert set(said) == {
        offset for first, more, _ in given for offset in range(first, first + more + 1)
    }


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_says_what_changed_and_counts_its_requests() -> None:
    session = ShareSession()
    assert session.fetching({(ID, 0), (ID, 1)}) == SessionPart(0, ((ID, 0), (ID, 1)))
    assert not session.opened
    session.fetched({(ID, 0), (ID, 1)})
    assert session.opened
    assert session.fetching({(ID, 1), (ID, 2)}) == SessionPart(1, ((ID, 2),), ((ID, 0),))
    session.acknowledged()
    assert session.epoch == 2
    session.lost()
    assert (session.epoch, session.number) == (0, 1)
    assert session.fetching({(ID, 1)}).added == ((ID, 1),)
    session.fetched({(ID, 1)})
    session.epoch = 2**31 - 1
    session.acknowledged()
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("opened", "kind", "wanted", "fetching", "hurried", "expected"),
    [
        (True, None, True, True, False, Request.FETCH),
        (True, None, True, False, True, None),
        (True, None, False, True, False, None),
        (True, ACCEPT, True, True, True, Request.FETCH),
        (True, ACCEPT, True, False, False, None),
        (True, ACCEPT, True, False, True, Request.ACKNOWLEDGE),
        (True, ACCEPT, False, True, False, Request.ACKNOWLEDGE),
        (True, RENEW, True, True, False, Request.ACKNOWLEDGE),
        (True, RENEW, True, False, False, Request.ACKNOWLEDGE),
        (False, ACCEPT, True, True, True, Request.FETCH),
        (False, ACCEPT, True, False, True, None),
    ],
)
def test_g64_which_request_is_next(
    opened: bool,
    kind: int | None,
    wanted: bool,
    fetching: bool,
    hurried: bool,
    expected: Request | None,
) -> None:
    session = ShareSession()
    if opened:
        session.fetched(set())
    dues = [] if kind is None else [Due(TP, 0, 0, kind, GRANT)]
    partitions = {(ID, 0)} if wanted else set()
    assert next_request(session, partitions, dues, fetching=fetching, hurried=hurried) is expected


# -- requests -------------------------------------------------------------------------------------


def test_a_fetch_has_what_is_new_what_is_gone_and_acknowledgements() -> None:
    part = SessionPart(3, ((b"b" * 16, 2),), ((ID, 7),))
    dues = [Due(TP, 4, 5, ACCEPT, GRANT), Due(TP, 6, 6, REJECT, GRANT)]
    made = fetch_request(ME, part, dues, Limits(500, 1, 10_000, 50, "record_limit"))
    assert (made.group_id, made.member_id, made.share_session_epoch) == ("jobs", "me", 3)
    assert (made.max_records, made.batch_size, made.share_acquire_mode, made.is_renew_ack) == (
        50,
        50,
        1,
        False,
    )
    acknowledged, new = made.topics
    assert (acknowledged.topic_id, acknowledged.partitions[0].partition_index) == (ID, 0)
    found = acknowledged.partitions[0].acknowledgement_batches
    assert [(one.first_offset, one.last_offset, one.acknowledge_types) for one in found] == [
        (4, 5, [1]),
        (6, 6, [3]),
    ]
    assert (new.topic_id, new.partitions[0].acknowledgement_batches) == (b"b" * 16, [])
    assert [(one.topic_id, one.partitions) for one in made.forgotten_topics_data] == [(ID, [7])]


def test_a_request_that_renews_says_so_and_needs_a_newer_version() -> None:
    made = acknowledge_request(ME, 9, [Due(TP, 0, 0, RENEW, GRANT)])
    assert (made.is_renew_ack, made.share_session_epoch) == (True, 9)
    assert not acknowledge_request(ME, 9, [Due(TP, 0, 0, ACCEPT, GRANT)]).is_renew_ack
    assert (allowed_versions(True).min, allowed_versions(False).min) == (2, 1)
