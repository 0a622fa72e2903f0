"""Coordinators that are not ready yet: they still load what they took over (14), or their topics
are being made (15). What each release answers, and that clients come through it; in virtual time.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from parley.client import AsyncClient, OffsetAndMetadata
from parley.devcluster import AsyncLocalCluster, ClusterSettings
from parley.errors import CoordinatorLoadInProgressError
from parley.messages import (
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    ListGroupsRequest,
)

from .coordinator_requests import (
    LOADING,
    NAME,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    OF_GROUPS,
    OF_TRANSACTIONS,
    finding,
    newer,
)
from .lone_member import GROUP, MODERN, SETTINGS, TOPIC, TP, Lone, Seen, lone

OLDER = pytest.mark.matrix
RELEASES = [
    pytest.param(release, marks=[] if release in ("1.1", "3.9", "4.3") else [pytest.mark.matrix])
    for release in ("0.9", "0.11", "1.1", "2.0", "2.4", "2.6", "3.0", "3.9", "4.0", "4.2", "4.3")
]


def codes_in(answer: object) -> set[int]:
    """Return every error code in an answer."""
    if isinstance(answer, list):
        return set[int]().union(*map(codes_in, answer))
    found = set[int]()
    for name in getattr(type(answer), "__slots__", ()):
        value = getattr(answer, name)
        found |= {value} if name.endswith("error_code") else codes_in(value)
    return found


@contextmanager
def coordinators(release: str, **settings: int) -> Iterator[tuple[Lone, AsyncClient]]:
    """A cluster that has a group's offsets and, where the release has them, a transactional id."""
    made = ClusterSettings(
        start_time_ms=SETTINGS.start_time_ms, auto_create_topics=False, **settings
    )  # type: ignore[arg-type]
    with lone(release, joins=False, settings=made) as one:
        client = one.client()
        one.time.run(client.commit_offsets(GROUP, {TP: 7}))
        if not newer("0.11", release):
            asked = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
            one.time.run(client.request(transactions_at(one, client, release), asked))
        yield one, client


def transactions_at(one: Lone, client: AsyncClient, release: str) -> int:
    answer = one.time.run(client.request(None, finding(release, NAME, 1)))
    return max(answer.node_id, *(found.node_id for found in answer.coordinators), 0)


def group_at(cluster: AsyncLocalCluster) -> int:
    state = cluster.state
    return state.group_coordinator.coordinator_of(GROUP, state.image)


def moved(one: Lone, release: str) -> int:
    """Let the other broker coordinate everything; return it."""
    to = 3 - group_at(one.cluster)
    one.cluster.move_group_coordinator(GROUP, to)
    if not newer("0.11", release):
        one.cluster.move_coordinator(NAME, 3 - to)
        one.cluster.move_coordinator(NAME, to)
    return to


@pytest.mark.parametrize("release", RELEASES)
def test_h18_every_api_says_that_the_coordinator_loads_as_its_release_does(release: str) -> None:
    with coordinators(release) as (one, client):
        one.cluster.scenes.hold_loading()
        broker = moved(one, release)
        asked = [one for one in [*OF_GROUPS, *OF_TRANSACTIONS] if not newer(one.since, release)]

        def found() -> list[tuple[str, set[int]]]:
            answers = [
                one.time.run(client.request(broker, each.request, allowed=each.allowed))
                for each in asked
            ]
            return [(type(answer).__name__, codes_in(answer) - {0}) for answer in answers]

        expected = [
            (type(each.request).__name__.replace("Request", "Response"),
             {each.expected(release)} - {0})
            for each in asked
        ]  # fmt: skip
        assert found() == expected
        one.cluster.scenes.release_loading()
        assert all(LOADING not in codes for _, codes in found())


