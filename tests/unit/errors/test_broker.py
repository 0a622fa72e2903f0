"""The table of broker errors, against kafka-python's own table, and the exceptions made of it."""

from __future__ import annotations

import pickle

import pytest

import parley.errors
from parley.errors import (
    BrokerError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnknownBrokerError,
    UnsupportedVersionError,
    broker_error,
    codes,
    error_name,
)
from parley.errors.broker import ErrorCode, error_codes, error_names

kafka_errors = pytest.importorskip("kafka.errors", reason="no kafka-python")

OTHER_NAMES = {
    -1: "UNKNOWN", 0: "NO_ERROR", 6: "NOT_LEADER_FOR_PARTITION", 10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC", 39: "INVALID_REPLICATION_ASSIGNMENT",
}  # fmt: skip
"""Codes that kafka-python calls otherwise; the table has the names of Kafka's own enumeration."""

OTHER_FLAGS = {
    2: "Java's CorruptRecordException is retriable",
    75: "Java's UnknownLeaderEpochException does not ask for new metadata",
}


def their_table() -> dict[int, type[BaseException]]:
    found = {}
    for name in dir(kafka_errors):
        one = getattr(kafka_errors, name)
        if isinstance(one, type) and issubclass(one, kafka_errors.BrokerResponseError):
            found[one.errno] = one  # type: ignore[attr-defined]
    return {code: one for code, one in found.items() if isinstance(code, int)}


@pytest.mark.parametrize("code", sorted(their_table()))
def test_names_and_flags_agree_with_another_implementation(code: int) -> None:
    theirs, ours = their_table()[code], error_codes()[code]
    assert OTHER_NAMES.get(code, ours.name) == theirs.message  # type: ignore[attr-defined]
    if code not in OTHER_FLAGS:
        refresh = bool(getattr(theirs, "invalid_metadata", False))
        assert (ours.retriable, ours.refresh_metadata) == (bool(theirs.retriable), refresh)  # type: ignore[attr-defined]


def test_the_table_has_no_gap_up_to_the_newest_code() -> None:
    assert sorted(error_codes()) == list(range(-1, 134))
    assert len({entry.name for entry in error_codes().values()}) == 135


OTHER_CLASSES = {
    13: "BrokerNetworkError",
    90: "BrokerProducerFencedError",
    120: "BrokerTransactionAbortableError",
}
"""Where an error that no broker answers with has the name."""


@pytest.mark.parametrize(
    "entry", [one for one in error_codes().values() if one.code not in {0, 35}]
)
def test_every_code_has_a_class_of_its_own(entry: ErrorCode) -> None:
    error = broker_error(
        entry.code, "because", topic="t", partition=3, api="FETCH", version=4, broker="2"
    )
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.retriable, error.refresh_metadata) == entry
    assert type(error) is type(broker_error(entry.code))
    words = entry.name.removesuffix("_ERROR").removesuffix("_EXCEPTION").replace("_", "")
    assert type(error).__name__.upper() == OTHER_CLASSES.get(entry.code, f"{words}ERROR").upper()
    text = f"{entry.name} ({entry.code}) [FETCH v4, t-3, broker 2]: because"
    assert str(error).partition("; the user needs")[0] == text


def test_an_unknown_code_is_kept() -> None:
    error = broker_error(9_999, topic="t")
    assert isinstance(error, UnknownBrokerError)
    assert (error.code, error.name, error.retriable) == (9_999, "UNKNOWN_CODE_9999", False)
    assert "9999" in str(error)
    assert error_name(9_999) == "UNKNOWN_CODE_9999"


def test_an_unsupported_version_reported_by_the_broker_is_marked_as_such() -> None:
    error = broker_error(35, api="FETCH", version=99, broker="1")
    assert isinstance(error, UnsupportedVersionError)
    assert (error.local, error.api, error.broker) == (False, "FETCH", "1")


def test_text_leaves_out_what_is_not_known() -> None:
    assert str(broker_error(3)) == "UNKNOWN_TOPIC_OR_PARTITION (3)"
    assert str(broker_error(3, topic="t")) == "UNKNOWN_TOPIC_OR_PARTITION (3) [t]"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            broker_error(30, api="JOIN_GROUP", resource="group g"),
            "GROUP_AUTHORIZATION_FAILED (30) [JOIN_GROUP, group g]: the user needs the right Read "
            "on the group",
        ),
        (
            broker_error(53, api="INIT_PRODUCER_ID", version=4, resource="transactional id x"),
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53) [INIT_PRODUCER_ID v4, transactional id x]: "
            "the user needs the right Write on the transactional id",
        ),
        (
            broker_error(29, "Topic authorization failed.", api="DELETE_TOPICS", topic="a"),
            "TOPIC_AUTHORIZATION_FAILED (29) [DELETE_TOPICS, a]: Topic authorization failed; the "
            "user needs the right Delete on the topic",
        ),
        (broker_error(29, topic="a"), "TOPIC_AUTHORIZATION_FAILED (29) [a]"),
        (broker_error(31), "CLUSTER_AUTHORIZATION_FAILED (31)"),
    ],
    ids=lambda value: str(getattr(value, "code", "")),
)
def test_a_missing_right_is_named_with_what_it_is_on(error: KafkaError, text: str) -> None:
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == text


def test_an_error_survives_the_way_to_another_process() -> None:
    """Spark's workers pickle exceptions."""
    for code in (6, 9_999, 35):
        error = broker_error(code, "because", topic="t", partition=1)
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))
        assert isinstance(copy, KafkaError)


def test_each_answer_of_a_broker_is_an_error_that_can_be_caught_by_its_name() -> None:
    names = error_names()
    # NONE, and UNSUPPORTED_VERSION, which is known by another name
    assert len(names) == len(error_codes()) - 2
    for name, code in names.items():
        assert type(broker_error(code)) is getattr(parley.errors, name) is getattr(codes, name)
    with pytest.raises(NotLeaderOrFollowerError):
        raise broker_error(codes.NOT_LEADER_OR_FOLLOWER)


def test_no_error_of_a_broker_takes_the_name_of_another_error() -> None:
    assert not error_names().keys() & set(parley.errors.__all__)


def test_a_code_is_known_by_its_name_and_one_without_a_name_is_not() -> None:
    assert {
        name: getattr(codes, name)
        for name in ("NONE", "UNKNOWN_SERVER_ERROR", "KAFKA_STORAGE_ERROR")
    } == {
        "NONE": 0,
        "UNKNOWN_SERVER_ERROR": -1,
        "KAFKA_STORAGE_ERROR": 56,
    }
    for name in ("NOT_A_LEADER", "NotALeaderError"):
        with pytest.raises(AttributeError, match=f"'{name}': no error code of Kafka has that name"):
            getattr(codes, name)


def test_a_named_error_survives_the_way_to_a_worker() -> None:
    error = pickle.loads(pickle.dumps(broker_error(6, "moved", topic="t", partition=1)))
    assert isinstance(error, NotLeaderOrFollowerError)
    assert (error.topic, error.partition, error.broker_message) == ("t", 1, "moved")
