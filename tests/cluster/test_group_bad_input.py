"""What members get for bad input: members, leaders and bytes that no client of good will sends.

Another member speaks for itself here, request by request, in a group with a consumer; the clock is
virtual.
"""

from __future__ import annotations

import pytest

from parley.client import AsyncClient, AsyncConsumer, AsyncShareConsumer
from parley.client.group.formats import (
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from parley.errors import (
    CommitFailedError,
    ConfigError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidRegularExpressionError,
    InvalidSessionTimeoutError,
    RemoteProtocolError,
    UnknownTopicOrPartitionError,
)
from parley.errors.codes import (
    INVALID_REGULAR_EXPRESSION,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
)
from parley.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from parley.types import TopicPartition

from .lone_member import EVERYTHING, GROUP, MODERN, TOPIC, TP, Lone, Seen, lone

GOOD = encode_subscription(Subscription((TOPIC,)))
LATER = b"\0\7" + GOOD[2:] + b"what is to come"
CUT = GOOD[:9]


class Stranger:
    """A member that says what it is made to say, on a connection of its own."""

    def __init__(self, one: Lone, metadata: bytes = GOOD, kind: str = "consumer") -> None:
        self.one, self.client = one, one.client()
        self._metadata, self._kind = metadata, kind
        one.time.run(self.client.commit_offsets("another", {TP: 0}))
        self.broker = one.cluster.state.coordinators.of(0, GROUP, [1, 2])
        self.joined: JoinGroupResponse | None = None

    def join(self) -> None:
        """Join, and again when the group rebalances; the answer is `joined` when it is there."""
        self._waits = self.one.time.start(self._join(self.client))

    async def _join(self, client: AsyncClient) -> None:
        name = "" if self.joined is None else self.joined.member_id
        while True:
            protocol = JoinGroupRequest.JoinGroupRequestProtocol(
                name="cooperative-sticky", metadata=self._metadata
            )
            request = JoinGroupRequest(
                group_id=GROUP, session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
                member_id=name, protocol_type=self._kind, protocols=[protocol],
            )  # fmt: skip
            answer = await client.request(self.broker, request, 60_000)
            if answer.error_code != MEMBER_ID_REQUIRED:
                self.joined = answer
                return
            name = answer.member_id

    def sync(self, **shares: bytes) -> SyncGroupResponse:
        """Sync, as the leader with everybody's shares."""
        joined = self.joined
        assert joined is not None
        share = SyncGroupRequest.SyncGroupRequestAssignment
        given = {joined.member_id: encode_assignment([]), **shares}
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id,
            protocol_type=self._kind, protocol_name="cooperative-sticky",
            assignments=[share(member_id=name, assignment=data) for name, data in given.items()],
        )  # fmt: skip
        return self.one.time.run(self.client.request(self.broker, request, 60_000))


def led(one: Lone, share: bytes | None) -> AsyncConsumer:
    """Let a stranger lead the group and give a consumer this share, or leave it out."""
    leader = Stranger(one)
    leader.join()
    leader.sync()
    one.consumer = one.join()
    one.go_on(1_000)
    leader.join()
    one.go_on(1_000)
    assert leader.joined is not None
    assert leader.joined.leader == leader.joined.member_id
    (other,) = {found.member_id for found in leader.joined.members} - {leader.joined.member_id}
    leader.sync(**({} if share is None else {other: share}))
    return one.consumer


# -- groups that a member does not fit into --------------------------------------------------------


def test_a_group_of_another_protocol_type_is_refused() -> None:
    with lone("4.3", joins=False) as one:
        worker = Stranger(one, kind="connect")
        worker.join()
        worker.sync()
        one.join()
        for _ in range(2):
            with pytest.raises(InconsistentGroupProtocolError):
                one.go_on(5_000)
        assert len(one.cluster.requests("JoinGroup")) == 3  # two of the worker's: it does not loop