@pytest.mark.parametrize("release", ["3.9", "4.0", "4.3"])
def test_from_4_0_on_a_session_timeout_is_refused_before_anything_is_said_of_the_coordinator(
    release: str,
) -> None:
    """As brokers that coordinate nothing yet were seen to answer: 3.9.1 with 16, 4.1.1 and 4.3.0
    with 26.
    """
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range")
    request = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=1, rebalance_timeout_ms=10_000,
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip
    with coordinators(release) as (one, client):
        one.cluster.scenes.hold_loading()
        broker = moved(one, release)
        answers = [one.time.run(client.request(at, request)) for at in (broker, 3 - broker)]
        newest = release != "3.9"
        expected = [26, 26] if newest else [LOADING, NOT_COORDINATOR]
        assert [answer.error_code for answer in answers] == expected


@pytest.mark.parametrize(("release", "groups"), [("3.9", [GROUP]), ("4.3", [])])
def test_groups_that_are_loaded_are_listed_beside_those_that_are_not_up_to_3_9(
    release: str, groups: list[str]
) -> None:
    with coordinators(release) as (one, client):
        broker = group_at(one.cluster)
        one.cluster.scenes.hold_loading()
        place = one.cluster.state.offsets_partition
        other = next(name for name in map(str, range(100)) if place(name) != place(GROUP))
        one.cluster.move_group_coordinator(other, 3 - broker)
        one.cluster.move_group_coordinator(other, broker)
        answer = one.time.run(client.request(broker, ListGroupsRequest()))
        assert answer.error_code == LOADING
        assert [found.group_id for found in answer.groups] == groups


def test_loading_takes_as_long_as_it_is_set_to() -> None:
    with coordinators("4.3", coordinator_loading_ms=3_000) as (one, client):
        one.time.advance(4_000)  # the first coordinators load as well
        broker = moved(one, "4.3")

        def codes() -> set[int]:
            asked = [
                client.request(broker, DescribeGroupsRequest(groups=[GROUP])),
                client.request(broker, DescribeTransactionsRequest(transactional_ids=[NAME])),
            ]
            return set[int]().union(*(codes_in(one.time.run(each)) for each in asked))

        assert codes() == {LOADING}
        one.time.advance(2_800)
        assert codes() == {LOADING}
        one.time.advance(300)
        assert codes() == {0}


def test_only_the_broker_that_is_held_keeps_on_loading() -> None:
    with coordinators("4.3") as (one, client):
        hasty = one.client(default_api_timeout_ms=2_000)
        first = group_at(one.cluster)
        one.cluster.scenes.hold_loading(3 - first)
        one.cluster.move_group_coordinator(GROUP, 3 - first)
        with pytest.raises(CoordinatorLoadInProgressError):
            one.time.run(hasty.committed_offsets(GROUP, [TP]))
        one.cluster.move_group_coordinator(GROUP, first)
        assert one.time.run(client.committed_offsets(GROUP, [TP])) == {TP: OffsetAndMetadata(7)}


@pytest.mark.parametrize(
    ("release", "how"),
    [
        pytest.param("1.1", {}, marks=OLDER),
        ("3.9", {}),
        ("4.3", {}),
        ("4.3", MODERN),
    ],
)
def test_h18_a_member_goes_on_when_its_coordinator_has_loaded(
    release: str, how: dict[str, object]
) -> None:
    with lone(release, **how) as one:
        one.time.run(one.consumer.commit({TP: 3}))
        one.cluster.scenes.hold_loading()
        one.cluster.move_group_coordinator(GROUP, 3 - group_at(one.cluster))
        one.go_on(4_000)
        late = one.time.start(one.consumer.commit({TP: 4}))
        one.go_on(1_000)
        assert not late.done()
        one.cluster.scenes.release_loading()
        one.go_on(6_000)
        late.result()
        after = one.after()
        assert (after.id_kept, after.lost) == (True, False)
        assert one.time.run(one.consumer.committed(TP)) == OffsetAndMetadata(4)


