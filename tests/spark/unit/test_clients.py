"""One client per cluster and process, and not too many."""

from __future__ import annotations

import pytest

from parley.client import Client, ClientOptions
from parley.spark import clients


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(clients, "_clients", type(clients._clients)())
    closed: list[str] = []
    monkeypatch.setattr(Client, "close", lambda self: closed.append(self.options.bootstrap_servers))
    return closed


def test_equal_options_share_a_client_and_others_do_not() -> None:
    one = clients.client_for(ClientOptions(bootstrap_servers="a:1"))
    assert clients.client_for(ClientOptions(bootstrap_servers="a:1")) is one
    assert clients.client_for(ClientOptions(bootstrap_servers="a:1", client_id="me")) is not one


def test_the_client_used_least_recently_is_closed(empty: list[str]) -> None:
    names = [f"h{number}:1" for number in range(clients.CAPACITY)]
    for name in names:
        clients.client_for(ClientOptions(bootstrap_servers=name))
    kept = clients.client_for(ClientOptions(bootstrap_servers=names[0]))
    assert empty == []
    clients.client_for(ClientOptions(bootstrap_servers="one-more:1"))
    assert empty == [names[1]]
    assert clients.client_for(ClientOptions(bootstrap_servers=names[0])) is kept
