"""A compacted topic on three brokers without sockets and clocks, and its cleaner."""

from __future__ import annotations

import itertools
from pathlib import Path

from parley.devcluster.state.agreement import check_agreement
from parley.devcluster.state.cleaner import LogCleaner
from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Prepared, Replica
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    crc_is_right,
    decode_columns,
    encode_batches,
    end_marker,
    records,
)

BACKOFF_MS = 15_000
HOUR_MS = 3_600_000
Row = tuple[int, str, str | None]


class CompactedTopic:
    """A compacted topic `t` with three replicas; records have the time of their writing."""

    def __init__(self, directory: Path | None = None, *, first_id: int = 1) -> None:
        ids = itertools.count(first_id)
        self.state = ClusterState(
            cluster_id="c",
            new_topic_id=lambda: next(ids).to_bytes(16, "big"),
            check_crc=crc_is_right,
            directory=directory,
        )
        self.now_ms = 1_700_000_000_000
        self.cleaner = LogCleaner(self.state, BACKOFF_MS, self.now_ms)
        self.down: dict[int, BrokerState] = {}
        self.up(1, 2, 3)

    def up(self, *ids: int) -> None:
        states = {i: self.down.pop(i, None) or self.state.make_broker(i) for i in ids}
        images = {one: BrokerImage(i, "localhost", 9000 + i) for i, one in states.items()}
        self.state.brokers_up(images, now_ms=self.now_ms)

    def stop(self, broker_id: int) -> None:
        self.down[broker_id] = self.state.broker_down(broker_id, now_ms=self.now_ms)

    def kill(self, directory: Path) -> CompactedTopic:
        """Drop everything as kill -9 does, and begin again."""
        for broker in self.state.replication.brokers.values():
            broker.close()
        assert self.state.keeper.journal is not None
        self.state.keeper.journal.close()
        return CompactedTopic(directory, first_id=1_000)

    def topic(self, name: str = "t", **settings: str) -> None:
        configs = {"cleanup.policy": "compact"}
        configs |= {key.replace("_", "."): value for key, value in settings.items()}
        self.state.create_topic(name, [[1, 2, 3]], configs, now_ms=self.now_ms)

    def replica(self, broker_id: int, topic: str = "t") -> Replica:
        return self.state.replication.brokers[broker_id].find(topic, 0)

    def leader(self, topic: str = "t") -> Replica:
        return self.replica(self.state.image.topics[topic].partitions[0].leader, topic)

    def write(self, *pairs: tuple[str, str | None], topic: str = "t", **options: int) -> int:
        rows = [
            Record(n, self.now_ms, 0, key.encode(), None if value is None else value.encode())
            for n, (key, value) in enumerate(pairs)
        ]
        columns = columns_from_records(rows, with_offsets=False)
        (made,) = encode_batches(columns, None, WriteOptions(**options))  # type: ignore[arg-type]
        return self._append(bytes(made.data), topic)

    def marker(self, producer_id: int, *, commit: bool) -> int:
        return self._append(end_marker(producer_id, 0, 0, commit=commit, now_ms=self.now_ms), "t")

    def _append(self, data: bytes, topic: str) -> int:
        prepared = Prepared(data, read_facts(data))
        leader = self.leader(topic)
        return self.state.append(leader, [prepared], now_ms=self.now_ms).base_offset

    def compact(self, *, roll: bool = True) -> dict[int, int]:
        return self.cleaner.compact("t", now_ms=self.now_ms, roll=roll)

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and the cleaner do what falls due in it."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.cleaner.next_due_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.cleaner.expire(now_ms=self.now_ms)
        self.now_ms = end_ms

    def agree(self) -> None:
        found = check_agreement(self.state)
        assert found.agrees, str(found)


def rows_of(replica: Replica) -> list[Row]:
    return [
        (row.offset, (row.key or b"").decode(), None if row.value is None else row.value.decode())
        for facts, data in replica.log.batches_from(0)
        if not facts.is_control
        for chunk in decode_columns(data, first_offset=0)
        for row in records(chunk.columns)
    ]
