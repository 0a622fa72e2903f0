"""Groups and offsets in `__consumer_offsets`: what is written, and read by the next coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from parley.devcluster.state.agreement import check_agreement
from parley.devcluster.state.group_coordinator.replay import replay
from parley.devcluster.state.group_coordinator.topic import OFFSETS_TOPIC, LogUnavailable
from parley.devcluster.state.groups.classic.group import ClassicGroup, Rules
from parley.devcluster.state.groups.classic.members import Join
from parley.devcluster.state.groups.modern.group import Heartbeat, Settings, Topics
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.devcluster.state.groups.records import (
    GroupRecord,
    RecordRules,
    decode,
    encode,
    encode_offset,
)
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Prepared, Replica
from parley.devcluster.state.scenes import SceneState
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors.codes import NOT_COORDINATOR
from parley.messages import OffsetCommitKey, OffsetCommitValue
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    encode_batches,
    keyed_batch,
)

from .driven_state import DrivenState

GROUP = "g"
FIRST, SECOND = ("t", 0), ("t", 1)


class Scene(DrivenState):
    """That, and its coordinator."""

    def __init__(self, directory: Path | None = None, first_id: int = 1) -> None:
        super().__init__(directory, first_id)
        self.coordinator = self.state.group_coordinator

    def commit(self, offset: int, at: tuple[str, int] = FIRST, group: str = GROUP) -> None:
        self.coordinator.commit_offsets(group, {at: CommittedOffset(offset, 0, "", 7)}, now_ms=7)

    def committed(self, at: tuple[str, int] = FIRST) -> int | None:
        found = self.state.groups.committed(GROUP, *at)
        return None if found is None else found.offset

    @property
    def leader(self) -> Replica:
        found = self.coordinator.topic.leader_of(self.coordinator.topic.partition_of(GROUP))
        assert found is not None
        return found

    def move(self) -> None:
        """Let another broker coordinate the group."""
        to = self.leader.broker_id % 3 + 1
        self.state.move_group_coordinator(GROUP, to, now_ms=0)
        assert self.leader.broker_id == to

    def written(self) -> list[GroupRecord]:
        """Return the newest record of each key."""
        found = replay(self.leader).latest.items()
        records = [decode(key, stored.value) for key, stored in found]
        return [one for one in records if one is not None]

    def classic(self) -> ClassicGroup:
        """Bring one member into a generation."""
        group = self.state.classic_groups.made(GROUP, Rules())
        join = Join(client_id="c", client_host="/h", protocols=(("range", b"r"),))
        joined = group.join(join, 0).answer
        assert joined is not None
        group.sync(group.members[joined.member_id], {joined.member_id: b"all"}, 0)
        return group

    def beat(
        self,
        epoch: int,
        owned: frozenset[tuple[bytes, int]] | None = None,
        settings: Settings | None = None,
    ) -> int:
        known = {
            name: (topic.topic_id, len(topic.partitions))
            for name, topic in self.state.image.topics.items()
        }
        topics = Topics(known, lambda regex: frozenset(["t"]))
        said = Heartbeat("M", epoch, owned=owned, client_host="/h")
        if epoch == 0:
            said = Heartbeat(
                "M", 0, rebalance_timeout_ms=5, regex="t.*", owned=frozenset(), client_host="/h"
            )
        answer = self.state.mixed_groups.heartbeat(GROUP, said, topics, settings or Settings(), 0)
        return answer.epoch


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_first_write_makes_the_topic(scene: Scene) -> None:
    assert OFFSETS_TOPIC not in scene.state.image.topics
    scene.commit(3)
    topic = scene.state.image.topics[OFFSETS_TOPIC]
    assert topic.internal
    assert topic.configs["cleanup.policy"] == "compact"
    assert [len(one.replicas) for one in topic.partitions] == [3] * 5
    assert [one.leader for one in topic.partitions] == [1, 2, 3, 1, 2]
    # Java: "g".hashCode() == 103
    assert scene.coordinator.topic.partition_of(GROUP) == 103 % 5


def test_what_is_deleted_gets_tombstones(scene: Scene) -> None:
    for at in (FIRST, SECOND):
        scene.commit(3, at)
    scene.coordinator.delete_offsets(GROUP, [FIRST, ("t", 9)], now_ms=0)
    assert [one.value is None for one in scene.written()] == [True, False]
    group = scene.classic()
    group.leave(next(iter(group.members)), None, 0)
    scene.state.delete_group(GROUP, now_ms=0)
    assert [one.value for one in scene.written()] == [None, None, None]
    assert scene.state.groups.names() == []


def test_offsets_of_a_topic_that_was_deleted_do_not_come_back(scene: Scene) -> None:
    scene.commit(3)
    scene.state.delete_topic("t", now_ms=0)
    assert [one.value for one in scene.written()] == [None]
    scene.state.create_topic("t", [[1]], {}, now_ms=0)
    scene.move()
    assert scene.committed() is None


@pytest.mark.parametrize("how", ["move", "kill"])
def test_everything_comes_back(how: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.commit(3)
    scene.commit(4)
    group = scene.classic()
    before = dict(group.members)
    scene.commit(5, SECOND, "other")
    if how == "move":
        scene.move()
    else:
        scene = scene.kill(tmp_path)
    again = scene.state.classic_groups.get(GROUP)
    assert again is not None
    assert again is not group
    assert (again.generation, again.leader, again.protocol) == (1, group.leader, "range")
    assert [(one.id, one.assignment) for one in again.members.values()] == [
        (one.id, b"all") for one in before.values()
    ]
    assert scene.committed() == 4
    assert scene.state.groups.committed("other", *SECOND) == CommittedOffset(5, 0, "", 7)
    scene.commit(6)
    assert scene.committed() == 6


@pytest.mark.parametrize("rules", [RecordRules(), RecordRules(hashes_topics=False)])
def test_a_group_of_the_consumer_protocol_comes_back(scene: Scene, rules: RecordRules) -> None:
    scene.coordinator.topic.rules_of = lambda broker_id: rules
    epoch = scene.beat(0)
    group = scene.state.consumer_groups.get(GROUP)
    assert group is not None
    scene.move()
    again = scene.state.consumer_groups.get(GROUP)
    assert again is not None
    assert again is not group
    assert (again.epoch, again.target_epoch, again.target) == (epoch, epoch, group.target)
    assert again.metadata == group.metadata
    assert again.members["M"].subscription == group.members["M"].subscription
    assert again.members["M"].matched == {"t"}
    assert again.members["M"].assignment == group.members["M"].assignment
    assert again.members["M"].since == group.members["M"].since
    assert scene.beat(epoch, again.members["M"].assignment.owned) == epoch
    scene.beat(-1)
    scene.move()
    last = scene.state.consumer_groups.get(GROUP)
    assert last is not None
    assert last.members == {}
    assert last.epoch == epoch + 1
    scene.state.delete_group(GROUP, now_ms=0)
    assert all(one.value is None for one in scene.written())


def test_the_topics_that_an_older_leader_wrote_give_way_to_the_hash_of_a_newer_one(
    scene: Scene,
) -> None:
    scene.coordinator.topic.rules_of = lambda broker_id: RecordRules(hashes_topics=False)
    epoch = scene.beat(0)
    scene.coordinator.topic.rules_of = lambda broker_id: RecordRules()
    scene.state.add_partitions("t", [[1]], now_ms=0)
    assert scene.beat(epoch, frozenset()) == epoch + 1
    group = scene.state.consumer_groups.get(GROUP)
    scene.move()
    again = scene.state.consumer_groups.get(GROUP)
    assert again is not None
    assert group is not None
    assert again.metadata == group.metadata


def test_the_hash_of_the_topics_comes_back_as_it_was_written(scene: Scene) -> None:
    """A coordinator keeps the number, whatever the topics are by then (KIP-1101)."""
    scene.beat(0)
    group = scene.state.consumer_groups.get(GROUP)
    scene.state.add_partitions("t", [[1]], now_ms=0)
    scene.move()
    again = scene.state.consumer_groups.get(GROUP)
    assert group is not None
    assert again is not None
    assert again.metadata_hash == group.metadata_hash
    assert again.metadata_hash != 0


def test_topics_that_are_gone_after_a_move_raise_the_epoch(scene: Scene) -> None:
    epoch = scene.beat(0)
    scene.state.delete_topic("t", now_ms=0)
    scene.move()
    assert scene.beat(epoch, frozenset()) == epoch + 1


def test_an_epoch_that_rises_before_a_target_is_due_is_written(scene: Scene) -> None:
    later = Settings(assignment_interval_ms=1_000)
    epoch = scene.beat(0, settings=later)
    scene.state.add_partitions("t", [[1]], now_ms=0)
    assert scene.beat(epoch, settings=later) == epoch  # the target is as it was
    scene.move()
    again = scene.state.consumer_groups.get(GROUP)
    assert again is not None
    assert again.epoch == epoch + 1


@pytest.mark.parametrize("released", [True, False])
def test_who_leaves_takes_its_topics_out_of_the_hash(scene: Scene, released: bool) -> None:
    """As 4.3.0 wrote it: 0 where nobody is left (tests/golden/groups)."""
    epoch = scene.beat(0)
    group = scene.state.consumer_groups.get(GROUP)
    assert group is not None
    if released:
        scene.beat(-1)
    else:
        scene.state.consumer_groups.expire_member(group, "M", 0)
    assert (group.epoch, group.metadata, group.metadata_hash) == (epoch + 1, {}, 0)


def test_topics_that_changed_meanwhile_raise_the_epoch(scene: Scene) -> None:
    epoch = scene.beat(0)
    scene.state.add_partitions("t", [[1]], now_ms=0)
    scene.move()
    assert scene.beat(epoch, frozenset()) == epoch + 1


def test_what_did_not_change_is_not_written_again(scene: Scene) -> None:
    epoch = scene.beat(0)
    end = scene.leader.log.end_offset
    group = scene.state.consumer_groups.get(GROUP)
    assert group is not None
    scene.beat(epoch, group.members["M"].assignment.owned)
    assert scene.leader.log.end_offset == end
    group.changed.add("M")
    scene.state.consumer_groups.write(group, 0)
    assert scene.leader.log.end_offset == end


def test_who_waits_hears_that_the_coordinator_is_another(scene: Scene) -> None:
    scene.commit(1)
    group = scene.state.classic_groups.made(GROUP, Rules())
    parked = [
        group.join(Join(client_id=name, client_host="/h", protocols=(("range", b""),)), 0)
        for name in ("a", "b")
    ][1]
    assert parked.answer is None
    scene.move()
    assert parked.answer is not None
    assert parked.answer.error_code == NOT_COORDINATOR
    assert scene.state.classic_groups.get(GROUP) is None  # it was never written
    assert scene.committed() == 1


def test_without_a_leader_nothing_is_known_and_nothing_changes(scene: Scene) -> None:
    scene.commit(3)
    down = [scene.state.broker_down(broker_id, now_ms=0) for broker_id in (1, 2, 3)]
    assert scene.committed() is None
    with pytest.raises(LogUnavailable):
        scene.commit(4)
    scene.up(*down)
    assert scene.committed() == 3


@pytest.mark.parametrize("further", [0, 1])
def test_an_unclean_election_loses_what_its_leader_lacks(scene: Scene, further: int) -> None:
    scene.commit(3)
    scene.commit(4)
    to = (scene.leader.broker_id + further - 1) % 3 + 1  # the leader itself, or the next broker
    index = scene.leader.key.partition
    SceneState(scene.state).elect_unclean(OFFSETS_TOPIC, index, to, lose=1, now_ms=0)
    assert scene.leader.broker_id == to
    assert scene.committed() == 3


def test_too_few_replicas_in_sync_take_nothing(scene: Scene) -> None:
    scene.commit(3)
    configs = {**scene.state.image.topics[OFFSETS_TOPIC].configs, "min.insync.replicas": "3"}
    scene.state.alter_topic(OFFSETS_TOPIC, configs, now_ms=0)
    scene.commit(4)
    scene.state.broker_down(scene.leader.broker_id % 3 + 1, now_ms=0)
    with pytest.raises(LogUnavailable):
        scene.commit(5)
    assert scene.committed() == 4


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("moves", [(), ("open",), ("open", "ended")])
def test_offsets_of_a_transaction_count_with_its_marker(
    scene: Scene, moves: tuple[str, ...], *, commit: bool
) -> None:
    transactions = scene.state.transactions
    who = transactions.initialise("tx", None, timeout_ms=1_000, now_ms=0)
    scene.commit(1)
    transactions.add_group("tx", who, GROUP, now_ms=0)
    offsets = {FIRST: CommittedOffset(5, 0, "", 7), SECOND: CommittedOffset(6, 0, "", 7)}
    scene.coordinator.add_pending(who, GROUP, offsets, now_ms=0)
    assert scene.leader.last_stable_offset == 1
    scene.commit(9, SECOND)  # what is written last holds, whenever the transaction ends
    if "open" in moves:
        scene.move()
    assert scene.state.pending_offsets.is_pending(GROUP, *FIRST)
    assert scene.committed() == 1
    transactions.end("tx", who, commit=commit, now_ms=0)
    if "ended" in moves:
        scene.move()
    assert not scene.state.pending_offsets.has(GROUP)
    assert scene.leader.last_stable_offset == scene.leader.log.end_offset
    assert (scene.committed(), scene.committed(SECOND)) == (5 if commit else 1, 9)


def test_a_long_log_is_compacted_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.devcluster.state.group_coordinator.topic.LONG_BYTES", 10_000)
    scene = Scene(tmp_path)
    group = scene.classic()
    scene.commit(7, SECOND)
    for number in range(500):
        scene.commit(number)
    log = scene.leader.log
    assert log.start_offset > 0
    assert log.size < 20_000
    assert check_agreement(scene.state).agrees
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.log")]
    assert max(sizes) < 20_000
    again = scene.kill(tmp_path)
    assert again.leader.log.start_offset == log.start_offset
    assert (again.committed(), again.committed(SECOND)) == (499, 7)
    live = again.state.classic_groups.live(GROUP)
    assert live is not None
    assert live.members.keys() == group.members.keys()


def test_a_log_with_an_open_transaction_is_not_compacted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.devcluster.state.group_coordinator.topic.LONG_BYTES", 1_000)
    transactions = scene.state.transactions
    who = transactions.initialise("tx", None, timeout_ms=1_000, now_ms=0)
    transactions.add_group("tx", who, GROUP, now_ms=0)
    scene.coordinator.add_pending(who, GROUP, {SECOND: CommittedOffset(5)}, now_ms=0)
    for number in range(50):
        scene.commit(number)
    assert scene.leader.log.start_offset == 0
    transactions.end("tx", who, commit=True, now_ms=0)
    scene.commit(50)
    assert scene.leader.log.start_offset > 50
    scene.move()
    assert (scene.committed(), scene.committed(SECOND)) == (50, 5)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_releases_write_messages_of_their_format(scene: Scene, magic: int) -> None:
    rules = RecordRules(magic=magic, offset_version=1, group_version=magic)
    scene.coordinator.topic.rules_of = lambda broker_id: rules
    scene.commit(3)
    scene.commit(4, SECOND)
    scene.classic()
    (first, *_) = scene.leader.log.batches_from(0)
    assert first[0].magic == magic
    scene.move()
    assert (scene.committed(), scene.committed(SECOND)) == (3, 4)
    assert scene.state.classic_groups.live(GROUP) is not None


def test_foreign_records_are_left_out(scene: Scene) -> None:
    scene.commit(3)
    data = keyed_batch([(b"\0\1", b"x"), (b"\0\x0a\0", None), (b"", None)], timestamp_ms=0)
    scene.state.append(scene.leader, [Prepared(data, read_facts(data))], now_ms=0)
    scene.move()
    assert scene.committed() == 3


def test_a_fenced_producer_writes_no_offsets(scene: Scene) -> None:
    offsets = {FIRST: CommittedOffset(5)}
    scene.coordinator.add_pending(ProducerIdentity(1, 4), GROUP, offsets, now_ms=0)
    scene.coordinator.add_pending(ProducerIdentity(1, 3), GROUP, offsets, now_ms=0, fences=False)
    assert scene.leader.log.end_offset == 2


RULES = [
    RecordRules(offset_version=version, writes_topic_ids=version == 4) for version in (1, 3, 4)
]


@given(
    st.sampled_from(RULES), st.text(max_size=20), st.text(max_size=200),
    st.integers(-(2**63), 2**63 - 1), st.integers(-1, 2**31 - 1), st.integers(-1, 5),
    st.sampled_from([bytes(16), bytes(range(16))]),
)  # fmt: skip
def test_the_quick_way_writes_offsets_as_the_other_does(
    rules: RecordRules, group: str, text: str, offset: int, epoch: int, expires: int, topic: bytes
) -> None:
    key = OffsetCommitKey(group=group, topic="t", partition=max(epoch, 0))
    value = OffsetCommitValue(
        offset=offset, metadata=text, commit_timestamp=offset, expire_timestamp=expires
    )
    if rules.offset_version >= 3 and expires < 0:
        value.leader_epoch = epoch
    if rules.writes_topic_ids:
        value.topic_id = topic
    assert encode_offset(key, value, rules) == encode(GroupRecord(key, value), rules)


ROWS: list[tuple[list[tuple[bytes, bytes | None]], bool]] = [
    ([(b"k", b"v")], False),
    ([(b"k" * 63, None), (b"", b""), (b"k" * 64, b"v" * 10_000)], True),
    ([(b"%d" % at, b"v" * at) for at in range(200)], False),
]


@pytest.mark.parametrize(("records", "transactional"), ROWS)
def test_a_batch_is_what_the_kernel_would_write(
    records: list[tuple[bytes, bytes | None]], *, transactional: bool
) -> None:
    options = WriteOptions(
        max_batch_bytes=2**31 - 1, timestamp_ms=5, producer_id=3, producer_epoch=2,
        transactional=transactional,
    )  # fmt: skip
    columns = columns_from_records([Record(-1, 5, 0, *one) for one in records], with_offsets=False)
    (expected,) = encode_batches(columns, None, options)
    made = keyed_batch(
        records, timestamp_ms=5, producer_id=3, producer_epoch=2, transactional=transactional
    )
    assert bytes(made) == bytes(expected.data)
