"""C17, B1, B2: hostile inputs both ways. `make test-hostile` sends a million
each way, these tests 20,000.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from parley.devcluster.handlers import HANDLERS
from parley.schema import ApiKey
from parley_laboratory.hostile import (
    HostileAccount,
    attack_brokers,
    attack_kernels,
    attack_messages,
    attack_readers,
    attack_whole_clients,
    readers as hostile_readers,
)

SEEDS = range(5)
EACH = 4_000
"""Five seeds of so many make the 20,000."""


@pytest.mark.parametrize("seed", SEEDS)
def test_c17_what_a_client_reads_can_only_be_refused(seed: int) -> None:
    account = attack_readers(EACH, seed)
    assert not account.breaches, account.text("at what a client reads")
    assert account.inputs == EACH
    # What is always refused at the first byte proves nothing: some inputs have to get through.
    assert account.outcomes["decoded"] > EACH / 50
    assert account.outcomes["records read"] > EACH / 50


@pytest.mark.parametrize("seed", SEEDS)
def test_b01_brokers_of_all_ages_go_on_serving(seed: int) -> None:
    account = attack_brokers(EACH, seed)
    assert not account.breaches, account.text("at embedded brokers")
    assert account.inputs == EACH
    assert account.outcomes["answered"] > EACH / 10


@pytest.mark.parametrize("seed", SEEDS)
def test_c17_floods_take_no_kernel_long(seed: int) -> None:
    account = attack_kernels(EACH // 20, seed)
    assert not account.breaches, account.text("at both kernels")
    assert account.inputs == EACH // 20
    assert account.outcomes["read"] > EACH / 200


def test_c17_whole_clients_lose_nothing_that_was_acknowledged() -> None:
    account = attack_whole_clients(10, 0)
    assert not account.breaches, account.text("at whole clients")
    assert account.outcomes["returned"] > 10


@pytest.mark.matrix
def test_floods_of_every_shape_are_decoded_or_refused() -> None:
    account = attack_messages(2_000, 0)
    assert not account.breaches, account.text("at decoders of messages")
    assert account.outcomes["decoded"] > 500


@pytest.fixture
def fails() -> Callable[..., object]:
    def handle(*arguments: object, **named: object) -> object:
        raise IndexError("a bug")

    return handle


def test_a_bug_of_a_reader_is_found(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[..., object]
) -> None:
    monkeypatch.setattr(hostile_readers, "decode_response", fails)
    assert "IndexError: a bug" in attack_readers(10, 0).text("with a bug")


def test_a_bug_of_a_handler_is_found(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[..., object]
) -> None:
    monkeypatch.setitem(
        HANDLERS, ApiKey.METADATA, dataclasses.replace(HANDLERS[ApiKey.METADATA], handle=fails)
    )
    account = attack_brokers(100, 0, ("4.3.0",))
    assert any("IndexError('a bug')" in breach for breach in account.breaches), account.text(
        "with a bug"
    )


def test_growing_without_bound_is_a_breach() -> None:
    account = HostileAccount(seed=1, memory_before_mib=-1_000.0).close()
    assert account.breaches
