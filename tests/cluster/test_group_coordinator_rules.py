"""Rules of the coordinator that other files do not name, over the wire and in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from parley.client import AsyncClient, OffsetAndMetadata
from parley.devcluster import ClusterSettings
from parley.errors import GroupMaxSizeReachedError, OffsetMetadataTooLargeError, RequestTimedOut
from parley.messages import JoinGroupRequest, OffsetCommitRequest
from parley.schema import VersionRange

from .lone_member import GROUP, SETTINGS, TOPIC, TP, Lone, Seen, lone

BY_NAME = VersionRange(1, 9)


@contextmanager
def coordinator(release: str, **settings: int) -> Iterator[tuple[Lone, AsyncClient, int]]:
    """A cluster without members, a client, and the broker that coordinates the group."""
    made = ClusterSettings(
        start_time_ms=SETTINGS.start_time_ms, auto_create_topics=False, **settings
    )  # type: ignore[arg-type]
    with lone(release, joins=False, settings=made) as one:
        client = one.client()
        one.time.run(client.commit_offsets(GROUP, {TP: 0}))
        yield one, client, one.cluster.requests("OffsetCommit")[-1].broker


def joining(protocol_type: str, *names: str) -> JoinGroupRequest:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name=name) for name in names]
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=protocol_type,
        protocols=protocols,
    )


@pytest.mark.parametrize(
    ("release", "code"), [("0.9", -1), ("0.10.2", -1), ("0.11", None), ("1.0", 23), ("4.3", 23)]
)
def test_h3_the_first_member_needs_protocols_and_each_release_says_so_in_its_way(
    release: str, code: int | None
) -> None:
    with coordinator(release) as (one, client, broker):
        asked = one.time.start(client.request(broker, joining("consumer"), 60_000))
        one.time.advance(50_000)
        if code is not None:
            assert asked.result().error_code == code
            return
        behind = one.time.start(client.request(broker, joining("consumer", "range"), 5_000))
        one.time.until(behind.done)
        assert isinstance(behind.exception(), RequestTimedOut)  # the connection is stuck
        one.time.until(asked.done)
        assert asked.exception() is not None


@pytest.mark.parametrize(("release", "code"), [("0.9", 0), ("0.11", 0), ("1.0", 23), ("4.3", 23)])
def test_h3_a_protocol_type_is_demanded_from_1_0_on(release: str, code: int) -> None:
    with coordinator(release, group_initial_rebalance_delay_ms=0) as (one, client, broker):
        answer = one.time.run(client.request(broker, joining("", "range")))
        assert answer.error_code == code
        if not code:
            assert answer.leader == answer.member_id != ""


@pytest.mark.parametrize("release", ["0.9", "2.4", "4.3"])
def test_h11_outsiders_commit_where_there_are_no_members_and_to_the_group_without_a_name(
    release: str,
) -> None:
    with coordinator(release) as (one, client, broker):

        def commit(group: str) -> int:
            part = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=5)
            topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
            request = OffsetCommitRequest(group_id=group, topics=[topic])
            (found,) = one.time.run(client.request(broker, request, allowed=BY_NAME)).topics
            return found.partitions[0].error_code

        assert commit(GROUP) == 0
        one.cluster.move_group_coordinator("", broker)
        assert commit("") == 0
        one.join(Seen())
        one.go_on(6_000)
        assert commit(GROUP) == 25


@pytest.mark.parametrize("release", ["0.9", "4.3"])
def test_h12_a_topic_that_does_not_exist_is_refused_by_itself(release: str) -> None:
    with coordinator(release) as (one, client, broker):
        part = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=5)
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=[part])
            for name in (TOPIC, "nowhere")
        ]
        request = OffsetCommitRequest(group_id=GROUP, topics=topics)
        answer = one.time.run(client.request(broker, request, allowed=BY_NAME))
        assert {one.name: one.partitions[0].error_code for one in answer.topics} == {
            TOPIC: 0,
            "nowhere": 3,
        }
        assert one.time.run(client.committed_offsets(GROUP, [TP])) == {TP: OffsetAndMetadata(5)}


@pytest.mark.parametrize(("release", "limited"), [("2.1", False), ("2.2", True), ("4.3", True)])
def test_h16_a_group_takes_as_many_members_as_its_coordinator_is_set_to(
    release: str, limited: bool
) -> None:
    with coordinator(release, group_max_size=2) as (one, _, _):
        for _ in range(2):
            one.join(Seen())
            one.go_on(6_000)
        third = one.join(Seen())
        if limited:
            with pytest.raises(GroupMaxSizeReachedError):
                one.go_on(6_000)
            one.stop(third)
        one.go_on(6_000)
        healths = [consumer.health() for consumer in one.consumers]
        assert [health.state for health in healths if health] == ["stable"] * (3 - limited)


@pytest.mark.parametrize("release", ["2.4", "4.3"])
def test_h21_offsets_go_with_their_topic(release: str) -> None:
    with coordinator(release) as (one, client, _):
        one.time.run(client.commit_offsets(GROUP, {TP: 5}))
        one.cluster.delete_topic(TOPIC)
        one.cluster.create_topic(TOPIC, 2)
        one.time.advance(1_000)
        assert one.time.run(client.committed_offsets(GROUP, [TP])) == {TP: None}


def test_h21_metadata_that_is_too_large_is_refused() -> None:
    with coordinator("4.3") as (one, client, _):
        fits, too_large = (OffsetAndMetadata(1, "x" * length) for length in (4_096, 4_097))
        one.time.run(client.commit_offsets(GROUP, {TP: fits}))
        with pytest.raises(OffsetMetadataTooLargeError):
            one.time.run(client.commit_offsets(GROUP, {TP: too_large}))
