"""Capture record batches that Java producers wrote and real brokers stored.

The records are decided here and written by tools/java/GoldenRecords.java, on the class path of the
broker's own release. The bytes are then read from the broker's log directory: no protocol code of
any kind lies between the Java producer and the golden file. What they hold is what the Java
consumer of that release prints, which must be what was decided.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple
from parley_laboratory.golden import GoldenLog, GoldenRecord

JAVA = Path(__file__).parent / "java"

BROKER_PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "500",
}
_BASE_MS = 1_600_000_000_000
_DAY_MS = 86_400_000
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.000001",
}
_TYPES = {"NO_TIMESTAMP_TYPE": -1, "NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


@dataclass(frozen=True)
class Draft:
    """A record to be produced."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


DRAFTS = (
    Draft(_BASE_MS, b"key-0", b"value-0"),
    Draft(_BASE_MS + 1, None, b"no key"),
    Draft(_BASE_MS + 2, b"no value", None),
    Draft(_BASE_MS - 5_000, b"", b""),  # a negative timestamp delta, empty bytes
    Draft(_BASE_MS + 123_456_789, None, None),
    Draft(
        _BASE_MS + 3,
        "\u2603 key".encode(),
        bytes(range(256)),
        (("h", b"1"), ("h", None), ("\u00fc", b"")),
    ),
    Draft(0, b"epoch", b"r" * 700, (("trace", b"\x00\xff"),)),
    Draft(_BASE_MS + 4, b"key-7", b"value-7"),
)


@dataclass(frozen=True)
class Scenario:
    """A topic, its settings, and the lines that GoldenRecords.java reads."""

    topic: str
    codec: str
    lines: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    drafts: tuple[Draft, ...] = ()
    since: tuple[int, ...] = (0, 9)
    cleaned: bool = False
    transactional: bool = False


def capture(release: str) -> list[GoldenLog]:
    """Start a broker of the release, play every scenario it can, and return the logs."""
    version = version_tuple(release)
    scenarios = [s for s in _scenarios(release) if version >= s.since]
    with RealCluster(release, properties=BROKER_PROPERTIES) as cluster:
        _create_topics(cluster, scenarios)
        lines = "".join(f"{line}\n" for scenario in scenarios for line in scenario.lines)
        _java(cluster, ["produce", cluster.bootstrap_servers], stdin=lines)
        for scenario in scenarios:
            if scenario.cleaned:
                _wait_until_cleaned(
                    cluster, scenario.topic, int(_segments(cluster, scenario.topic)[-1].stem)
                )
        uncommitted = _consume(cluster, "read_uncommitted", [s.topic for s in scenarios])
        committed = _consume(
            cluster, "read_committed", [s.topic for s in scenarios if s.transactional]
        )
        return [_log(cluster, release, scenario, uncommitted, committed) for scenario in scenarios]


def assign_topics(cluster: RealCluster, topics: dict[str, tuple[int, ...]]) -> None:
    """Create topics through ZooKeeper, with the broker of each partition given."""
    for name, brokers in topics.items():
        command = ["kafka.admin.TopicCommand", "--create", "--zookeeper", cluster.zookeeper_address]
        command += ["--topic", name, "--replica-assignment", ",".join(map(str, brokers))]
        done = cluster.run_java(command)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)


def write_transactions(cluster: RealCluster) -> None:
    """Have the Java producer write the topic `transactions`, which must exist."""
    lines = "".join(f"{line}\n" for line in _transactional().lines)
    _java(cluster, ["produce", cluster.bootstrap_servers], stdin=lines)


def _scenarios(release: str) -> list[Scenario]:
    codecs = ["none", "gzip", "snappy", "lz4"] + (
        ["zstd"] if version_tuple(release) >= (2, 1) else []
    )
    idempotence = "\tenable.idempotence=false" if version_tuple(release) >= (0, 11) else ""
    found = [_plain(release, codec, idempotence) for codec in codecs]
    found += [
        replace(
            _plain(release, codec, idempotence, topic=f"append-time-{codec}"),
            settings={"message.timestamp.type": "LogAppendTime"},
            since=(0, 10),
        )
        for codec in ("none", "gzip")
    ]
    found += [_compacted(release, codec, idempotence) for codec in ("none", "lz4")]
    found += [_emptied(), _transactional()]
    return found


