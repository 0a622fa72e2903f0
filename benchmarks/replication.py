"""A topic copied to another cluster exactly once, against MirrorMaker 2 with one worker: both
brokers are real Kafka 3.9.1, and share the processors with the copy.

The rate counts from the first record in the target to the last: neither the JVM's start nor the
forming of Connect's group is in it. MirrorMaker runs with its defaults and with larger batches,
both with `exactly.once.source.support`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from benchmarks.bench import PARTITIONS, RELEASE, ROOT, Bench, progress
from benchmarks.report import Section, goal, table
from parley.client import LATEST, Client, TopicPartition
from parley.errors import KafkaError
from parley.testing.realbroker import RealCluster, class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.process import JavaProcess, temporary_folder

TOPIC = "plain"
MIRROR = (f"org.apache.kafka:connect-mirror:{RELEASE}", "org.slf4j:slf4j-simple:1.7.36")
COPIES = ("parley", "MirrorMaker 2, tuned", "MirrorMaker 2")
TIMES_AS_FAST = 3.0
VERIFIED_PER_SECOND = 2_000_000
QUIET_S, LONGEST_S, LOOK_S = 3.0, 900.0, 0.02
Rates: TypeAlias = dict[str, list[float]]
_PARLEY = """
import sys
from parley.client import ClientOptions
from parley.pipelines.replication import Replication, ReplicationOptions
source, target, name, topic = sys.argv[1:]
both = [ClientOptions(bootstrap_servers=address) for address in (source, target)]
with Replication(*both, ReplicationOptions(name=name, topics=[topic])) as replication:
    replication.run(until_caught_up=True)
"""
_VERIFY = """
import json, sys, time
from parley.client import ClientOptions
from parley.pipelines.replication import Replication, ReplicationOptions
source, target, name, topic = sys.argv[1:]
both = [ClientOptions(bootstrap_servers=address) for address in (source, target)]
with Replication(*both, ReplicationOptions(name=name, topics=[topic])) as replication:
    begun = time.perf_counter()
    found = replication.verify()
    seconds = time.perf_counter() - begun
