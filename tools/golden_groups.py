"""Captures the records that real brokers write into `__consumer_offsets`, as tests/golden/groups/.

    .venv/bin/python tools/golden_groups.py 4.3.0 4.0.0 …

Members of every protocol that the release serves join, commit and leave; then each record of the
topic becomes a line: partition, offset, key and value in hexadecimal digits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pyarrow as pa

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncShareConsumer,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from parley.errors import KafkaError
from parley.testing.realbroker import RealCluster

FOLDER = Path(__file__).parents[1] / "tests" / "golden" / "groups"
TOPICS, PARTITIONS = ("t1", "t2"), 3
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 4
PATIENCE, POLL_MS = 60, 200


class Capture:
    """One release and a client of it."""

    def __init__(self, release: str, client: AsyncClient) -> None:
        self.number = tuple(int(part) for part in release.split("."))
        self.client = client

    async def play(self) -> None:
        """Let groups of every kind live and end."""
        for name in TOPICS:
            if self.number < (0, 10, 1):  # where only auto-creation makes topics
                await self.client.produce(name, pa.table({"value": ["x"]}), 0)
            else:
                await self.client.create_topics([NewTopic(name, PARTITIONS, 1)])
        for _ in range(PATIENCE):
            try:
                at = {TopicPartition("t1", 0): OffsetAndMetadata(5, "md")}
                await self.client.commit_offsets("simple", at)
                break
            except KafkaError:  # the coordinator is being made
                await asyncio.sleep(POLL_MS / 1_000)
        await self.members("classic", 1, "classic")
        if self.number >= (2, 3):
            await self.members("classic", 1, "static", static=True)
        if self.number >= (4, 0):
            await self.members("consumer", 2, "modern", static=True, guest=True)
            await self.members("consumer", 2, "dynamic")
        if self.number >= (4, 2):
            await self.shares("shared", 2)
        if self.number >= (1, 1):
            await self.client.delete_groups(["simple"])

    async def consumer(self, protocol: str, group: str, instance: str | None) -> AsyncConsumer:
        made = AsyncConsumer(
            self.client,
            group_id=group,
            group_protocol=protocol,
            group_instance_id=instance,
            auto_offset_reset="earliest",
        )
        await made.start()
        made.subscribe(list(TOPICS))
        return made

    async def members(
        self, protocol: str, count: int, group: str, *, static: bool = False, guest: bool = False
    ) -> None:
        """Let members join, commit and leave; a guest speaks the classic protocol."""
        consumers = [
            await self.consumer(protocol, group, f"m{at}" if static else None)
            for at in range(count)
        ]
        await self.settled(consumers)
        for one in consumers:
            await one.commit({at: OffsetAndMetadata(0, "c") for at in sorted(one.assignment())[:1]})
        if guest:
            visitor = await self.consumer("classic", group, None)
            await self.settled([*consumers, visitor])
            await visitor.stop()
        for one in consumers:
            await one.stop()

    async def shares(self, group: str, count: int) -> None:
        """Let members of a share group join, read and leave."""
        consumers = [AsyncShareConsumer(self.client, group_id=group) for _ in range(count)]
        for one in consumers:
            await one.start()
            one.subscribe(list(TOPICS))
        for _ in range(PATIENCE):
            for one in consumers:
                await one.getmany(timeout_ms=POLL_MS)
            if all(one.health().assigned for one in consumers):
                break
        for one in consumers:
            await one.stop()

    @staticmethod
    async def settled(consumers: list[AsyncConsumer]) -> None:
        for _ in range(PATIENCE):
            for one in consumers:
                await one.getmany(timeout_ms=POLL_MS)
            if all(one.assignment() for one in consumers):
                return

    async def records(self) -> list[dict[str, object]]:
        """Return what stands in the topic."""
        found: list[dict[str, object]] = []
        async with AsyncConsumer(self.client) as consumer:
            parts = [TopicPartition(OFFSETS_TOPIC, at) for at in range(OFFSETS_PARTITIONS)]
            consumer.assign(parts)
            await consumer.seek_to_beginning(*parts)
            ends = await consumer.end_offsets(parts)
            while any([await consumer.position(part) < end for part, end in ends.items()]):
                for part, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                    for one in records:
                        key, value = (
                            None if data is None else bytes(data).hex()
                            for data in (one.key, one.value)
                        )
                        line = {"partition": part.partition, "offset": one.offset}
                        found.append({**line, "key": key, "value": value})
        return sorted(found, key=lambda line: (line["partition"], line["offset"]))


async def capture(release: str, cluster: RealCluster) -> list[dict[str, object]]:
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        one = Capture(release, client)
        await one.play()
        return await one.records()


def main(releases: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for release in releases:
        with RealCluster(release) as cluster:
            lines = asyncio.run(capture(release, cluster))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (FOLDER / f"{release}.jsonl").write_text(text, encoding="utf-8")
        print(f"{release}: {len(lines)} records")


if __name__ == "__main__":
    main(sys.argv[1:])
