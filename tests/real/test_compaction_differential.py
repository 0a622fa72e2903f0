"""What compaction leaves of a topic, on a real broker and on the embedded one of its release: the
same batches with the same records at the same offsets.

A scene writes, closes the segment and lets it be cleaned. A real broker's cleaner says in a file
how far it has come. Without PARLEY_REAL_RELEASES an old release and a new one are played.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import pytest

from parley.devcluster import ClusterSettings, LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley.versions import Release, release

from .compacted_sides import BACKOFF_MS, FIRST_CREATION, HOUR_MS, SEGMENT_MS, Compacted
from .conftest import selected_releases
from .transaction_sides import WITHIN_S, Side, Who

OLD, NEW = "0.10.0.1", "4.3.0"
SCENES_OF_OLD = ("every_codec", "tombstones_that_go")  # topics are made by a tool there

CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)


def scene_newest_of_each_key(side: Compacted) -> None:
    side.write([("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")])
    side.write([("b", "2"), ("d", "1")], at_ms=10)
    side.write([("e", "1"), ("e", "2")], at_ms=20)
    side.write([("e", "3")], at_ms=30)
    side.clean()
    side.write([("c", "2"), ("f", "1")], at_ms=40)
    side.clean("other")


def scene_every_codec(side: Compacted) -> None:
    for codec in range(5 if side.release.number >= (2, 1) else 4):
        keys = ("a", f"{codec}", "b", f"{codec}0", "a")
        side.write([(key, f"{codec}" * 20) for key in keys], codec=codec)
        side.write([(f"{codec}0", "x" * 30)], codec=codec)
    side.clean()


def scene_tombstones_that_stay(side: Compacted) -> None:
    side.write([("a", "1"), ("b", "1"), ("c", "1")])
    side.write([("a", None), ("d", "1"), ("b", None)], at_ms=10, codec=1)
    side.write([("b", "2")], at_ms=20)
    for key in ("x", "y", "z"):
        side.clean(key)


def scene_tombstones_that_go(side: Compacted) -> None:
    side.write([("a", "1"), ("b", "1"), ("c", "1")])
    side.write([("a", None), ("d", "1"), ("b", None)], at_ms=10)
    side.write([("b", None)], at_ms=20)
    for key in ("x", "y", "z"):
        side.clean(key)


def scene_several_segments(side: Compacted) -> None:
    """They become one; the topic is compacted only when all of them are there."""
    for number in range(4):
        side.write([("a", f"{number}"), (f"{number}", "x"), ("b", None)], at_ms=20 * number)
        side.roll("last")
    bound = side.end_offset - 1
    side.set_policy("compact")
    side.clean_up_to(bound)


def scene_min_compaction_lag(side: Compacted) -> None:
    side.write([("a", "1"), ("b", "1"), ("a", "2")], at_ms=-3 * HOUR_MS)
    bound = side.end_offset
    side.write([("b", "2"), ("b", "3")], at_ms=-HOUR_MS // 2)
    side.write([("b", "4")])
    side.clean_up_to(bound)


def scene_max_compaction_lag(side: Compacted) -> None:
    side.write([("a", "1"), ("b", "1"), ("a", "2")], at_ms=-3 * HOUR_MS)
    side.clean()


def scene_log_append_time(side: Compacted) -> None:
    side.write([("a", "1"), ("b", "1"), ("c", "x" * 70_000)])
    side.write([("a", "2"), ("d", None)], codec=1)
    bound = side.end_offset
    side.write([("c", "x" * 990_000)])  # a segment of its own
    side.clean_up_to(bound)


def scene_sequences(side: Compacted) -> None:
    one, other = Who("", 777_000, 3), Who("", 888_000, 0)
    side.write([("a", "1"), ("b", "1")], who=one, sequence=0)
    side.write([("a", "2"), ("c", "1")], who=other, sequence=0)
    side.write([("b", "2")], who=one, sequence=2, codec=1)
    side.write([("a", "3"), ("b", "3"), ("c", "2")])
    side.clean()
    side.write([("d", "1")], who=one, sequence=3)
    side.write([("d", "2"), ("e", "1")])
    side.clean()


def scene_transactions(side: Compacted) -> None:
    side.find_coordinator()
    one, other = side.init("one"), side.init("other")
    side.write([("a", "0"), ("b", "0"), ("c", "0")])
    sequence = 0
    for commit, pairs in (
        (True, [("a", "1"), ("d", "1")]), (False, [("b", "aborted")]),
        (True, [("a", "2"), ("c", None)]), (False, [("c", "aborted"), ("e", "aborted")]),
    ):  # fmt: skip
        side.add(one)
        side.write(pairs, who=one, sequence=sequence)
        sequence += len(pairs)
        side.ends(one, commit=commit)
    side.add(other)
    side.write([("f", "1"), ("a", "3")], who=other, sequence=0)
    side.ends(other, commit=True)
    side.clean()
    side.write([("f", "2"), ("d", "2")])
    for key in ("x", "y", "z"):
        side.clean(key)


def scene_an_emptied_batch_at_the_end(side: Compacted) -> None:
    """The last batch that is cleaned is of an aborted transaction, and not its producer's last."""
    side.find_coordinator()
    one, other = side.init("one"), side.init("other")
    side.write([("a", "1")])
    side.add(other)
    side.write([("o", "1")], who=other, sequence=0)
    side.add(one)
    side.write([("a", "aborted")], who=one, sequence=0)
    bound = side.end_offset
    side.roll("x")
    side.marker(one, commit=False)
    side.add(one)
    side.write([("b", "1")], who=one, sequence=1)
    side.marker(one, commit=True)
    side.ends(other, commit=True)
    side.clean_up_to(bound)


