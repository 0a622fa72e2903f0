"""Incremental fetch sessions (KIP-227): what is sent, what is forgotten, and
when a session begins again.
"""

from __future__ import annotations

from hypothesis import given, strategies as st

from parley.client.fetch.incremental import FINAL_EPOCH, LAST_EPOCH, IncrementalSession
from parley.client.fetch.wire import FetchTarget, allowed_versions, fetch_request
from parley.client.options.client_options import FetchOptions
from parley.types import ZERO_UUID, TopicPartition

ID, OTHER_ID = b"a" * 16, b"b" * 16


def target(partition: int, offset: int = 0, topic_id: bytes = ID, topic: str = "t") -> FetchTarget:
    return FetchTarget(TopicPartition(topic, partition), offset, 100, 1, topic_id)


def begun(*targets: FetchTarget, session_id: int = 7) -> IncrementalSession:
    session = IncrementalSession()
    session.build(targets, ids_supported=True)
    session.answered(session_id)
    return session


def test_p17_the_first_request_is_full_and_the_next_ones_report_only_what_changed() -> None:
    session = IncrementalSession()
    first = session.build([target(0), target(1)], ids_supported=True)
    assert (first.part.session_id, first.part.epoch, list(first.targets)) == (
        0,
        0,
        [target(0), target(1)],
    )
    session.answered(7)
    second = session.build([target(0, 5), target(1)], ids_supported=True)
    assert (second.part.session_id, second.part.epoch, second.targets) == (7, 1, [target(0, 5)])
    session.answered(7)
    third = session.build([target(1)], ids_supported=True)
    assert (third.part.epoch, third.targets, third.part.forgotten) == (2, [], (target(0, 5),))


def test_p17_ids_that_become_known_begin_a_new_session_by_id() -> None:
    session = begun(target(0, topic_id=ZERO_UUID))
    assert session.by_id is False
    request = session.build([target(0)], ids_supported=True)
    assert (request.part.session_id, request.part.epoch, request.part.by_id) == (7, 0, True)
    assert allowed_versions(request.targets, FetchOptions(), by_id=True).min == 13


def test_p17_an_id_that_is_lost_begins_a_new_session_by_name() -> None:
    session = begun(target(0))
    request = session.build([target(0, topic_id=ZERO_UUID)], ids_supported=True)
    assert (request.part.epoch, request.part.by_id) == (0, False)
    assert allowed_versions(request.targets, FetchOptions(), by_id=False).max == 12


def test_p17_a_topic_with_another_id_is_forgotten_and_sent_in_full() -> None:
    session = begun(target(0, 9), target(1, 9))
    request = session.build([target(0, 0, OTHER_ID), target(1, 9)], ids_supported=True)
    assert (request.part.epoch, request.targets) == (1, [target(0, 0, OTHER_ID)])
    assert request.part.forgotten == (target(0, 9),)
    message = fetch_request(request.targets, FetchOptions(), request.part)
    assert [(topic.topic_id, topic.partitions) for topic in message.forgotten_topics_data] == [
        (ID, [0])
    ]


def test_p17_ids_of_some_topics_only_begin_a_new_session_by_name() -> None:
    session = begun(target(0))
    request = session.build([target(0), target(0, 0, ZERO_UUID, "u")], ids_supported=True)
    assert (request.part.epoch, request.part.by_id, len(request.targets)) == (0, False, 2)


def test_p17_an_error_at_the_top_begins_a_new_session() -> None:
    for code, left in ((70, 0), (71, 7), (106, 7), (0, 7)):
        session = begun(target(0))
        session.build([target(0, 1)], ids_supported=True)
        session.failed(code)
        request = session.build([target(0, 1)], ids_supported=True)
        assert (request.part.session_id, request.part.epoch) == (left, 0), (
            "what may be left of it is closed"
        )
        assert list(request.targets) == [target(0, 1)]


def test_p17_all_partitions_forgotten_leaves_an_empty_session() -> None:
    session = begun(target(0), target(1))
    request = session.build([], ids_supported=True)
    assert (list(request.targets), request.part.forgotten) == ([], (target(0), target(1)))


def test_a_broker_without_sessions_gets_full_requests() -> None:
    session = IncrementalSession()
    for offset in (0, 5, 9):
        request = session.build([target(0, offset)], ids_supported=True)
        assert (request.part.session_id, request.part.epoch, len(request.targets)) == (0, 0, 1)
        session.answered(0)
    assert session.ending() is None


def test_the_epoch_wraps_and_the_end_is_reported() -> None:
    session = begun(target(0))
    session.epoch = LAST_EPOCH
    session.answered(7)
    assert session.epoch == 1
    ending = session.ending()
    assert ending is not None
    assert (ending.session_id, ending.epoch) == (7, FINAL_EPOCH)


@given(
    st.lists(
        st.dictionaries(
            st.integers(0, 5), st.tuples(st.integers(0, 3), st.sampled_from([ID, OTHER_ID]))
        )
    )
)
def test_the_broker_always_knows_exactly_what_is_wanted(
    rounds: list[dict[int, tuple[int, bytes]]],
) -> None:
    """Whatever is added, moved, forgotten and re-created: what the broker has put
    together is what was asked for.
    """
    session, broker = IncrementalSession(), dict[tuple[int, bytes], FetchTarget]()
    for wanted in rounds:
        targets = [
            target(partition, offset, topic_id) for partition, (offset, topic_id) in wanted.items()
        ]
        request = session.build(targets, ids_supported=True)
        if request.part.epoch == 0:
            broker.clear()
        for gone in request.part.forgotten:
            del broker[gone.tp.partition, gone.topic_id]
        broker |= {(sent.tp.partition, sent.topic_id): sent for sent in request.targets}
        assert sorted(broker.values()) == sorted(targets)
        session.answered(7)
