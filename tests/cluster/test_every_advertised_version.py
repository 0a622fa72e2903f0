"""KIP-35, point 3b: every version inside an advertised
range is answered, by every release's profile.

Each API × version × release is asked over plain sockets: once for things that do not exist, and
once with arbitrary contents. None disconnects, but for the one lie of real 4.x brokers (Produce
0-2).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley.versions import release, releases
from parley_laboratory.minimal import minimal_request, one_record
from parley_laboratory.samples import SampleMaker
from parley_laboratory.wire import Wire

RELEASES = list(releases())
LIES = {int(ApiKey.PRODUCE): (0, 1, 2)}
"""What 4.x advertises and closes on (KAFKA-18659)."""


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=request.param, seed=1) as running:
        yield running


def name_of(cluster: LocalCluster) -> str:
    return cluster.broker(1).release


def advertised(name: str) -> Iterator[tuple[ApiKey, int]]:
    for key, versions in release(name).ranges.items():
        for version in versions.versions():
            if not (name.startswith("4.") and version in LIES.get(key, ())):
                yield ApiKey(key), version


class Asking:
    """One connection after another; what closes is noted."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed: list[str] = []
        self.answers = 0
        self._wire: Wire | None = None

    def ask(self, message: Any, version: int) -> Any:
        wire = self._wire = self._wire or Wire(self.address)
        try:
            answer = wire.ask(message, version)
            self.answers += 1
            return answer
        except (ConnectionError, TimeoutError) as error:
            self.closed.append(f"{type(message).__name__} v{version}: {error}: {message!r}"[:500])
            wire.close()
            self._wire = None
            return None

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()


@pytest.fixture
def asking(cluster: LocalCluster) -> Iterator[Asking]:
    one = Asking(cluster.bootstrap_servers)
    yield one
    one.close()


def test_a_minimal_request_is_answered(cluster: LocalCluster, asking: Asking) -> None:
    wanted = list(advertised(name_of(cluster)))
    for key, version in wanted:
        asking.ask(minimal_request(key, version), version)
    assert not asking.closed, "\n".join(asking.closed)
    assert asking.answers == len(wanted)


@pytest.mark.parametrize("seed", [1, 2])
def test_arbitrary_contents_are_answered(cluster: LocalCluster, asking: Asking, seed: int) -> None:
    maker = SampleMaker(Random(seed), most=2, plain=True)
    for key, version in advertised(name_of(cluster)):
        asking.ask(tamed(maker.message(request_class(key), version), version), version)
    assert not asking.closed, "\n".join(asking.closed)


def tamed(message: Any, version: int) -> Any:
    """Take out what a real broker, too, answers late, never, or by closing."""
    if hasattr(type(message), "max_wait_ms"):
        message.max_wait_ms = 0
    if message.API_KEY == ApiKey.PRODUCE:
        message.acks, message.timeout_ms = 1, 0
        for topic in message.topic_data:
            for partition in topic.partition_data:
                partition.records = one_record(min(2, max(0, version - 1)))
    if message.API_KEY == ApiKey.FIND_COORDINATOR:
        message.key_type = 0  # another one closes before 2.3
    return message


def test_the_lie_is_reported(cluster: LocalCluster) -> None:
    name = name_of(cluster)
    for version in LIES[ApiKey.PRODUCE] if name.startswith("4.") else ():
        with Wire(cluster.bootstrap_servers) as wire:
            wire.send(minimal_request(ApiKey.PRODUCE, version), version)
            assert wire.receive_frame() == b""


def test_what_is_advertised_is_what_was_measured(cluster: LocalCluster, asking: Asking) -> None:
    measured = release(name_of(cluster))
    if not measured.answers_api_versions:
        return
    kind: Any = request_class(ApiKey.API_VERSIONS)
    for version in measured.ranges[ApiKey.API_VERSIONS].versions():
        answer = asking.ask(kind(client_software_name="wire", client_software_version="1"), version)
        reported = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert reported == {key: tuple(found) for key, found in measured.ranges.items()}
        if version >= 3:
            levels = {one.name: one.max_version_level for one in answer.finalized_features}
            assert levels == dict(measured.finalized_features)
            shown = {
                f: tuple(r)
                for f, r in measured.supported_features.items()
                if r.min > 0 or version >= 4
            }
            assert {
                f.name: (f.min_version, f.max_version) for f in answer.supported_features
            } == shown
