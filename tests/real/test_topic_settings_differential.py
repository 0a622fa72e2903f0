"""What settings of topics do, on a real broker and on the embedded one of its release: the same
answers to the same requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley.versions import release
from parley_laboratory.compare import differences

from .test_devcluster_differential import Side, batch

CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)

Incremental: Any = request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS)
Metadata: Any = request_class(ApiKey.METADATA)


class Topic:
    """A topic with settings; `code` is what its creation was answered."""

    def __init__(
        self, side: Side, suffix: str, configs: dict[str, str], *, only_tried: bool = False
    ) -> None:
        self._side = side
        self.where = {"name": f"{side.topic}{suffix}"}
        made = CreateTopics.CreatableTopic(
            **self.where, num_partitions=1, replication_factor=1, configs=entries(configs)
        )
        asked = CreateTopics(topics=[made], timeout_ms=10_000, validate_only=only_tried)
        answer = side.ask(asked, note=False).topics[0]
        self.code = answer.error_code
        side.log.append((f"creation of {self.where['name']} {configs}", 0, self.code))
        if self.code == 0 and not only_tried:
            self.where["topic_id"] = answer.topic_id
            while self._fetch(note=False).responses[0].partitions[0].error_code:
                pass  # a real broker may not have taken up its leadership yet

    def _fetch(self, *, note: bool = True) -> Any:
        return self._side.fetch(0, note=note, **self.where)

    def produce(self, *batches: bytes, acks: int = -1) -> None:
        """Write batches; note the answers and what can be read then."""
        for data in batches:
            self._side.produce(data, acks=acks, **self.where)
        self._fetch()


def entries(configs: dict[str, str]) -> list[Any]:
    return [CreateTopics.CreatableTopicConfig(name=n, value=v) for n, v in configs.items()]


def scene_fewer_replicas_than_min_isr(side: Side) -> None:
    topic = Topic(side, "-isr", {"min.insync.replicas": "2"})
    topic.produce(batch(1), acks=1)
    if side.release.number < (3, 7):
        return  # acks=-1 is refused until the time is up: clients ask again
    topic.produce(batch(1))


def scene_colliding_names(side: Side) -> None:
    Topic(side, "-a.b", {})
    Topic(side, "-a_b", {})
    name = f"{side.topic}-a_b"
    asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=name)])
    side.ask(asked, 1, note=False)
    code = side.ask(asked, 1, note=False).topics[0].error_code
    side.log.append(("creation on demand", 1, code))


def scene_timestamps_too_far(side: Side) -> None:
    if side.release.ranges[ApiKey.PRODUCE].max < 3:
        return
    now_ms = int(time.time() * 1000)
    hours = [batch(3, timestamp_ms=now_ms + 3_600_000 * away) for away in (-2, 0, 2)]
    for which in ("difference", "before", "after"):
        bounded = Topic(side, f"-{which}", {f"message.timestamp.{which}.max.ms": "60000"})
        if bounded.code == 0:
            bounded.produce(*hours)
            bounded.produce(batch(2, timestamp_ms=now_ms + 3_600_000, codec=1))
    Topic(side, "-default", {}).produce(*hours)
    if side.release.number >= (3, 6):
        both = {"message.timestamp.before.max.ms": "60000", "cleanup.policy": "compact"}
        Topic(side, "-both", both).produce(*hours)


def scene_batches_larger_than_a_segment(side: Side) -> None:
    settings = {"segment.bytes": str(1 << 20), "max.message.bytes": "3000000"}
    topic = Topic(side, "-segment", settings)
    large = {"size": 400_000, "max_batch_bytes": 3_000_000}
    topic.produce(batch(2, **large), batch(3, **large), batch(3, codec=1, **large))
    topic.produce(batch(3, **large), acks=1)
    if side.release.ranges[ApiKey.PRODUCE].min < 2:
        messages = batch(3, magic=1, **large)
        side.produce(messages, 2, **topic.where)


CREATIONS = (
    "cleanup.policy=foo", "cleanup.policy=", "cleanup.policy=compact, delete",
    "compression.gzip.level=0", "compression.gzip.level=-1", "compression.gzip.level=10",
    "compression.lz4.level=0", "compression.type=foo", "compression.zstd.level=23",
    "delete.retention.ms=-1", "delete.retention.ms=x", "file.delete.delay.ms=-1",
    "flush.messages=0", "flush.messages=-1", "flush.ms=-1",
    "follower.replication.throttled.replicas=*", "index.interval.bytes=-1",
    "leader.replication.throttled.replicas=abc", "leader.replication.throttled.replicas=0:1,1:1",
    "local.retention.ms=-3", "max.compaction.lag.ms=0", "message.format.version=0.10.0",
    "message.format.version=9.9", "message.format.version=foo",
    "message.timestamp.after.max.ms=-1", "message.timestamp.before.max.ms=1000",
    "message.timestamp.difference.max.ms=1000", "message.timestamp.type= LogAppendTime ",
    "min.cleanable.dirty.ratio=2", "min.compaction.lag.ms=10;max.compaction.lag.ms=5",
    "min.insync.replicas=0", "preallocate= TRUE ", "remote.log.copy.disable=true",
    "remote.storage.enable=false", "remote.storage.enable=true", "retention.bytes=-5",
    "retention.ms=-2", "retention.ms=1_0", "retention.ms=99999999999999999999",
    "segment.bytes=10000", "segment.bytes=13", "segment.index.bytes=1", "segment.jitter.ms=-1",
    "segment.ms=0", "unclean.leader.election.enable=maybe",
)  # fmt: skip


def scene_values_at_creation(side: Side) -> None:
    for number, text in enumerate(CREATIONS):
        configs = dict(entry.split("=") for entry in text.split(";"))
        Topic(side, f"-{number}", configs, only_tried=True)


def scene_values_afterwards(side: Side) -> None:
    topic = Topic(side, "-altered", {})
    for text in CREATIONS:
        changes = [
            Incremental.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in (entry.split("=") for entry in text.split(";"))
        ]
        resource = Incremental.AlterConfigsResource(
            resource_type=2, resource_name=topic.where["name"], configs=changes
        )
        answer = side.ask(Incremental(resources=[resource], validate_only=True), note=False)
        if answer is not None:
            side.log.append((f"alteration {text}", 0, answer.responses[0].error_code))


SCENES: dict[str, Callable[[Side], None]] = {
    name[6:]: play for name, play in list(globals().items()) if name.startswith("scene_")
}


@pytest.fixture(scope="session")
def embedded(real_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=real_release) as cluster:
        yield cluster


@pytest.mark.parametrize("scene", list(SCENES))
def test_settings_act_as_on_the_real_broker(
    real_broker: Any, real_release: str, embedded: LocalCluster, topic_name: str, scene: str
) -> None:
    found, logs = release(real_release), []
    if found.number < (0, 11):
        return  # settings of topics are not measured there
    for address in (real_broker.bootstrap_servers, embedded.bootstrap_servers):
        side = Side(address, found, topic_name)
        SCENES[scene](side)
        side.close()
        logs.append(side.log)
    real, ours = logs
    differing = [
        f"answer {n}: {text}"
        for n, pair in enumerate(zip(real, ours, strict=True))
        for text in differences(*pair)
    ]
    assert not differing, "\n".join(differing)