def test_members_without_a_common_assignor_are_refused() -> None:
    with lone("4.3") as one:
        one.join(Seen(), partition_assignment_strategy="range")
        with pytest.raises(InconsistentGroupProtocolError):
            one.go_on(5_000)
        assert one.state == "stable"  # the one that was there first


def test_a_broken_regular_expression_is_refused_by_client_and_coordinator() -> None:
    with lone("4.3", joins=False) as one:
        consumer = AsyncConsumer(one.client(), group_id=GROUP)
        with pytest.raises(ConfigError, match="no regular expression"):
            consumer.subscribe(pattern="events(")
        stranger = Stranger(one)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="A", member_epoch=0, rebalance_timeout_ms=5,
            subscribed_topic_regex="events(", topic_partitions=[],
        )  # fmt: skip
        answer = one.time.run(stranger.client.request(stranger.broker, request))
        assert answer.error_code == INVALID_REGULAR_EXPRESSION
        one.cluster.faults.fail("ConsumerGroupHeartbeat", INVALID_REGULAR_EXPRESSION)
        one.join(group_protocol="consumer")
        with pytest.raises(InvalidRegularExpressionError):
            one.go_on(5_000)


@pytest.mark.parametrize("session_ms", [4_000, 3_600_000])
def test_a_session_that_the_broker_does_not_take_is_named_with_its_bounds(session_ms: int) -> None:
    with lone("4.3", joins=False) as one:
        one.join(session_timeout_ms=session_ms, heartbeat_interval_ms=1_000)
        bounds = r"group\.min\.session\.timeout\.ms .*group\.max\.session\.timeout\.ms"
        with pytest.raises(InvalidSessionTimeoutError, match=bounds) as raised:
            one.go_on(5_000)
        assert f"session_timeout_ms={session_ms}" in str(raised.value)


def test_of_two_processes_with_one_instance_id_the_loser_hears_it_and_does_not_loop() -> None:
    with lone("4.3", group_instance_id="one") as one:
        second = one.join(Seen(), group_instance_id="one")
        for _ in range(2):
            with pytest.raises(FencedInstanceIdError):
                one.go_on(10_000)
        with pytest.raises(FencedInstanceIdError):  # no poll would repair it
            one.time.run(one.consumer.commit())
        one.consumers.remove(one.consumer)
        one.go_on(10_000)
        assert len(second.assignment()) == len(EVERYTHING)
        loser = one.before.member_id
        asked = one.cluster.requests("JoinGroup", client_id="c0")
        assert [entry for entry in asked if entry.message.member_id == loser] == []  # type: ignore[union-attr]


def test_a_poll_that_came_too_late_says_how_late_what_the_limit_is_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with lone("4.3") as one:
        one.time.advance(31_000)
        assert "max_poll_interval_ms=20000" in caplog.text
        with pytest.raises(CommitFailedError) as raised:
            one.time.run(one.consumer.commit({TP: 0}))
        assert "poll sooner or raise max_poll_interval_ms" in str(raised.value.__cause__)


# -- leaders ---------------------------------------------------------------------------------------


def test_a_leader_that_leaves_a_member_out_gives_it_nothing() -> None:
    with lone("4.3", joins=False) as one:
        consumer = led(one, None)
        one.go_on(3_000)
        assert one.seen.calls == [("assigned", [])]
        assert consumer.assignment() == frozenset()
        assert one.state == "stable"


@pytest.mark.parametrize("share", [b"\0", b"\xff\xff\0\0", encode_assignment([TP])[:-7]])
def test_an_assignment_that_is_none_is_raised_by_every_poll(share: bytes) -> None:
    with lone("4.3", joins=False) as one:
        led(one, share)
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                one.go_on(3_000)
        assert one.consumer.assignment() == frozenset()


