"""Every version inside every advertised range is truly
served, and what lies outside is refused as it should be.

The requests go over plain blocking sockets, so that no client's choice of versions stands in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.devcluster.handlers import HANDLERS, SERVED_APIS
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.messages import decode_response, request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey
from parley.types import ZERO_UUID
from parley.versions import releases
from parley_laboratory.minimal import minimal_request
from parley_laboratory.wire import Wire

TOPIC, GROUP = "events", "readers"
ABSENT = {
    ApiKey.OFFSET_COMMIT: {0, 35},  # v0 of KRaft releases, which have no ZooKeeper
    ApiKey.OFFSET_FETCH: {0, 35},
    ApiKey.JOIN_GROUP: {25},
    ApiKey.HEARTBEAT: {25},
    ApiKey.LEAVE_GROUP: {0, 25},
    ApiKey.SYNC_GROUP: {23, 25},
    ApiKey.DESCRIBE_GROUPS: {0, 69},
    ApiKey.SHARE_GROUP_HEARTBEAT: {42, 35},  # 35: share groups are off in 4.1
    ApiKey.SHARE_GROUP_DESCRIBE: {69, 35},
    ApiKey.SHARE_FETCH: {42, 35},
    ApiKey.SHARE_ACKNOWLEDGE: {123, 35},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {0, 3, 35},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {0, 35},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {69, 35},
    ApiKey.SASL_HANDSHAKE: {34},
    ApiKey.DELETE_TOPICS: {3},
    ApiKey.DELETE_RECORDS: {3},
    ApiKey.DESCRIBE_CONFIGS: {0, 3},
    ApiKey.ALTER_CONFIGS: {-1, 3, 40},
    ApiKey.SASL_AUTHENTICATE: {34},
    ApiKey.CREATE_PARTITIONS: {3},
    ApiKey.DELETE_GROUPS: {69},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {-1, 3, 40},
    ApiKey.OFFSET_DELETE: {69},
    ApiKey.DESCRIBE_QUORUM: {0, 3},
    ApiKey.DESCRIBE_PRODUCERS: {3},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {35, 42},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {35, 69},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {3},
    ApiKey.ADD_PARTITIONS_TO_TXN: {0, 3},
    ApiKey.ADD_OFFSETS_TO_TXN: {49},
    ApiKey.END_TXN: {49},
    ApiKey.TXN_OFFSET_COMMIT: {3},
    ApiKey.DESCRIBE_TRANSACTIONS: {105},
}
"""What is said about things that do not exist, where `a_request` asks for such."""

HEAD_OF_V99 = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + (7).to_bytes(4, "big")
RELEASES = list(releases())
ANSWERING = [name for name, found in releases().items() if found.answers_api_versions]


def records(magic: int) -> bytes:
    rows = [Record(i, 1_000 + i, 0, b"k", b"value %d" % i) for i in range(3)]
    made = encode_batches(
        columns_from_records(rows, with_offsets=False), None, WriteOptions(magic=magic)
    )
    return b"".join(bytes(batch.data) for batch in made)


def a_request(key: ApiKey, version: int, topic_id: bytes) -> Any:
    """Return a request that should succeed in that version."""
    kind = request_class(key)
    by_id = {"topic_id": topic_id}
    match key:
        case ApiKey.PRODUCE:
            partition = kind.PartitionProduceData(
                index=0, records=records(min(2, max(0, version - 1)))
            )
            where = by_id if version >= 13 else {"name": TOPIC}
            topic = kind.TopicProduceData(**where, partition_data=[partition])
            return kind(acks=-1, timeout_ms=1_000, topic_data=[topic])
        case ApiKey.FETCH:
            partition = kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
            where = by_id if version >= 13 else {"topic": TOPIC}
            topic = kind.FetchTopic(**where, partitions=[partition])
            return kind(max_wait_ms=10, min_bytes=1, topics=[topic])
        case ApiKey.LIST_OFFSETS:
            partition = kind.ListOffsetsPartition(partition_index=0, timestamp=-1)
            return kind(
                replica_id=-1, topics=[kind.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
            )
        case ApiKey.METADATA:
            return kind(topics=[kind.MetadataRequestTopic(name=TOPIC)])
        case ApiKey.OFFSET_COMMIT:
            partition = kind.OffsetCommitRequestPartition(
                partition_index=0, committed_offset=2, committed_metadata="x"
            )
            where = by_id if version >= 10 else {"name": TOPIC}
            topic = kind.OffsetCommitRequestTopic(**where, partitions=[partition])
            return kind(group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic])
        case ApiKey.OFFSET_FETCH:
            if version < 8:
                topic = kind.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
                return kind(group_id=GROUP, topics=[topic])
            where = by_id if version >= 10 else {"name": TOPIC}
            topic = kind.OffsetFetchRequestTopics(**where, partition_indexes=[0])
            return kind(groups=[kind.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])
        case ApiKey.FIND_COORDINATOR:
            return kind(coordinator_keys=[GROUP]) if version >= 4 else kind(key=GROUP)
        case ApiKey.API_VERSIONS:
            return kind(client_software_name="wire", client_software_version="1")
        case ApiKey.CREATE_TOPICS:
            topic = kind.CreatableTopic(
                name=f"new-{version}", num_partitions=1, replication_factor=1
            )
            return kind(topics=[topic])
        case ApiKey.DELETE_TOPICS:
            named = kind(topic_names=["absent"]) if version < 6 else None
            return named or kind(topics=[kind.DeleteTopicState(name="absent")])
        case ApiKey.INIT_PRODUCER_ID:
            return kind(transactional_id=None, transaction_timeout_ms=1_000)
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            partition = kind.OffsetForLeaderPartition(partition=0, leader_epoch=0)
            return kind(topics=[kind.OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])])
        case _:
            return minimal_request(key, version)


def codes(message: Any) -> Iterator[int]:
    """Yield every error code in a response."""
    for name in type(message).__slots__:
        value = getattr(message, name, None)
        if name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list):
            for entry in value:
                if hasattr(type(entry), "__slots__"):
                    yield from codes(entry)


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=request.param, seed=1) as running:
        running.create_topic(TOPIC)
        # OffsetFetch v0 answers an error where there is nothing
        committed = {(TOPIC, 0): CommittedOffset(2)}
        running._call(
            lambda: running._cluster.state.group_coordinator.commit_offsets(
                GROUP, committed, now_ms=0
            )
        )
        yield running


@pytest.fixture
def wire(cluster: LocalCluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap_servers) as connected:
        yield connected


def topic_id_of(cluster: LocalCluster) -> bytes:
    state = cluster._cluster.state
    return state.image.topics[TOPIC].topic_id


@pytest.mark.parametrize(
    "key", [ApiKey(key) for key in sorted(SERVED_APIS)], ids=lambda key: key.name.lower()
)
def test_every_advertised_version_is_served(cluster: LocalCluster, wire: Wire, key: ApiKey) -> None:
    profile = cluster._cluster.broker(1).profile
    if key not in profile.ranges:
        return  # the release has no such API: test_what_is_not_advertised_is_refused asks it
    lie = profile.behaviour.closes.get(key, ())
    for version in profile.ranges[key].versions():
        request = a_request(key, version, topic_id_of(cluster))
        if version in lie:
            with Wire(cluster.bootstrap_servers) as other:
                other.send(request, version)
                assert other.receive_frame() == b"", (
                    "advertised, and closed on all the same (KAFKA-18659)"
                )
            continue
        answer = wire.ask(request, version)
        assert set(codes(answer)) <= ABSENT.get(key, {0}), f"{key.name} v{version}: {answer}"


@pytest.mark.parametrize(
    "key", [ApiKey(k) for k in sorted(SERVED_APIS) if k != 18], ids=lambda key: key.name.lower()
)
def test_what_is_not_advertised_is_refused(cluster: LocalCluster, key: ApiKey) -> None:
    profile = cluster._cluster.broker(1).profile
    if not profile.release.answers_api_versions:
        return  # 0.9 answers any version: test_0_9_mis_answers_and_swallows
    handled = HANDLERS[key].versions
    outside = [
        v for v in handled.versions() if key not in profile.ranges or v not in profile.ranges[key]
    ]
    for version in outside:
        with Wire(cluster.bootstrap_servers) as other:
            other.send(a_request(key, version, ZERO_UUID), version)
            assert other.receive_frame() == b"", (
                f"{key.name} v{version} is not advertised by {profile.name}"
            )


def test_api_versions_reports_the_measured_ranges(cluster: LocalCluster, wire: Wire) -> None:
    found = cluster._cluster.broker(1).profile.release
    if not found.answers_api_versions:
        return
    kind = request_class(ApiKey.API_VERSIONS)
    for version in found.ranges[18].versions():
        answer = wire.ask(kind(client_software_name="wire", client_software_version="1"), version)
        reported = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert reported == {key: tuple(found.ranges[key]) for key in found.ranges}


def test_api_versions_above_the_maximum_is_error_35_in_v0_shape(
    cluster: LocalCluster, wire: Wire
) -> None:
    found = cluster._cluster.broker(1).profile.release
    if not found.answers_api_versions:
        return
    kind = request_class(ApiKey.API_VERSIONS)
    own = found.ranges[18].max
    if own == 4:
        wire.send_frame(HEAD_OF_V99 + b"\xff\xff\x00")
    else:
        wire.send(kind(), own + 1)
    frame = wire.receive_frame()
    # The sizes and contents measured on real brokers.
    expected = (
        b"\x00\x23\x00\x00\x00\x00"
        if found.number < (2, 4)
        else (b"\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00" + own.to_bytes(2, "big"))
    )
    assert frame[4:] == expected
    assert wire.ask(kind(), 0).error_code == 0, "and the connection goes on"


UNREADABLE = {
    "without tags": b"\x00\x04wire",
    "null client id, without tags": b"\xff\xff",
    "tags that end early": b"\x00\x04wire\x05",
    "a client id that ends early": b"\x00\x40wi",
    "no client id": b"",
}
FLEXIBLE_ONLY = {"without tags", "null client id, without tags", "tags that end early"}


@pytest.mark.parametrize("name", list(UNREADABLE))
def test_api_versions_above_the_maximum_needs_a_header_that_can_be_read(
    cluster: LocalCluster, name: str
) -> None:
    """Since 2.4 every version above the own one is taken for a flexible one:
    its header ends with tags.
    """
    found = cluster._cluster.broker(1).profile.release
    if not found.answers_api_versions:
        return
    with Wire(cluster.bootstrap_servers) as other:
        other.send_frame(HEAD_OF_V99 + UNREADABLE[name])
        answered = found.number < (2, 4) and name in FLEXIBLE_ONLY
        assert bool(other.receive_frame()) is answered


def test_the_quorum_is_the_controller_and_the_others_observe_it() -> None:
    kind = request_class(ApiKey.DESCRIBE_QUORUM)
    part = kind.PartitionData(partition_index=0)
    asked = kind(topics=[kind.TopicData(topic_name="__cluster_metadata", partitions=[part])])
    with LocalCluster(brokers=3) as cluster, Wire(cluster.bootstrap_servers.split(",")[1]) as wire:
        for version in range(3):
            answer = wire.ask(asked, version)
            (found,) = answer.topics[0].partitions
            assert (answer.error_code, found.error_code, found.leader_id) == (0, 0, 1)
            assert [voter.replica_id for voter in found.current_voters] == [1]
            assert sorted(observer.replica_id for observer in found.observers) == [2, 3]
            assert found.high_watermark > 0
            assert [node.node_id for node in answer.nodes] == ([1] if version >= 2 else [])
        lost = kind(
            topics=[kind.TopicData(topic_name="events", partitions=[part]), asked.topics[0]]
        )
        answer = wire.ask(lost, 2)
        assert [topic.partitions[0].error_code for topic in answer.topics] == [3, 3]


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("parley", True), ("a-b.c", True), ("", False), ("-x", False), ("é", False)],
)
def test_client_names_are_checked_since_2_4(
    cluster: LocalCluster, wire: Wire, name: str, allowed: bool
) -> None:
    found = cluster._cluster.broker(1).profile.release
    if 18 not in found.ranges or found.ranges[18].max < 3:
        return
    kind = request_class(ApiKey.API_VERSIONS)
    answer = wire.ask(kind(client_software_name=name, client_software_version="1.0"), 3)
    assert answer.error_code == (0 if allowed else 42)


def test_0_9_mis_answers_and_swallows() -> None:
    with LocalCluster(brokers=1, release="0.9") as cluster, Wire(cluster.bootstrap_servers) as wire:
        cluster.create_topic(TOPIC)
        api_versions, metadata = request_class(ApiKey.API_VERSIONS), request_class(ApiKey.METADATA)
        wire.send(api_versions(), 0)
        wire.send(request_class(ApiKey.LIST_GROUPS)(), 0)
        assert int.from_bytes(wire.receive_frame()[:4], "big") == 2, (
            "only the second of the canary's two is answered"
        )
        wire.send(metadata(topics=[metadata.MetadataRequestTopic(name=TOPIC)]), 4)
        frame = wire.receive_frame()
        _, answer = decode_response(ApiKey.METADATA, 0, memoryview(frame))
        assert [topic.name for topic in answer.topics] == [TOPIC], "Metadata v4 is answered as v0"


def test_an_unknown_key_closes(cluster: LocalCluster, wire: Wire) -> None:
    if not cluster._cluster.broker(1).profile.release.answers_api_versions:
        return
    wire.send_frame(b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff")
    assert wire.receive_frame() == b""


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x01", b"\x7f\xff\xff\xff"])
def test_a_body_that_cannot_be_read_closes(cluster: LocalCluster, wire: Wire, body: bytes) -> None:
    found = cluster._cluster.broker(1).profile.release
    if not found.answers_api_versions:
        return
    version = found.ranges[3].min
    head = (
        (3).to_bytes(2, "big") + version.to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\xff\xff"
    )
    wire.send_frame(head + body)
    assert wire.receive_frame() == b""


@pytest.mark.parametrize("key", list(HANDLERS), ids=lambda key: ApiKey(key).name.lower())
def test_an_injected_error_fits_every_version(key: int) -> None:
    refuse: Callable[[Any, int, int], Any] = HANDLERS[key].refuse
    from parley.messages import encode_response

    for version in HANDLERS[key].versions.versions():
        request = a_request(ApiKey(key), version, bytes(16))
        answer = refuse(request, version, 15)
        frame = b"".join(bytes(part) for part in encode_response(answer, version, 5))
        _, read = decode_response(key, version, memoryview(frame))
        assert 15 in set(codes(read)), f"v{version}: {read}"