assert found.equal, found.first_difference
records = sum(one.left_records for one in found.partitions)
print(json.dumps({"records": records, "seconds": seconds}))
"""


def tuned(alias: str) -> dict[str, str]:
    """Return MirrorMaker's settings for batches, requests and compression like parley's."""
    return {
        f"{alias}.consumer.max.poll.records": "20000",
        f"{alias}.consumer.max.partition.fetch.bytes": "16777216",
        f"{alias}.consumer.fetch.max.bytes": "67108864",
        "target.producer.batch.size": "1048576",
        "target.producer.linger.ms": "20",
        "target.producer.compression.type": "lz4",
        "target.producer.buffer.memory": "134217728",
        "target.producer.max.request.size": "16777216",
    }


def measure(bench: Bench) -> Rates:
    """Return records per second of each round, by who copied; "verify" by side."""
    records = bench.records
    bench.fill({TOPIC: "none"}, records=records)
    source = bench.bootstrap_servers
    found: Rates = {name: [] for name in (*COPIES, "verify")}
    folder = temporary_folder(Path("/dev/shm")) if bench.logs_in_memory else None
    with RealCluster(RELEASE, data_dir=folder, quick_start=False) as cluster:
        target = cluster.bootstrap_servers
        for turn in range(bench.rounds):
            for who in COPIES[:: 1 if turn % 2 == 0 else -1]:
                name = f"turn-{turn}-{who.replace(' ', '-').replace(',', '')}"
                found[who].append(records / _copied(who, source, target, name, records))
                progress(f"{who}: {found[who][-1]:,.0f} records a second")
                if who == "parley":
                    found["verify"].append(_verified(source, target, name))
                    progress(f"verify: {found['verify'][-1]:,.0f} records a second and side")
                _delete(target)
    return found


def _copied(who: str, source: str, target: str, name: str, records: int) -> float:
    """Return the seconds of a copy, from the first record in the target to the last."""
    copying = _parley if who == "parley" else _mirror_maker
    with copying(who, source, target, name) as process, Client(bootstrap_servers=target) as looking:
        begun = last = 0.0
        count = 0
        until = time.perf_counter() + LONGEST_S
        while not begun or time.perf_counter() - last < QUIET_S:
            # the first transaction counts from its first record, not from its commit
            found = _count(looking, "read_committed" if begun else "read_uncommitted")
            now = time.perf_counter()
            if found != count:
                begun, last, count = begun or now, now, found
            if now > until or (not begun and not process.running):
                raise SystemExit(f"benchmarks: {who} did not end:\n{_end_of(process)}")
            time.sleep(LOOK_S)
    if count < records:
        raise SystemExit(f"benchmarks: {who} copied {count} of {records} records")
    return last - begun


def _count(looking: Client, isolation_level: str) -> int:
    """Return the offsets that the target uses: those of control records are a few more."""
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    try:
        wanted = dict.fromkeys(partitions, LATEST)
        ends = looking.list_offsets(wanted, isolation_level=isolation_level)
    except KafkaError:  # the topic is not there yet
        return 0
    return sum(end.offset for end in ends.values())


@contextmanager
def _parley(who: str, source: str, target: str, name: str) -> Iterator[JavaProcess]:
    command = [sys.executable, "-c", _PARLEY, source, target, name, TOPIC]
    with TemporaryDirectory() as folder:
        process = JavaProcess(who, command, Path(folder) / "log")
        try:
            yield process
        finally:
            process.stop()


@contextmanager
def _mirror_maker(who: str, source: str, target: str, name: str) -> Iterator[JavaProcess]:
    # MirrorMaker's own topics have the alias in their names: each copy begins from nothing
    settings = {
        "clusters": f"{name}, target",
        f"{name}.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        f"{name}->target.enabled": "true",
        f"target->{name}.enabled": "false",
        f"{name}->target.topics": TOPIC,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "target.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "tasks.max": str(PARTITIONS),
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        **{f"{of}.storage.replication.factor": "1" for of in ("offset", "status", "config")},
        **(tuned(name) if who.endswith("tuned") else {}),
    }
    with TemporaryDirectory() as folder:
        file = Path(folder) / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        main = ["org.apache.kafka.connect.mirror.MirrorMaker", str(file)]
        command = java_command(class_path(MIRROR), main, heap_mb=1024, quick_start=False)
        process = JavaProcess(who, command, Path(folder) / "log")
        try:
            yield process
        finally:
            process.stop()


def _verified(source: str, target: str, name: str) -> float:
    command = [sys.executable, "-c", _VERIFY, source, target, name, TOPIC]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return float(found["records"] / found["seconds"])


def _delete(target: str) -> None:
    with Client(bootstrap_servers=target) as client:
        client.delete_topics([TOPIC])
        while TOPIC in client.metadata().topics:
            time.sleep(LOOK_S)


def _end_of(process: JavaProcess) -> str:
    return process.log_path.read_text(errors="replace")[-3000:]


def report(found: Rates) -> Section:
    medians = {who: statistics.median(rates) for who, rates in found.items() if rates}
    ours, peer = medians["parley"], max(medians[who] for who in COPIES[1:])
    goals = [
        goal(
            "replication, exactly once: against MirrorMaker 2, the faster of both",
            f"≥ {TIMES_AS_FAST:.0f} ×",
            f"{ours / peer:.2f} ×",
            ours >= TIMES_AS_FAST * peer,
        ),
        goal(
            "replicated topics verified",
            f"≥ {VERIFIED_PER_SECOND:,} records a second and side",
            f"{medians['verify']:,.0f}",
            medians["verify"] >= VERIFIED_PER_SECOND,
        ),
    ]
    rows = [
        [who, f"{medians[who]:,.0f}", f"{min(found[who]):,.0f} to {max(found[who]):,.0f}"]
        for who in (*COPIES, "verify")
    ]
    head = ["who", "records a second, median", "from to"]
    return Section("Replication", f"{(__doc__ or '').strip()}\n\n{table(head, rows)}", goals)
