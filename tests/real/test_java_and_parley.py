"""On each real release: parley reads what the Java client wrote, and the Java
client what parley wrote.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from parley import EARLIEST, LATEST, Client, ProduceOptions, TopicPartition
from parley.errors import LocalProtocolError, UnsupportedVersionError
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple

JAVA = Path(__file__).parents[2] / "tools" / "java" / "GoldenRecords.java"
BASE_MS = 1_600_000_000_000
TYPES = {"CreateTime": 0, "LogAppendTime": 1}

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Timestamp in milliseconds, key, value, headers."""


def rows_for(release: str) -> list[Row]:
    """Return records of all kinds; without what the release cannot keep."""
    timestamps = version_tuple(release) >= (0, 10)
    headers = version_tuple(release) >= (0, 11)
    made: list[Row] = []
    for i in range(200):
        made.append(
            (
                BASE_MS + i * 1000 - (i % 4) * 5000 if timestamps else -1,
                None if i % 7 == 0 else b"" if i % 7 == 1 else b"key %d" % i,
                None if i % 11 == 0 else bytes([i]) * (i % 50),
                (("h", b"%d" % i), ("h", None), ("\u00fc", b"")) if headers and i % 3 == 0 else (),
            )
        )
    return made


def codecs_for(release: str) -> list[str]:
    return ["none", "gzip", "snappy", "lz4"] + (
        ["zstd"] if version_tuple(release) >= (2, 1) else []
    )


def as_batch(rows: list[Row]) -> pa.RecordBatch:
    """Return the rows as Arrow, with the columns that are to be produced."""
    columns: dict[str, pa.Array] = {
        "key": pa.array([row[1] for row in rows], pa.binary()),
        "value": pa.array([row[2] for row in rows], pa.binary()),
    }
    if any(row[0] >= 0 for row in rows):
        columns["timestamp"] = pa.array([row[0] for row in rows], pa.timestamp("ms", tz="UTC"))
    if any(row[3] for row in rows):
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        listed = [[{"key": name, "value": value} for name, value in row[3]] for row in rows]
        columns["headers"] = pa.array(listed, kind)
    return pa.RecordBatch.from_pydict(columns)


def from_batch(batch: pa.RecordBatch) -> Iterator[Row]:
    for row in batch.to_pylist():
        moment = row["timestamp"]
        since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        headers = tuple((h["key"], h["value"]) for h in row["headers"] or ())
        yield since // datetime.timedelta(milliseconds=1), row["key"], row["value"], headers


def hexadecimal(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def from_hexadecimal(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def java(cluster: RealCluster, release: str, arguments: list[str], stdin: str | None = None) -> str:
    done = cluster.run_java([str(JAVA), *arguments], release=release, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_parley_reads_what_java_wrote(
    real_broker: RealCluster, real_release: str, topic_name: str
) -> None:
    rows, codecs = rows_for(real_release), codecs_for(real_release)
    lines = []
    for codec in codecs:
        lines.append(f"open\tcompression.type={codec}\tmax.block.ms=60000")
        for timestamp, key, value, headers in rows:
            pairs = ";".join(f"{name}={hexadecimal(data)}" for name, data in headers)
            fields = [
                f"{topic_name}-{codec}",
                "0",
                str(timestamp),
                hexadecimal(key),
                hexadecimal(value),
                pairs,
            ]
            lines.append("\t".join(["send", *fields]))
        lines.append("flush")
    java(
        real_broker,
        real_release,
        ["produce", real_broker.bootstrap_servers],
        "\n".join(lines) + "\n",
    )
    with Client(bootstrap_servers=real_broker.bootstrap_servers) as client:
        for codec in codecs:
            batches = client.fetch(TopicPartition(f"{topic_name}-{codec}", 0), EARLIEST, LATEST)
            assert [row for batch in batches for row in from_batch(batch)] == rows, codec


def test_java_reads_what_parley_wrote(
    real_broker: RealCluster, real_release: str, topic_name: str
) -> None:
    rows, codecs = rows_for(real_release), codecs_for(real_release)
    with Client(bootstrap_servers=real_broker.bootstrap_servers) as client:
        for codec in codecs:
            # Small batches, so that there are several.
            options = ProduceOptions(compression_type=codec, batch_size=2_000)
            result = client.produce(f"{topic_name}-{codec}", as_batch(rows), 0, options)
            assert result.records == len(rows)
            assert result.idempotent == (version_tuple(real_release) >= (0, 11))
    topics = [f"{topic_name}-{codec}" for codec in codecs]
    wanted = [f"{topic}={len(rows)}" for topic in topics]
    printed = java(
        real_broker,
        real_release,
        ["consume", real_broker.bootstrap_servers, "read_uncommitted", *wanted],
    )
    found: dict[str, list[Row]] = {topic: [] for topic in topics}
    for line in printed.splitlines():
        topic, offset, timestamp, _, key, value, headers = line.split("\t")
        assert int(offset) == len(found[topic])
        pairs = tuple(
            (name, from_hexadecimal(data))
            for name, data in (h.split("=") for h in headers.split(";") if h)
        )
        found[topic].append((int(timestamp), from_hexadecimal(key), from_hexadecimal(value), pairs))
    for topic in topics:
        assert found[topic] == rows, topic


def test_what_the_release_cannot_keep_is_refused(
    real_broker: RealCluster, real_release: str, topic_name: str
) -> None:
    """Headers before 0.11 and zstd before 2.1 are errors before anything is sent,
    never dropped in silence.
    """
    headers = [(-1, b"k", b"v", (("h", b"1"),))]
    with Client(bootstrap_servers=real_broker.bootstrap_servers) as client:
        client.produce(topic_name, as_batch(rows_for(real_release)[:1]), 0)  # makes the topic
        if version_tuple(real_release) < (0, 11):
            with pytest.raises((UnsupportedVersionError, LocalProtocolError), match="header"):
                client.produce(topic_name, as_batch(headers), 0)  # type: ignore[arg-type]
        if version_tuple(real_release) < (2, 1):
            with pytest.raises(UnsupportedVersionError, match="zstd"):
                client.produce(
                    topic_name,
                    as_batch(rows_for("0.9.0.1")),
                    0,
                    ProduceOptions(compression_type="zstd"),
                )
        (batch,) = client.fetch(TopicPartition(topic_name, 0), EARLIEST, LATEST)
        assert batch.num_rows == 1