def test_a_partition_that_is_assigned_twice_is_read_once() -> None:
    twice = b"\0\0" + (2).to_bytes(4, "big") + 2 * (
        len(TOPIC).to_bytes(2, "big") + TOPIC.encode() + b"\0\0\0\2" + 2 * bytes(4)
    ) + b"\xff\xff\xff\xff"  # fmt: skip
    with lone("4.3", joins=False) as one:
        one.produce(5)
        led(one, twice)
        assert one.go_on(4_000) == 5
        assert one.seen.calls == [("assigned", [str(TP)])]


def test_a_partition_that_does_not_exist_is_raised_and_the_others_are_read() -> None:
    nowhere = TopicPartition(TOPIC, 99)
    with lone("4.3", joins=False) as one:
        one.produce(5)
        consumer = led(one, encode_assignment([TP, nowhere]))
        read = 0
        for _ in range(40):
            try:
                read += one.go_on(250)
            except UnknownTopicOrPartitionError as error:
                assert (error.topic, error.partition) == nowhere  # noqa: PT017
        assert read == 5
        health = consumer.health()
        assert health is not None
        assert health.stalled == (nowhere,)


def test_a_topic_that_was_not_subscribed_to_is_not_taken() -> None:
    with lone("4.3", joins=False) as one:
        led(one, encode_assignment([TP, TopicPartition("another", 0)]))
        one.go_on(3_000)
        assert one.seen.calls == []
        assert one.state == "preparing rebalance"  # the leader is to think again


# -- members, for whom this one leads --------------------------------------------------------------


def test_a_subscription_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    with lone("4.3") as one:
        stranger = Stranger(one, LATER)
        stranger.join()
        one.go_on(4_000)
        assert stranger.joined is not None
        assert stranger.joined.error_code == NONE
        # the consumer has given a partition up by now, and joins again
        assert stranger.sync().error_code == REBALANCE_IN_PROGRESS
        stranger.join()
        one.go_on(2_000)
        share = decode_assignment(bytes(stranger.sync().assignment))
        assert {*share, *one.consumer.assignment()} == {TP, TopicPartition(TOPIC, 1)}
        assert len(share) == 1


def test_a_subscription_that_is_cut_short_is_raised_with_the_members_name() -> None:
    with lone("4.3") as one:
        stranger = Stranger(one, CUT)
        stranger.join()
        with pytest.raises(RemoteProtocolError, match="no subscription") as raised:
            one.go_on(4_000)
        assert stranger.joined is not None
        assert stranger.joined.member_id in str(raised.value)
        before = len(one.cluster.requests("JoinGroup"))
        with pytest.raises(RemoteProtocolError):
            one.go_on(4_000)
        assert len(one.cluster.requests("JoinGroup")) == before


# -- topics that cannot be, or are not there -------------------------------------------------------


@pytest.mark.parametrize("name", ["bad name!", "..", "x" * 250, "a/b"])
def test_a_name_that_no_topic_can_have_is_refused_when_it_is_subscribed_to(name: str) -> None:
    with lone("4.3", joins=False) as one:
        consumer = AsyncConsumer(one.client(), group_id=GROUP)
        share = AsyncShareConsumer(one.client(), group_id=GROUP)
        for subscribe in (consumer.subscribe, share.subscribe):
            with pytest.raises(ConfigError, match="is no name of a topic"):
                subscribe([TOPIC, name])
        assert consumer.subscription() == share.subscription() == frozenset()


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_a_topic_that_is_not_there_is_named_once_and_read_when_it_is(
    how: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with lone("4.3", joins=False) as one:
        consumer = one.join(client=one.client(metadata_max_age_ms=1_000), **how)
        one.subscribe(consumer, one.seen, (TOPIC, "misspelt"))
        one.go_on(10_000)
        (said,) = [text for text in caplog.messages if "misspelt" in text]
        assert said.startswith(f"group {GROUP}: no broker knows misspelt")
        one.cluster.create_topic("misspelt", 1)
        one.go_on(10_000)
        assert TopicPartition("misspelt", 0) in consumer.assignment()
