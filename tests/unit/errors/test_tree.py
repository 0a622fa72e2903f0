"""The classes of errors that do not come from a code."""

from __future__ import annotations

import pickle

import pytest

from parley import errors
from parley.errors import (
    BrokersUnreachable,
    ConfigError,
    CorruptRecordError,
    DataLossError,
    KafkaError,
    NetworkError,
    NotInstalledError,
    RemoteProtocolError,
    UnsupportedVersionError,
    nearest_hint,
)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert getattr(errors, name).__doc__


def test_one_base_catches_everything() -> None:
    classes = [
        one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)
    ]
    assert len(classes) > 10
    assert all(issubclass(one, KafkaError) for one in classes)


def test_unreachable_brokers_are_listed_with_their_stages() -> None:
    error = BrokersUnreachable(
        {
            "a:1": NetworkError("connection refused", address="a:1", stage="connect"),
            "b:2": NetworkError("no such host", address="b:2", stage="name lookup"),
        }
    )
    assert "a:1" in str(error)
    assert "connection refused" in str(error)
    assert "no such host" in str(error)
    assert error.retriable
    assert isinstance(error, NetworkError)


def test_of_many_unreachable_brokers_the_first_few_are_listed() -> None:
    error = BrokersUnreachable(
        {f"a:{port}": NetworkError("refused", stage="connect") for port in range(1, 1001)}
    )
    assert "a:5: refused; and 995 more)" in str(error)
    assert len(str(error)) < 250
    assert len(error.failures) == 1000


def test_the_nearest_known_name_is_offered_and_nothing_far_off() -> None:
    assert nearest_hint("subscibe", ["subscribe", "assign"]) == ' Did you mean "subscribe"?'
    assert nearest_hint("xyz", ["subscribe", "assign"]) == ""


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("x"),
        CorruptRecordError("x", topic="t", partition=1, offset=5),
        DataLossError("x", topic="t", partition=1, expected_offset=5, available_offset=9),
        UnsupportedVersionError(
            "x", api="FETCH", client_range=(4, 18), broker_range=None, first_release="0.11"
        ),
        NetworkError("x", address="a:1", stage="connect"),
        BrokersUnreachable({"a:1": NetworkError("x", stage="connect")}),
        NotInstalledError("parley.devcluster", "cluster"),
    ],
)
def test_errors_keep_their_facts_on_the_way_to_another_process(error: KafkaError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    facts = {name: value for name, value in vars(error).items() if name != "failures"}
    assert {name: vars(copy)[name] for name in facts} == facts


def test_whose_fault_it_is_follows_from_the_class() -> None:
    assert issubclass(CorruptRecordError, RemoteProtocolError)
    assert issubclass(ConfigError, ValueError)
    assert issubclass(NotInstalledError, ModuleNotFoundError)
    assert not DataLossError("x").retriable