def _plain(release: str, codec: str, options: str, topic: str = "") -> Scenario:
    """Two batches: all drafts in one, then the first two again."""
    topic = topic or f"codec-{codec}"
    drafts = tuple(
        replace(d, headers=d.headers if version_tuple(release) >= (0, 11) else ()) for d in DRAFTS
    )
    lines = [f"open\tcompression.type={codec}{options}"]
    lines += [*(_send(topic, draft) for draft in drafts), "flush"]
    lines += [*(_send(topic, draft) for draft in drafts[:2]), "flush"]
    return Scenario(topic, codec, tuple(lines), drafts=(*drafts, *drafts[:2]))


def _compacted(release: str, codec: str, options: str) -> Scenario:
    """A compacted topic whose cleaned segment has gaps at its start, inside and at its end."""
    topic = f"compacted-{codec}"
    keys = (b"a", b"b", b"c", b"a", b"d", b"b", b"e")
    drafts = [Draft(_BASE_MS + i, key, b"%s %d" % (key * 40, i)) for i, key in enumerate(keys)]
    later = [Draft(_BASE_MS + 2 * _DAY_MS + i, key, b"later") for i, key in enumerate((b"e", b"f"))]
    last = [Draft(_BASE_MS + 4 * _DAY_MS, b"g", b"active segment")]
    lines = [f"open\tcompression.type={codec}{options}"]
    for batch in (drafts, later, last):
        lines += [*(_send(topic, draft) for draft in batch), "flush", "sleep\t600"]
    # 3 is the earlier "a" and 1 the earlier "b"; 6 is the "e" that the second batch overwrites.
    kept = [d for i, d in enumerate(drafts) if i not in (0, 1, 6)] + later + last
    return Scenario(topic, codec, tuple(lines), dict(_COMPACTED), tuple(kept), cleaned=True)


def _emptied() -> Scenario:
    """A compacted topic in which an idempotent producer's only batch lost all its
    records but is kept, empty.
    """
    topic = "compacted-empty"
    first = [Draft(_BASE_MS, b"a", b"first"), Draft(_BASE_MS + 1, b"b", b"first")]
    later = [
        Draft(_BASE_MS + 2 * _DAY_MS + i, key, b"later")
        for i, key in enumerate((b"a", b"b", b"c", b"d"))
    ]
    last = [
        Draft(_BASE_MS + 4 * _DAY_MS + i, key, b"active segment")
        for i, key in enumerate((b"e", b"f", b"g", b"h"))
    ]
    lines = [
        "open\tenable.idempotence=true",
        *(_send(topic, d) for d in first),
        "flush",
        "sleep\t600",
    ]
    lines += [
        "open\tenable.idempotence=false",
        *(_send(topic, d) for d in [*first, *later]),
        "flush",
        "sleep\t600",
    ]
    lines += [*(_send(topic, d) for d in last), "flush"]
    drafts = (*later, *last)
    return Scenario(
        topic, "none", tuple(lines), dict(_COMPACTED), drafts, since=(1, 0), cleaned=True
    )


def _transactional() -> Scenario:
    """A committed transaction, an aborted one and another committed one:
    control batches between them.
    """
    topic = "transactions"
    lines = ["open\ttransactional.id=golden\tcompression.type=lz4\tenable.idempotence=true"]
    for end, drafts in (("commit", DRAFTS[:2]), ("abort", DRAFTS[2:6]), ("commit", DRAFTS[6:])):
        lines += ["begin", *(_send(topic, draft) for draft in drafts), end]
    return Scenario(topic, "lz4", tuple(lines), drafts=DRAFTS, since=(0, 11), transactional=True)


