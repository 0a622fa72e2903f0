"""Rules of members that other files do not name, over the wire and in virtual time."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from parley.client import AsyncConsumer, OffsetAndMetadata, TopicPartition
from parley.client.consumer.options import ConsumerOptions
from parley.client.group.classic.requests import leave_error
from parley.client.group.formats import decode_subscription
from parley.devcluster import ClusterSettings
from parley.errors import (
    BrokerError,
    CommitFailedError,
    ConfigError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from parley.messages import LeaveGroupResponse

from ..support import health_of
from .lone_member import (
    CLASSIC,
    EVERYTHING,
    GROUP,
    MODERN,
    PARTITIONS,
    TOPIC,
    TP,
    Seen,
    beats,
    lone,
)

FRESH = {"metadata_max_age_ms": 10_000}


# -- the coordinator -------------------------------------------------------------------------------


def test_g1_between_two_look_ups_there_is_a_pause_that_grows() -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.faults.fail("FindCoordinator", 15, times=4)
        one.consumer = one.join()
        one.go_on(6_000)
        asked = [entry.at_ms for entry in one.cluster.requests("FindCoordinator")]
        assert len(asked) == 5
        pauses = [after - before for before, after in itertools.pairwise(asked)]
        assert min(pauses) >= 80  # 100 ms, less a fifth
        assert pauses[-1] > pauses[0]
        assert one.state == "stable"


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_g1_members_of_one_client_look_their_coordinator_up_together(how: dict[str, str]) -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.faults.delay("FindCoordinator", 500)
        client = one.client()
        for _ in range(5):
            one.join(Seen(), client, **how)
        one.go_on(15_000)
        assert len(one.cluster.requests("FindCoordinator")) == 1
        assert {health_of(consumer).state for consumer in one.consumers} == {"stable"}
        (beat, *_) = one.cluster.requests("ConsumerGroupHeartbeat" if how else "Heartbeat")
        one.cluster.clear_requests()
        one.cluster.move_group_coordinator(GROUP, to=3 - beat.broker)
        one.go_on(15_000)
        assert len(one.cluster.requests("FindCoordinator")) == 1
        assert {health_of(consumer).state for consumer in one.consumers} == {"stable"}


def test_g2_a_slow_fetch_holds_no_heartbeat_up() -> None:
    with lone("4.3") as one:
        one.cluster.faults.delay("Fetch", 5_000)
        one.go_on(5_000)
        assert len(one.cluster.requests("Heartbeat")) >= 4
        assert one.cluster.requests("Fetch")


def test_g3_a_session_without_an_answer_costs_the_connection_and_not_the_id() -> None:
    with lone("4.3") as one:
        one.cluster.faults.drop("Heartbeat")
        one.go_on(8_000)  # the session; the coordinator has put the member out by then
        assert one.cluster.requests("FindCoordinator")
        one.go_on(6_000)
        assert one.state == "stable"


@pytest.mark.parametrize("how", [{}, MODERN])
def test_g5_a_group_without_a_name_is_none(how: dict[str, str]) -> None:
    consumer = AsyncConsumer(group_id="", **how)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="subscribe needs a group_id"):
        consumer.subscribe([TOPIC])


# -- joining and leaving ---------------------------------------------------------------------------


def test_g8_a_join_may_take_as_long_as_the_slowest_member() -> None:
    with lone("4.3") as one:
        one.cluster.faults.delay("JoinGroup", 24_000, times=1)  # within the poll interval + 5 s
        one.consumer.enforce_rebalance("a test")
        one.go_on(26_000)
        assert one.state == "stable"
        assert one.consumer.group_metadata().member_id != ""
        assert not one.cluster.requests("FindCoordinator")


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, 25), (5, 25)])
def test_g14_an_answer_to_a_farewell_says_it_per_member(version: int, code: int) -> None:
    member = LeaveGroupResponse.MemberResponse(member_id="me", error_code=code)
    error = leave_error(LeaveGroupResponse(members=[member] if code else []), version)
    assert (error.code if isinstance(error, BrokerError) else 0) == code


def test_g15_reasons_are_those_of_java_and_of_255_characters_at_most() -> None:
    with lone("4.3") as one:
        one.consumer.enforce_rebalance("x" * 300)
        one.go_on(2_000)
        one.subscribe(one.consumer, one.seen, (TOPIC, "another"))
        one.go_on(2_000)
        reasons = [entry.message.reason for entry in one.cluster.requests("JoinGroup")]  # type: ignore[union-attr]
        assert reasons == ["x" * 255, "subscription has changed"]


@pytest.mark.parametrize(
    ("release", "watches"), [("4.3", True), pytest.param("2.5", False, marks=pytest.mark.matrix)]
)
def test_g18_a_static_leader_that_returns_assigns_nothing_and_watches_where_it_knows(
    release: str, watches: bool
) -> None:
    with lone(release, group_instance_id="one") as one:
        one.stop(one.consumer)
        one.consumer = one.join(client=one.client(**FRESH), group_instance_id="one")
        one.go_on(2_000)
        (sync,) = one.cluster.requests("SyncGroup")
        assert sync.message.assignments == []  # type: ignore[union-attr]
        generation = one.consumer.group_metadata().generation_id
        assert generation == one.before.generation_id
        one.cluster.add_partitions(TOPIC, PARTITIONS + 1)
        one.go_on(40_000)
        assert (one.consumer.group_metadata().generation_id > generation) is watches
        assert len(one.consumer.assignment()) == PARTITIONS + watches


def test_g19_a_static_member_says_no_farewell() -> None:
    with lone("4.3", group_instance_id="one") as one:
        one.stop(one.consumer)
        assert not one.cluster.requests("LeaveGroup")


@pytest.mark.parametrize(("release", "user_data"), [("0.9", b""), ("0.10.1", None), ("4.3", None)])
def test_g22_user_data_is_null_but_where_a_leader_of_0_9_could_not_read_it(
    release: str, user_data: bytes | None
) -> None:
    with lone(release, joins=False) as one:
        one.consumer = one.join(partition_assignment_strategy="range")
        one.go_on(2_000)
        (protocol,) = one.cluster.requests("JoinGroup")[-1].message.protocols  # type: ignore[union-attr]
        assert decode_subscription(bytes(protocol.metadata)).user_data == user_data


@pytest.mark.parametrize(
    ("strategy", "gives_up"), [("range,cooperative-sticky", True), ("cooperative-sticky", False)]
)
def test_g33_a_member_is_cooperative_if_all_its_assignors_are(
    strategy: str, gives_up: bool
) -> None:
    with lone("4.3", partition_assignment_strategy=strategy) as one:
        one.consumer.enforce_rebalance("a test")
        one.go_on(2_000)
        assert (("revoked", EVERYTHING) in one.seen.calls) is gives_up


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_g42_partitions_of_a_topic_that_was_deleted_are_given_up(how: dict[str, str]) -> None:
    with lone("4.3", joins=False) as one:
        one.consumer = one.join(client=one.client(**FRESH), **how)
        one.cluster.create_topic("another", 1)
        one.subscribe(one.consumer, one.seen, (TOPIC, "another"))
        one.go_on(8_000)
        assert TopicPartition("another", 0) in one.consumer.assignment()
        one.cluster.delete_topic("another")
        one.go_on(40_000)
        assert ("revoked", ["another-0"]) in one.seen.calls
        assert one.consumer.assignment() == {TopicPartition(TOPIC, at) for at in range(PARTITIONS)}


@pytest.mark.parametrize("release", ["2.3", "4.3"])
def test_g42_a_topic_that_goes_before_its_position_is_known_is_no_error_of_a_poll(
    release: str,
) -> None:
    """Its reader cannot find the position, and the leader does not know yet that the topic is gone:
    Java looks for the position until the group has taken the partition away.
    """
    gone = TopicPartition("another", 0)
    with lone(release, joins=False) as one:
        one.consumer = one.join(client=one.client(metadata_max_age_ms=15_000))  # it leads
        one.go_on(3_000)
        one.cluster.create_topic(gone.topic, 1)
        seen = Seen()
        reader = one.join(seen)
        one.subscribe(reader, seen, (gone.topic,))
        one.cluster.faults.fail("OffsetFetch", 14, times=1_000)
        while gone not in reader.assignment():
            one.go_on(250)
        one.cluster.delete_topic(gone.topic)
        one.cluster.faults.clear()
        one.go_on(8_000)  # raises what a poll raises
        assert reader.assignment() == {gone}
        assert health_of(reader).stalled == (gone,)
        one.go_on(20_000)
        assert ("revoked", [str(gone)]) in seen.calls
        assert not reader.assignment()


# -- where a partition begins ----------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_a_topic_that_may_not_be_read_is_raised_by_polls_and_the_others_are_read(
    how: dict[str, str],
) -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.create_topic("hidden", 1)
        one.cluster.faults.fail("Metadata", 29, times=-1, topic="hidden")
        one.consumer = one.join(client=one.client(metadata_max_age_ms=1_000), **how)
        one.subscribe(one.consumer, one.seen, (TOPIC, "hidden"))
        one.produce(5)
        raised: list[str | None] = []
        read = 0
        for _ in range(60):
            try:
                read += one.go_on(250)
            except TopicAuthorizationFailedError as error:
                raised.append(error.topic)
        assert (len(raised) > 2, set(raised)) == (True, {"hidden"})
        assert (read, one.state) == (5, "stable")
        one.cluster.faults.clear()
        with contextlib.suppress(TopicAuthorizationFailedError):  # of the last answer
            one.go_on(1_000)
        one.go_on(15_000)
        assert TopicPartition("hidden", 0) in one.consumer.assignment()


def test_a_poll_that_waits_hears_of_a_topic_that_may_not_be_read() -> None:
    with lone("4.3", joins=False) as one:
        one.cluster.create_topic("hidden", 1)
        one.cluster.faults.fail("Metadata", 29, times=-1, topic="hidden")
        consumer = AsyncConsumer(one.client(), group_id=GROUP)
        one.time.run(consumer.start())
        one.subscribe(consumer, one.seen, ("hidden",))
        with pytest.raises(TopicAuthorizationFailedError, match="hidden"):
            one.time.run(consumer.getone())
        one.time.run(consumer.stop())


def test_g45_without_a_commit_a_member_begins_at_the_records_of_the_last_minutes() -> None:
    with lone("4.3", joins=False, settings=ClusterSettings()) as one:  # by the time of day
        now_ms = one.cluster.now_ms
        one.produce(5, at_ms=now_ms - 3_600_000)
        one.produce(3, at_ms=now_ms - 60_000)
        one.consumer = one.join(auto_offset_reset="by_duration:PT10M")
        assert one.go_on(3_000) == 3


class Seeking(Seen):
    """Begins at an offset of its own."""

    consumer: AsyncConsumer

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        for tp in assigned:
            self.consumer.seek(tp, 3)


def test_g45_where_a_listener_seeks_nobody_asks_for_committed_offsets() -> None:
    with lone("4.3", joins=False) as one:
        for partition in range(PARTITIONS):
            one.produce(8, partition)
        listener = Seeking()
        one.consumer = listener.consumer = one.join(listener)
        assert one.go_on(3_000) == 5 * PARTITIONS
        assert not one.cluster.requests("OffsetFetch")
        assert not one.cluster.requests("ListOffsets")


def test_g45_a_commit_comes_before_the_policy() -> None:
    with lone("4.3", joins=False) as one:
        one.produce(8)
        one.consumer = one.join(auto_offset_reset="by_duration:PT10M")
        one.go_on(2_000)
        one.time.run(one.consumer.commit({TP: 6}))
        one.stop(one.consumer)
        one.consumer = one.join(auto_offset_reset="latest")
        assert one.go_on(3_000) == 2


@pytest.mark.parametrize("text", ["-PT1S", "PT-1S", "P", "PT", "1h", "P1M"])
def test_g45_a_duration_that_is_negative_or_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ISO 8601"):
        ConsumerOptions(auto_offset_reset=f"by_duration:{text}")


def test_a_commit_says_which_partitions_it_could_not_commit_and_why() -> None:
    with lone("4.3") as one:
        there, gone = TP, TopicPartition(TOPIC, 77)
        core = one.consumer._core
        with pytest.raises(KafkaError) as raised:
            one.time.run(
                core.group._commits.commit(  # type: ignore[union-attr]
                    {there: OffsetAndMetadata(1), gone: OffsetAndMetadata(1)},
                    core.cluster.deadline(300),
                )
            )
        assert "77" in str(raised.value)
        assert one.time.run(one.consumer.committed(there)) == OffsetAndMetadata(1)


# -- the consumer protocol -------------------------------------------------------------------------


def test_g48_a_member_makes_its_id_and_keeps_it_when_it_is_fenced() -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.fail("ConsumerGroupHeartbeat", 110)
        one.go_on(12_000)
        ids = {message.member_id for message in beats(one)}
        assert ids == {one.before.member_id}
        assert len(one.before.member_id) == 22  # a UUID in base64
        assert one.state == "stable"


def test_g49_the_coordinator_says_how_often_heartbeats_go() -> None:
    quick = ClusterSettings(
        group_consumer_heartbeat_interval_ms=1_000, start_time_ms=1_700_000_000_000
    )
    with lone("4.3", settings=quick, **MODERN) as one:
        one.go_on(10_000)
        assert 9 <= len(beats(one)) <= 11


@pytest.mark.parametrize(
    "how",
    [
        {**MODERN, "session_timeout_ms": 10_000},
        {**MODERN, "heartbeat_interval_ms": 1_000},
        {**MODERN, "partition_assignment_strategy": "range"},
        {"group_remote_assignor": "uniform"},
    ],
    ids=lambda how: list(how)[-1],
)
def test_g49_options_of_the_other_protocol_are_refused(how: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=list(how)[-1]):
        ConsumerOptions(**how)  # type: ignore[arg-type]


def test_g50_one_heartbeat_at_a_time() -> None:
    with lone("4.3", **MODERN) as one:
        one.cluster.faults.delay("ConsumerGroupHeartbeat", 3_000)
        one.go_on(30_000)
        sent = [entry.at_ms for entry in one.cluster.requests("ConsumerGroupHeartbeat")]
        assert min(after - before for before, after in itertools.pairwise(sent)) >= 3_000


def test_g53_what_is_given_up_is_acknowledged_at_the_old_epoch_and_then_another_gets_it() -> None:
    with lone("4.3", **MODERN) as one:
        epoch = one.before.generation_id
        second = Seen()
        other = one.join(second, **MODERN)
        one.go_on(20_000)
        says = [(m.member_epoch, m.topic_partitions) for m in beats(one)]
        acknowledged = [at for at, owned in says if owned is not None]
        assert acknowledged[0] == epoch
        assert (
            one.consumer.group_metadata().generation_id
            == other.group_metadata().generation_id
            > epoch
        )
        gave = [parts for what, parts in one.seen.calls if what == "revoked"]
        assert len(gave) == 1
        assert ("assigned", gave[0]) in second.calls


def test_g58_a_commit_that_goes_again_leaves_out_what_was_given_up_meanwhile() -> None:
    """With the epoch of now the coordinator would take it, over the commit of
    the partition's next owner.
    """
    with lone("4.3", **MODERN) as one:
        one.produce(5, 0)
        one.produce(5, 1)
        one.go_on(1_000)
        one.cluster.faults.fail("OffsetCommit", 113, times=-1)
        commit = one.time.start(one.consumer.commit())
        one.join(Seen(), **MODERN)
        one.go_on(20_000)
        assert not commit.done() or isinstance(commit.exception(), CommitFailedError)
        one.cluster.faults.clear()
        one.time.until(commit.done)
        failed = commit.exception()
        assert isinstance(failed, CommitFailedError)
        assert set(failed.failures).isdisjoint(one.consumer.assignment())
        for tp in failed.failures:
            assert one.time.run(one.consumer.committed(tp)) is None


def test_g59_a_pattern_is_matched_by_the_client_which_sends_names() -> None:
    with lone("4.3", joins=False) as one:
        client = one.client()
        consumer = AsyncConsumer(client, group_id=GROUP, auto_offset_reset="earliest", **MODERN)  # type: ignore[arg-type]
        one.consumers.append(consumer)
        one.time.run(consumer.start())

        async def subscribing() -> None:
            consumer.subscribe(pattern="sh.*")

        one.time.run(subscribing())
        one.go_on(8_000)
        assert len(consumer.assignment()) == PARTITIONS
        assert {
            tuple(m.subscribed_topic_names) for m in beats(one) if m.subscribed_topic_names
        } == {(TOPIC,)}
        assert not any(getattr(m, "subscribed_topic_regex", None) for m in beats(one))


def test_g60_to_enforce_a_rebalance_does_nothing_here() -> None:
    with lone("4.3", **MODERN) as one:
        one.consumer.enforce_rebalance("a test")
        one.go_on(6_000)
        assert one.consumer.group_metadata() == one.before


# -- in transactions (KIP-447) ---------------------------------------------------------------------


@pytest.mark.parametrize("how", [CLASSIC, MODERN], ids=["classic", "consumer"])
@pytest.mark.parametrize("others", [True, False], ids=["others", "nobody else"])
def test_a_member_that_was_fenced_sends_no_offsets_in_a_transaction(
    how: dict[str, object], others: bool
) -> None:
    """Nobody's offsets are taken, so who is no member any more must not be named as nobody."""
    with lone("4.3", **how) as one:
        producer = one.client().transactions.producer("copier")
        one.time.run(producer.start())
        if others:
            one.join(**how)
            one.go_on(8_000)
        mine = sorted(one.consumer.assignment())[0]
        one.cluster.groups.expire_member(GROUP, one.consumer.group_metadata().member_id)
        one.time.advance(5_500)  # a heartbeat brings the news, and no poll shows it
        assert one.state in ("unjoined", "joining")
        assert mine in one.consumer.assignment()

        async def copying() -> None:
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({mine: 1}, one.consumer.group_metadata())

        with pytest.raises(KafkaError):
            one.time.run(copying())
        one.time.run(producer.abort_transaction())
        one.go_on(8_000)
        assert one.state == "stable"
        one.time.run(producer.close())