@pytest.mark.parametrize("how", [{}, MODERN], ids=["classic", "consumer"])
def test_who_joins_while_the_coordinator_loads_is_a_member_afterwards(
    how: dict[str, object],
) -> None:
    with coordinators("4.3") as (one, _):
        one.cluster.scenes.hold_loading()
        one.cluster.move_group_coordinator(GROUP, 3 - group_at(one.cluster))
        one.consumer = one.join(Seen(), **how)
        one.go_on(5_000)
        assert not one.consumer.assignment()
        one.cluster.scenes.release_loading()
        one.go_on(5_000)
        assert len(one.consumer.assignment()) == 2


def test_a_rebalance_that_meets_a_coordinator_that_loads_ends_well() -> None:
    """SyncGroup is answered 14 from 4.0 on, where Java's client raises."""
    with lone("4.3") as one:
        one.cluster.faults.delay("SyncGroup", 2_000, times=1)
        one.consumer.enforce_rebalance("a test")
        one.go_on(1_000)
        one.cluster.scenes.hold_loading()
        one.cluster.move_group_coordinator(GROUP, 3 - group_at(one.cluster))
        one.go_on(5_000)
        one.cluster.scenes.release_loading()
        one.go_on(15_000)
        assert one.after().id_kept


@pytest.mark.parametrize(
    "release", [pytest.param("0.11", marks=OLDER), pytest.param("3.9", marks=OLDER), "4.3"]
)
def test_offsets_in_a_transaction_wait_for_both_coordinators(release: str) -> None:
    with coordinators(release) as (one, client):
        producer = client.transactions.producer(NAME, transaction_timeout_ms=60_000)

        async def begun() -> None:
            await producer.start()
            await producer.begin_transaction()

        one.time.run(begun())
        one.cluster.scenes.hold_loading()
        moved(one, release)
        sending = one.time.start(producer.send_offsets_to_transaction({TP: 9}, GROUP))
        one.time.advance(3_000)
        assert not sending.done()
        one.cluster.scenes.release_loading()
        one.time.until(sending.done)
        sending.result()
        one.time.run(producer.commit_transaction())
        assert one.time.run(client.committed_offsets(GROUP, [TP])) == {TP: OffsetAndMetadata(9)}
        one.time.run(producer.close())


@pytest.mark.parametrize("release", [pytest.param("2.4", marks=OLDER), "4.3"])
def test_a_transaction_goes_on_when_its_coordinator_has_loaded(release: str) -> None:
    """From 4.0 on leaders ask it for each first batch (KIP-890): NOT_ENOUGH_REPLICAS meanwhile."""
    with coordinators(release) as (one, client):
        producer = client.transactions.producer(NAME, transaction_timeout_ms=60_000)

        async def begun() -> None:
            await producer.start()
            await producer.begin_transaction()

        def waits(work: Coroutine[None, None, object]) -> None:
            one.cluster.scenes.hold_loading()
            moved(one, release)
            task = one.time.start(work)
            one.time.advance(3_000)
            assert not task.done()
            one.cluster.scenes.release_loading()
            one.time.until(task.done)
            task.result()

        one.time.run(begun())
        waits(producer.produce(TOPIC, pa.table({"value": ["x"]}), 0))
        waits(producer.commit_transaction())
        one.time.run(producer.close())
        (held,) = one.cluster.transactions().values()
        assert held.state.value == "CompleteCommit"


def test_no_time_limit_of_a_transaction_ends_while_it_is_loaded() -> None:
    with coordinators("4.3") as (one, client):
        producer = client.transactions.producer(NAME, transaction_timeout_ms=5_000)

        async def begun() -> None:
            await producer.start()
            await producer.begin_transaction()
            await producer.produce(TOPIC, pa.table({"value": ["x"]}), 0)

        def state() -> str:
            (held,) = one.cluster.transactions().values()
            return held.state.value

        one.time.run(begun())
        one.cluster.scenes.hold_loading()
        moved(one, "4.3")
        one.time.advance(20_000)
        assert state() == "Ongoing"
        one.cluster.scenes.release_loading()
        one.time.advance(2_000)
        assert state() == "CompleteAbort"


