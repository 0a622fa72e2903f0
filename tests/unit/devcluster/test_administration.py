"""What administrators change survives a restart: log starts, brokers' settings,
deleted groups and offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_CONFIG, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION

TOPIC_ID = b"0123456789abcdef"


def opened(directory: Path) -> ClusterState:
    state = ClusterState(
        cluster_id="c",
        new_topic_id=lambda: TOPIC_ID,
        check_crc=lambda batch: True,
        directory=directory,
    )
    state.brokers_up({state.make_broker(1): BrokerImage(1, "h", 1)}, now_ms=0)
    return state


@pytest.fixture
def state(tmp_path: Path, prepared: Callable[..., Any]) -> ClusterState:
    made = opened(tmp_path)
    made.create_topic("t", [[1]], {}, now_ms=0)
    replica = made.replication.brokers[1].find("t", 0)
    for _ in range(5):
        made.append(replica, [prepared()], now_ms=1)
    return made


def test_deleted_records_stay_deleted(state: ClusterState, tmp_path: Path) -> None:
    leader = state.replication.brokers[1].find("t", 0)
    assert state.delete_records(leader, 3) == 3
    assert state.delete_records(leader, 1) == 3, "the start never goes back"
    for offset in (-1, 6):
        with pytest.raises(Refused) as refused:
            state.delete_records(leader, offset)
        assert refused.value.code == OFFSET_OUT_OF_RANGE
    state.close()
    again = opened(tmp_path).replication.brokers[1].find("t", 0)
    assert (again.log.start_offset, again.log.end_offset, again.high_watermark) == (3, 5, 5)


def test_settings_of_brokers_are_kept_and_inherited(state: ClusterState, tmp_path: Path) -> None:
    state.configs.alter_broker("", {"message.max.bytes": "777"})
    state.configs.alter_broker("1", {"log.retention.ms": "5"})
    with pytest.raises(Refused) as refused:
        state.configs.alter_broker("", {"message.max.bytes": "many"})
    assert refused.value.code == INVALID_CONFIG
    state.close()
    again = opened(tmp_path)
    assert again.configs.of_broker("1") == {"log.retention.ms": "5"}
    assert again.configs.topic_settings({}).max_message_bytes == 777
    assert again.configs.topic_settings({"max.message.bytes": "9"}).max_message_bytes == 9


def test_settings_and_partitions_of_topics_are_kept(state: ClusterState, tmp_path: Path) -> None:
    state.alter_topic("t", {"segment.bytes": "100"}, now_ms=2)
    assert state.replication.brokers[1].find("t", 0).log.segment_bytes == 100
    state.add_partitions("t", [[1], [1]], now_ms=2)
    with pytest.raises(Refused) as refused:
        state.alter_topic("absent", {}, now_ms=2)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION
    state.close()
    topic = opened(tmp_path).image.topics["t"]
    assert (len(topic.partitions), dict(topic.configs)) == (3, {"segment.bytes": "100"})


def test_groups_and_offsets_go(state: ClusterState, tmp_path: Path) -> None:
    for group in ("g", "h"):
        state.group_coordinator.commit_offsets(
            group, {("t", 0): CommittedOffset(1), ("t", 1): CommittedOffset(2)}, now_ms=0
        )
    state.group_coordinator.delete_offsets("g", [("t", 1), ("t", 7)], now_ms=0)
    state.delete_group("h", now_ms=0)
    state.close()
    again = opened(tmp_path)
    assert again.groups.names() == ["g"]
    assert list(again.groups.all_of("g")) == [("t", 0)]
