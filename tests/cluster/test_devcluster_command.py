"""`parley cluster start` as a process: what it prints, how it ends, and what
survives kill -9 and a full disk.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import decode_columns, records
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

TOPIC = "events"
CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
Fetch: Any = request_class(ApiKey.FETCH)
Metadata: Any = request_class(ApiKey.METADATA)
OffsetCommit: Any = request_class(ApiKey.OFFSET_COMMIT)
OffsetFetch: Any = request_class(ApiKey.OFFSET_FETCH)
Produce: Any = request_class(ApiKey.PRODUCE)
Batch = Callable[..., bytes]


class Command:
    """A running `parley cluster start --format json`."""

    def __init__(self, *arguments: str, file_limit: int | None = None) -> None:
        def limit() -> None:
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        self.process = subprocess.Popen(
            [sys.executable, "-m", "parley", "cluster", "start", "--format", "json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,  # noqa: PLW1509  # no threads in this test process
        )
        assert self.process.stdout is not None
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(self.process.stdout.readline())
            assert lines[-1], self.process.communicate()[1]
        self.document = json.loads("".join(lines))
        self.address = self.document["brokers"][0]["address"]

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; return exit code and stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=GENEROUS_S)
        return self.process.returncode, errors


@pytest.fixture
def start() -> Iterator[Callable[..., Command]]:
    running: list[Command] = []

    def begin(*arguments: str, **options: Any) -> Command:
        running.append(Command(*arguments, **options))
        return running[-1]

    yield begin
    for command in running:
        if command.process.poll() is None:
            command.process.kill()
        command.process.communicate()


def create(wire: Wire) -> None:
    topic = CreateTopics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    assert wire.ask(CreateTopics(topics=[topic]), 2).topics[0].error_code == 0


def produce(wire: Wire, data: bytes) -> Any:
    partition = Produce.PartitionProduceData(index=0, records=data)
    topic = Produce.TopicProduceData(name=TOPIC, partition_data=[partition])
    answer = wire.ask(Produce(acks=-1, timeout_ms=1_000, topic_data=[topic]), 8)
    return answer.responses[0].partition_responses[0]


def values(address: str) -> list[bytes | None]:
    with Wire(address) as wire:
        found: list[bytes | None] = []
        while True:
            partition = Fetch.FetchPartition(
                partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20
            )
            topic = Fetch.FetchTopic(topic=TOPIC, partitions=[partition])
            answer = (
                wire.ask(Fetch(max_wait_ms=0, min_bytes=0, topics=[topic]), 11)
                .responses[0]
                .partitions[0]
            )
            assert answer.error_code == 0
            rows = [
                row.value
                for chunk in decode_columns(answer.records, first_offset=len(found))
                for row in records(chunk.columns)
            ]
            if not rows:
                return found
            found += rows


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "parley", "cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_runs_until_a_signal_and_stops_in_order(
    start: Callable[..., Command], number: int, code: int
) -> None:
    command = start("--brokers", "2", "--release", "3.9", "--broker", "1=2.4")
    reported = command.document
    assert [(b["broker"], b["release"]) for b in reported["brokers"]] == [
        (1, "2.4.1"),
        (2, "3.9.1"),
    ]
    assert reported["bootstrap_servers"] == ",".join(b["address"] for b in reported["brokers"])
    with Wire(command.address) as wire:
        answer = wire.ask(Metadata(topics=None), 9)
    assert (answer.cluster_id, len(answer.brokers)) == (reported["cluster_id"], 2)
    ended, errors = command.end(number)
    assert ended == code
    assert "Traceback" not in errors


def test_ports_are_those_asked_for(start: Callable[..., Command]) -> None:
    with LocalCluster(brokers=2) as free:
        port = int(free.broker(1).address.rsplit(":", 1)[1])
    command = start("--brokers", "1", "--port", str(port))
    assert command.document["bootstrap_servers"] == f"127.0.0.1:{port}"
    taken = run(["start", "--brokers", "1", "--port", str(port)])
    assert taken.returncode == 3
    assert str(port) in taken.stderr
    assert taken.stderr.count("\n") == 1, "one line, no traceback"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--release", "3.99"], "3.99"),
        (["--broker", "1:2.4"], "expected ID=RELEASE"),
        (["--broker", "1=2.4", "--broker", "1=3.9"], "already"),
        (["--broker", "8=2.4"], "there is no broker 8"),
        (["--brokers", "0"], "--brokers"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what(arguments: list[str], text: str) -> None:
    ended = run(["start", *arguments])
    assert ended.returncode == 2
    assert text in ended.stderr
    assert not ended.stdout


def test_listening_for_everybody_is_warned_about(start: Callable[..., Command]) -> None:
    command = start("--brokers", "1", "--host", "0.0.0.0")
    _, errors = command.end(signal.SIGINT)
    assert "not for production" in errors


# -- what survives ---------------------------------------------------------------------------------


def test_b07_kill_9_loses_nothing_that_was_acknowledged(
    start: Callable[..., Command], tmp_path: Path, batch: Batch
) -> None:
    expected: list[bytes | None] = []
    for turn in range(3):
        command = start("--brokers", "2", "--release", "3.9", "--data", str(tmp_path / "data"))
        with Wire(command.address) as wire:
            if not turn:
                create(wire)
        for broker in command.document["brokers"]:
            with Wire(broker["address"]) as wire:
                answer = wire.ask(Metadata(topics=[Metadata.MetadataRequestTopic(name=TOPIC)]), 9)
                if answer.topics[0].partitions[0].leader_id != broker["broker"]:
                    continue
                for number in range(20):
                    data = batch(3, size=turn * 100 + number + 1, producer_id=turn,
                                 producer_epoch=0,
                                 base_sequence=3 * number)  # fmt: skip
                    assert produce(wire, data).base_offset == len(expected)
                    expected += [bytes([97 + i]) * (turn * 100 + number + 1) for i in range(3)]
                again = produce(wire, data)
                assert (again.error_code, again.base_offset) == (0, len(expected) - 3)
                leader = broker["address"]
        assert values(leader) == expected
        command.end(signal.SIGKILL)
    # The tails are torn as well: half a batch that nobody got an answer for, and a whole one that
    # its CRC gives away.
    torn = bytearray(batch(5))
    torn[0:8] = len(expected).to_bytes(8, "big")
    torn[-1] ^= 1
    logs = [path for path in (tmp_path / "data").rglob("*.log") if path.stat().st_size]
    for log, tail in zip(logs, (torn, torn[:40]), strict=False):
        with log.open("ab") as file:
            file.write(tail)
    command = start("--brokers", "2", "--release", "4.3", "--data", str(tmp_path / "data"))
    for broker in command.document["brokers"]:
        with Wire(broker["address"]) as wire:
            reported = wire.ask(Metadata(topics=None), 9).topics[0].partitions[0]
        if reported.leader_id == broker["broker"]:
            assert values(broker["address"]) == expected


def test_committed_offsets_survive_kill_9(start: Callable[..., Command], tmp_path: Path) -> None:
    command = start("--brokers", "1", "--release", "3.9", "--data", str(tmp_path))
    with Wire(command.address) as wire:
        create(wire)
        partition = OffsetCommit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=41
        )
        topic = OffsetCommit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        assert (
            wire.ask(OffsetCommit(group_id="g", topics=[topic]), 8)
            .topics[0]
            .partitions[0]
            .error_code
            == 0
        )
    command.end(signal.SIGKILL)
    command = start("--brokers", "1", "--release", "3.9", "--data", str(tmp_path))
    with Wire(command.address) as wire:
        found = wire.ask(OffsetFetch(group_id="g", topics=None), 7)
    assert found.topics[0].partitions[0].committed_offset == 41


def test_a_full_disk_refuses_and_loses_nothing(
    start: Callable[..., Command], tmp_path: Path, batch: Batch
) -> None:
    """The system itself refuses: no file of this process may grow beyond 64 KiB."""
    command = start(
        "--brokers", "1", "--release", "3.9", "--data", str(tmp_path), file_limit=65_536
    )
    kept = 0
    with Wire(command.address) as wire:
        create(wire)
        answer = produce(wire, batch(10, size=1_000))
        while answer.error_code == 0:
            kept += 10
            answer = produce(wire, batch(10, size=1_000))
        assert answer.error_code == 56
        assert kept >= 50
        small = produce(wire, batch(1, size=1))
        assert small.base_offset in (kept, -1), "what still fits is taken"
        kept += small.error_code == 0
    assert len(values(command.address)) == kept
    command.end(signal.SIGKILL)
    command = start("--brokers", "1", "--release", "3.9", "--data", str(tmp_path))
    assert len(values(command.address)) == kept
    with Wire(command.address) as wire:
        assert produce(wire, batch(10, size=1_000)).base_offset == kept