def test_an_operator_waits_for_groups_that_are_being_loaded() -> None:
    with coordinators("4.3") as (one, client):
        one.cluster.scenes.hold_loading()
        one.cluster.move_group_coordinator(GROUP, 3 - group_at(one.cluster))
        calls = [
            one.time.start(client.describe_groups([GROUP])),
            one.time.start(client.list_groups()),
            one.time.start(client.list_group_offsets(GROUP)),
        ]
        one.time.advance(3_000)
        assert not any(call.done() for call in calls)
        one.cluster.scenes.release_loading()
        one.time.until(lambda: all(call.done() for call in calls))
        for call in calls:
            call.result()
        one.time.run(client.delete_groups([GROUP]))


@pytest.mark.parametrize(
    "release", [pytest.param("0.9", marks=OLDER), pytest.param("2.4", marks=OLDER), "4.3"]
)
def test_h19_where_nobody_leads_the_partition_there_is_no_coordinator(release: str) -> None:
    with coordinators(release, offsets_topic_replication_factor=1) as (one, client):
        broker = group_at(one.cluster)
        one.time.run(one.cluster.kill_broker(broker))
        asked = finding(release, GROUP)
        heartbeat = HeartbeatRequest(group_id=GROUP, member_id="m", generation_id=1)
        assert NOT_AVAILABLE in codes_in(one.time.run(client.request(3 - broker, asked)))
        answer = one.time.run(client.request(3 - broker, heartbeat))
        assert answer.error_code == NOT_COORDINATOR
        looking = one.time.start(client.committed_offsets(GROUP, [TP]))
        one.time.advance(3_000)
        assert not looking.done()
        one.time.run(one.cluster.start_broker(broker))
        one.time.until(looking.done)
        assert looking.result() == {TP: OffsetAndMetadata(7)}


@pytest.mark.parametrize(
    "release", [pytest.param("0.9", marks=OLDER), pytest.param("0.11", marks=OLDER), "4.3"]
)
def test_the_topics_of_coordinators_take_time_to_be_made(release: str) -> None:
    made = ClusterSettings(
        start_time_ms=SETTINGS.start_time_ms,
        auto_create_topics=False,
        coordinator_topics_creation_ms=2_000,
    )
    with lone(release, joins=False, settings=made) as one:
        client = one.client()
        kinds = {GROUP: 0} if newer("0.11", release) else {GROUP: 0, NAME: 1}

        def codes() -> list[set[int]]:
            asked = [finding(release, name, kind) for name, kind in kinds.items()]
            return [codes_in(one.time.run(client.request(1, each))) for each in asked]

        assert all(NOT_AVAILABLE in found for found in codes())
        assert "__consumer_offsets" not in one.cluster.state.image.topics
        one.time.advance(1_900)
        assert all(NOT_AVAILABLE in found for found in codes())
        one.time.advance(200)
        assert codes() == [{0}] * len(kinds)


def test_clients_ask_for_their_coordinators_until_they_are_there() -> None:
    made = ClusterSettings(
        start_time_ms=SETTINGS.start_time_ms,
        auto_create_topics=False,
        coordinator_topics_creation_ms=2_000,
    )
    with lone("4.3", joins=False, settings=made) as one:
        one.consumer = one.join(Seen())
        client = one.client()
        producer = client.transactions.producer(NAME)
        starting = one.time.start(producer.start())
        committing = one.time.start(client.commit_offsets("other", {TP: 1}))
        one.go_on(1_000)
        assert not one.consumer.assignment()
        assert not starting.done()
        assert not committing.done()
        one.go_on(6_000)
        assert len(one.consumer.assignment()) == 2
        starting.result()
        committing.result()
        one.time.run(producer.close())
