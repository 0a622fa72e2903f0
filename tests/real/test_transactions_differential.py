"""The same transactions at a real broker and at the
embedded one of its release: equal answers, equal logs.

Each scene is played at both; `transaction_sides` says what is asked again and what is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.testing.realbroker import RealCluster
from parley.versions import release
from parley_laboratory.compare import differences

from .conftest import selected_releases
from .transaction_scenes import SCENES
from .transaction_sides import Side

RELEASES = [name for name in selected_releases() if release(name).number >= (0, 11)]


@pytest.fixture(scope="session")
def embedded(tx_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=tx_release) as cluster:
        yield cluster


@pytest.mark.parametrize("tx_release", RELEASES, scope="session")
@pytest.mark.parametrize("scene", list(SCENES))
def test_transactions_are_as_a_real_broker_has_them(
    real_cluster: Callable[[str], RealCluster],
    tx_release: str,
    embedded: LocalCluster,
    topic_name: str,
    scene: str,
) -> None:
    logs: list[list[Any]] = []
    for address in (real_cluster(tx_release).bootstrap_servers, embedded.bootstrap_servers):
        side = Side(address, release(tx_release), topic_name)
        side.make_topic()
        SCENES[scene](side)
        side.close()
        logs.append(side.log)
    real, ours = logs
    found = [
        f"answer {n}: {text}"
        for n, pair in enumerate(zip(real, ours, strict=True))
        for text in differences(*pair)
    ]
    assert not found, "\n".join(found)