SCENES: dict[str, Callable[[Compacted], None]] = {
    name[6:]: play for name, play in list(globals().items()) if name.startswith("scene_")
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "tombstones_that_go": {"delete.retention.ms": "0"},
    "transactions": {"delete.retention.ms": "0"},
    "several_segments": {"cleanup.policy": "delete"},
    "min_compaction_lag": {"min.compaction.lag.ms": str(HOUR_MS)},
    "max_compaction_lag": {
        "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(SEGMENT_MS)
    },
    "log_append_time": {"message.timestamp.type": "LogAppendTime", "segment.bytes": str(1 << 20)},
}  # fmt: skip
"""What a scene's topic has beside, or instead of, what all have."""
SINCE: Mapping[str, tuple[int, ...]] = {
    "log_append_time": FIRST_CREATION,
    "min_compaction_lag": FIRST_CREATION,
    "several_segments": (0, 11),  # settings are altered
    "sequences": (0, 11),
    "transactions": (0, 11),
    "an_emptied_batch_at_the_end": (0, 11),
    "max_compaction_lag": (2, 3),
}
"""The first release that can play a scene."""


ALL = bool(os.environ.get("PARLEY_REAL_RELEASES"))


# -- the two brokers -------------------------------------------------------------------------------


def make_real(broker: RealCluster, found: Release, topic: str, configs: Mapping[str, str]) -> None:
    if found.number < FIRST_CREATION:
        settings = [part for entry in configs.items() for part in ("--config", "=".join(entry))]
        tool = ["kafka.admin.TopicCommand", "--zookeeper", broker.zookeeper_address, "--create"]
        numbers = ["--partitions", "1", "--replication-factor", "1"]
        done = broker.run_java([*tool, "--topic", topic, *numbers, *settings])
        assert done.returncode == 0, done.stdout + done.stderr
        return
    entries = [CreateTopics.CreatableTopicConfig(name=n, value=v) for n, v in configs.items()]
    made = CreateTopics.CreatableTopic(
        name=topic, num_partitions=1, replication_factor=1, configs=entries
    )
    side = Side(broker.bootstrap_servers, found, topic)
    version = min(4, side.newest(ApiKey.CREATE_TOPICS))
    answer = side.ask(CreateTopics(topics=[made], timeout_ms=10_000), version)
    side.close()
    assert answer.topics[0].error_code == 0


def cleaned_up_to(broker: RealCluster, topic: str) -> int:
    """Return how far a real broker has cleaned a topic."""
    file = broker.broker(1).directory / "data" / "cleaner-offset-checkpoint"
    text = file.read_text() if file.exists() else ""
    rows = [line.split() for line in text.splitlines()[2:]]
    return max((int(row[2]) for row in rows if row[:2] == [topic, "0"]), default=-1)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Callable[[str], LocalCluster]]:
    """A function from a release to its embedded broker, whose cleaner looks as often as the real
    ones' do.
    """
    running: dict[str, LocalCluster] = {}

    def get(name: str) -> LocalCluster:
        if name not in running:
            settings = ClusterSettings(log_cleaner_backoff_ms=BACKOFF_MS)
            running[name] = LocalCluster(brokers=1, release=name, settings=settings).start()
        return running[name]

    yield get
    for cluster in running.values():
        cluster.close()


@pytest.mark.parametrize("name", selected_releases() if ALL else (OLD, NEW), scope="session")
@pytest.mark.parametrize("scene", list(SCENES))
def test_compaction_leaves_what_the_real_broker_leaves(
    real_cluster: Callable[[str], RealCluster],
    embedded: Callable[[str], LocalCluster],
    topic_name: str,
    name: str,
    scene: str,
) -> None:
    found = release(name)
    if found.number < SINCE.get(scene, ()) or not (ALL or name == NEW or scene in SCENES_OF_OLD):
        return
    broker, cluster = real_cluster(name), embedded(name)

    def wait_real(bound: int) -> None:
        deadline = time.monotonic() + WITHIN_S
        while cleaned_up_to(broker, topic_name) < bound:
            assert time.monotonic() < deadline, f"{topic_name} was not cleaned up to {bound}"
            threading.Event().wait(0.02)

    def wait_ours(bound: int) -> None:
        state = cluster._cluster.state
        (replica,) = (
            one for one in state.replication.brokers[1].replicas.values() if one.topic == topic_name
        )
        while replica.cleaned.first_dirty < bound:
            cluster.advance(BACKOFF_MS)

    now_ms = time.time_ns() // 1_000_000
    real, ours = (
        Compacted(one.bootstrap_servers, found, topic_name, now_ms=now_ms, cleaned=cleaned)
        for one, cleaned in ((broker, wait_real), (cluster, wait_ours))
    )
    configs = {**real.configs(), **SETTINGS.get(scene, {})}
    make_real(broker, found, topic_name, configs)
    cluster.create_topic(topic_name, configs=configs)
    for side in (real, ours):
        try:
            SCENES[scene](side)
        finally:
            side.close()
    for number, (expected, was) in enumerate(zip(real.looks, ours.looks, strict=True)):
        differ = [pair for pair in zip_longest(expected, was) if pair[0] != pair[1]]
        assert not differ, f"look {number}"
