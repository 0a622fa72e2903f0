"""Share groups in `__consumer_offsets`: how they are written, and that they come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.devcluster.state.group_coordinator.replay import replay
from parley.devcluster.state.group_coordinator.topic import LogUnavailable
from parley.devcluster.state.groups.records import RecordRules, decode
from parley.devcluster.state.groups.share.group import ShareAnswer, ShareGroup, ShareHeartbeat
from parley.devcluster.state.groups.share.partition import Acknowledgement, Wish
from parley.devcluster.state.groups.share.settings import ShareSettings
from parley.devcluster.state.log.batches import walk
from parley.devcluster.state.log.replica import Replica
from parley.records import decode_columns, var_values

from .driven_state import DrivenState

GROUP, SETTINGS = "g", ShareSettings()


class Scene(DrivenState):
    """A cluster's state whose partitions have one replica each."""

    OFFSETS_PARTITIONS = 1
    REPLICAS = ([1], [2])

    def beat(self, member: str, epoch: int, now_ms: int = 5) -> ShareAnswer:
        topics = frozenset(["t"]) if epoch == 0 else None
        said = ShareHeartbeat(member, epoch, None, topics, "client", "/h")
        known = {
            name: (topic.topic_id, len(topic.partitions))
            for name, topic in self.state.image.topics.items()
        }
        return self.state.share_groups.heartbeat(GROUP, said, known, SETTINGS, now_ms)

    @property
    def group(self) -> ShareGroup:
        found = self.state.share_groups.get(GROUP)
        assert found is not None
        return found

    @property
    def leader(self) -> Replica:
        found = self.state.group_coordinator.topic.leader_of(0)
        assert found is not None
        return found

    def move(self) -> None:
        """Let another broker coordinate the group."""
        to = self.leader.broker_id % 3 + 1
        self.state.move_group_coordinator(GROUP, to, now_ms=0)

    @property
    def topic_id(self) -> bytes:
        return self.state.image.topics["t"].topic_id

    def kinds(self) -> Iterator[list[str]]:
        """Yield the keys of each batch in the log, a minus behind those without a value."""
        for piece in self.leader.log.read(0, 1 << 20).parts:
            for at, facts in walk(piece):
                data = piece[at : at + facts.size]
                (chunk,) = decode_columns(data, first_offset=0, where=("", 0))
                assert chunk.columns.key is not None
                assert chunk.columns.value is not None
                rows = zip(
                    var_values(chunk.columns.key), var_values(chunk.columns.value), strict=True
                )
                yield [
                    f"{int.from_bytes(key[:2], 'big')}{'' if value is not None else ' -'}"
                    for key, value in rows
                    if key is not None
                ]


def everything(group: ShareGroup) -> tuple[object, ...]:
    return (
        group.epoch, group.target_epoch, group.target, group.members, group.known, group.metadata,
    )  # fmt: skip


def test_the_records_of_a_step_are_one_batch_in_the_order_of_kafka() -> None:
    """As 4.3.0 wrote them (tests/golden/groups), but that partitions are known at once."""
    scene = Scene()
    scene.beat("a", 0)
    scene.beat("b", 0)
    scene.beat("a", 1)
    scene.beat("b", -1)
    assert list(scene.kinds()) == [
        ["10", "11", "13", "12", "14", "15"],
        ["10", "11", "13", "13", "12", "14"],
        ["14"],
        ["14 -", "13 -", "10 -", "11"],
    ]


@pytest.mark.parametrize("how", ["move", "kill"])
def test_a_share_group_comes_back(how: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.beat("a", 0)
    epoch = scene.beat("b", 0).epoch
    before, part = scene.group, (scene.topic_id, 0)
    assert len(before.target) == 2
    partition = scene.state.share_groups.opened(GROUP, part)
    assert partition is not None
    partition.begin(0)
    (taken,) = partition.acquire(Wish("b", 10, 10), [(0, 4)], [], 0)
    said = [Acknowledgement(taken.first, taken.last, [1])]
    scene.state.share_groups.acknowledge(GROUP, part, "b", said, renews=False, now_ms=0)
    if how == "move":
        scene.move()
    else:
        scene = scene.kill(tmp_path)
    assert scene.group is not before
    assert everything(scene.group) == everything(before)
    again = scene.state.share_groups.opened(GROUP, part)
    assert again is not None
    assert again.fetch_offset() == 5
    answer = scene.beat("b", epoch)
    assert (answer.epoch, answer.assignment) == (epoch, None)
    assert scene.beat("a", 1).epoch == epoch


def test_the_time_of_the_target_is_written_from_4_3_on() -> None:
    for writes in (True, False):
        scene = Scene()
        rules = RecordRules(writes_assignment_times=writes)
        scene.state.group_coordinator.topic.rules_of = lambda broker_id, rules=rules: rules
        scene.beat("a", 0, now_ms=77)
        scene.move()
        assert scene.group.targeted_at_ms == (77 if writes else None)


def test_a_topic_that_is_deleted_or_grows_meanwhile() -> None:
    scene = Scene()
    epoch = scene.beat("a", 0).epoch
    topic_id = scene.topic_id
    scene.state.add_partitions("t", [[1]], now_ms=0)
    scene.move()
    assert scene.group.known == {topic_id: 2}
    assert scene.beat("a", epoch).epoch == epoch + 1
    scene.state.delete_topic("t", now_ms=0)
    scene.state.create_topic("t", [[1]], {}, now_ms=0)
    scene.move()
    assert scene.group.known == {}
    assert scene.beat("a", epoch + 1).epoch == epoch + 2
    assert scene.group.known == {scene.topic_id: 1}


def test_leaders_go_on_while_nobody_knows_the_group() -> None:
    scene = Scene()
    scene.beat("a", 0)
    groups, part = scene.state.share_groups, (scene.topic_id, 1)
    scene.state.loading.held.update((1, 2, 3))
    scene.move()
    assert groups.get(GROUP) is None
    assert groups.known(GROUP) == [(scene.topic_id, 0), part]
    assert groups.opened(GROUP, part) is not None
    assert groups.opened(GROUP, (scene.topic_id, 2)) is None
    scene.state.loading.held.clear()
    scene.state.finish_loading(now_ms=0)
    assert scene.group.members.keys() == {"a"}


def test_a_group_that_is_deleted_leaves_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.beat("a", 0)
    scene.beat("a", -1)
    scene.state.share_groups.begin_at(GROUP, {(scene.topic_id, 0): 3}, SETTINGS, 0)
    scene.state.delete_group(GROUP, now_ms=0)
    found = replay(scene.leader).latest.items()
    records = [decode(key, stored.value) for key, stored in found]
    assert {None if one is None else one.value for one in records} == {None}
    scene = scene.kill(tmp_path)
    assert scene.state.share_groups.get(GROUP) is None
    assert scene.state.share_groups.partition(GROUP, (scene.topic_id, 0)) is None


def test_a_log_that_takes_nothing_changes_no_partition() -> None:
    scene = Scene()
    scene.beat("a", 0)
    configs = {
        **scene.state.image.topics["__consumer_offsets"].configs, "min.insync.replicas": "3",
    }  # fmt: skip
    scene.state.alter_topic("__consumer_offsets", configs, now_ms=0)
    scene.state.broker_down(scene.leader.broker_id % 3 + 1, now_ms=0)
    known = dict(scene.group.known)
    with pytest.raises(LogUnavailable):
        scene.state.share_groups.begin_at(GROUP, {(b"x" * 16, 0): 3}, SETTINGS, 0)
    assert scene.group.known == known
    with pytest.raises(LogUnavailable):
        scene.beat("b", 0)