def _send(topic: str, draft: Draft) -> str:
    headers = ";".join(f"{name}={_hex(value)}" for name, value in draft.headers)
    return "\t".join(
        ["send", topic, "0", str(draft.timestamp_ms), _hex(draft.key), _hex(draft.value), headers]
    )


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def _unhex(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def _java(
    cluster: RealCluster,
    arguments: Sequence[str],
    stdin: str | None = None,
    program: str = "Records",
) -> str:
    done = cluster.run_java([str(JAVA / f"Golden{program}.java"), *arguments], stdin=stdin)
    if done.returncode != 0:
        raise RuntimeError(
            f"Golden{program} "
            f"failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}\n{cluster.logs()}"
        )
    return done.stdout


def _create_topics(cluster: RealCluster, scenarios: Sequence[Scenario]) -> None:
    if version_tuple(cluster.releases[1]) >= (0, 11):
        topics = [
            ",".join([s.topic, *(f"{k}={v}" for k, v in s.settings.items())]) for s in scenarios
        ]
        _java(cluster, [cluster.bootstrap_servers, *topics], program="Topics")
        return
    for s in scenarios:  # the admin client came with 0.11
        command = ["kafka.admin.TopicCommand", "--create", "--zookeeper", cluster.zookeeper_address]
        command += ["--topic", s.topic, "--partitions", "1", "--replication-factor", "1"]
        for name, value in s.settings.items():
            command += ["--config", f"{name}={value}"]
        done = cluster.run_java(command)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)


def _segments(cluster: RealCluster, topic: str) -> list[Path]:
    return sorted((cluster.broker(1).directory / "data" / f"{topic}-0").glob("*.log"))


def _wait_until_cleaned(cluster: RealCluster, topic: str, last: int) -> None:
    """Wait until the cleaner's checkpoint covers all but the active segment."""
    checkpoint = cluster.broker(1).directory / "data" / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        if any(
            line.startswith(f"{topic} 0 ") and int(line.rsplit(" ", 1)[1]) >= last for line in lines
        ):
            return
        time.sleep(0.1)
    raise RuntimeError(
        f"{topic} was not compacted: "
        f"{[(p.name, p.stat().st_size) for p in _segments(cluster, topic)]}"
    )


def _consume(
    cluster: RealCluster, isolation: str, topics: Sequence[str]
) -> dict[str, list[GoldenRecord]]:
    found: dict[str, list[GoldenRecord]] = {topic: [] for topic in topics}
    if topics:
        for line in _java(
            cluster, ["consume", cluster.bootstrap_servers, isolation, *topics]
        ).splitlines():
            topic, offset, timestamp, kind, key, value, headers = line.split("\t")
            pairs = tuple(
                (name, _unhex(data))
                for name, data in (h.split("=") for h in headers.split(";") if h)
            )
            record = GoldenRecord(
                int(offset), int(timestamp), _TYPES[kind], _unhex(key), _unhex(value), pairs
            )
            found[topic].append(record)
    return found


def _log(
    cluster: RealCluster,
    release: str,
    scenario: Scenario,
    uncommitted: dict[str, list[GoldenRecord]],
    committed: dict[str, list[GoldenRecord]],
) -> GoldenLog:
    records = uncommitted[scenario.topic]
    _check(release, scenario, records)
    return GoldenLog(
        release=release,
        topic=scenario.topic,
        codec=scenario.codec,
        data=b"".join(segment.read_bytes() for segment in _segments(cluster, scenario.topic)),
        records=tuple(records),
        committed=tuple(committed[scenario.topic]) if scenario.transactional else None,
    )


def _check(release: str, scenario: Scenario, records: Sequence[GoldenRecord]) -> None:
    """Fail unless the Java consumer read what was decided here."""
    append_time = "message.timestamp.type" in scenario.settings
    timestamps = version_tuple(release) >= (0, 10)
    expected = [(d.key, d.value, d.headers) for d in scenario.drafts]
    found = [(r.key, r.value, r.headers) for r in records]
    if found != expected:
        raise RuntimeError(f"{release} {scenario.topic}: {found} instead of {expected}")
    for record, draft in zip(records, scenario.drafts, strict=True):
        wanted = draft.timestamp_ms if timestamps else -1
        if not append_time and record.timestamp_ms != wanted:
            raise RuntimeError(f"{release} {scenario.topic}: {record} instead of {draft}")
