"""Both kernels against record batches that Java producers wrote and real brokers stored.

What each log holds is what the Java consumer of that release printed (tools/capture_golden.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.devcluster.state.log.batches import read_facts
from parley.records import (
    ReadOptions,
    assign_offsets,
    decode_columns,
    end_marker,
    records,
    split,
)
from parley_laboratory.golden import GoldenLog, read_logs

FOLDER = Path(__file__).parent / "records"
LOGS = [log for index in sorted(FOLDER.glob("*.json")) for log in read_logs(index.with_suffix(""))]
USERS_OF_THE_KERNEL = ("append", "convert", "decode", "encode", "split")


@pytest.fixture(params=["reference", "native"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make `parley.records` use one of the two kernels."""
    try:
        chosen = importlib.import_module(f"parley.kernel.{request.param}")
    except ImportError:
        pytest.skip("the compiled kernel is not built")
    for name in USERS_OF_THE_KERNEL:
        module = importlib.import_module(f"parley.records.{name}")
        if hasattr(module, "active"):
            monkeypatch.setattr(module, "active", chosen)
    return str(request.param)


def logs(**wanted: object) -> list[Any]:
    """Return the logs as test parameters."""
    return [
        pytest.param(log, id=f"{log.release}-{log.topic}")
        for log in LOGS
        if all(getattr(log, name) == value for name, value in wanted.items())
    ]


def aborted(log: GoldenLog) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted transactions, as a
    fetch would name them.
    """
    assert log.committed is not None
    visible = {record.offset for record in log.committed}
    first = next(record.offset for record in log.records if record.offset not in visible)
    return [(batch.producer_id, first) for batch in split(log.data) if batch.base_offset == first]


def test_every_release_and_codec_is_there() -> None:
    found = {(log.release, log.codec) for log in LOGS}
    for release in ("0.9.0.1", "0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0"):
        codecs = {"none", "gzip", "snappy", "lz4"} | ({"zstd"} if release[0] in "234" else set())
        assert {codec for name, codec in found if name == release} == codecs


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("log", logs())
def test_log_decodes_to_what_java_reads(log: GoldenLog) -> None:
    chunks = list(decode_columns(log.data, first_offset=0))
    assert [tuple(r) for chunk in chunks for r in records(chunk.columns)] == [
        tuple(r) for r in log.records
    ]
    assert chunks[-1].next_offset == split(log.data)[-1].next_offset


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("log", logs(topic="transactions"))
def test_committed_records_are_what_java_reads_committed(log: GoldenLog) -> None:
    assert log.committed is not None
    chunks = list(decode_columns(log.data, first_offset=0, aborted=aborted(log)))
    assert [tuple(r) for chunk in chunks for r in records(chunk.columns)] == [
        tuple(r) for r in log.committed
    ]
    hidden = [
        number
        for number, batch in enumerate(split(log.data))
        if not any(
            batch.base_offset <= record.offset <= batch.last_offset for record in log.committed
        )
    ]
    assert hidden == [1, 2, 3, 5], "two markers, an aborted batch between them, and the last marker"


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("log", logs())
def test_any_range_of_offsets_decodes(log: GoldenLog) -> None:
    """A start inside a batch, a compacted gap or behind the end; small chunks; each end."""
    end = split(log.data)[-1].next_offset
    for first in range(end + 1):
        for last in range(first, end + 1):
            chunks = decode_columns(
                log.data, first_offset=first, end_offset=last, options=ReadOptions(max_rows=3)
            )
            found = [record for chunk in chunks for record in records(chunk.columns)]
            assert [tuple(r) for r in found] == [
                tuple(r) for r in log.records if first <= r.offset < last
            ]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("log", logs())
def test_every_truncation_reads_as_the_records_before_the_cut(log: GoldenLog) -> None:
    """Brokers cut a fetch anywhere; the part that is whole must read, the rest must not."""
    read = 0
    for cut in range(len(log.data) + 1):
        found = [
            tuple(r)
            for c in decode_columns(log.data[:cut], first_offset=0)
            for r in records(c.columns)
        ]
        assert found == [tuple(r) for r in log.records[: len(found)]]
        assert len(found) >= read
        read = len(found)
    assert read == len(log.records)


@pytest.mark.parametrize("log", [p for p in logs(codec="none") if p.id.endswith("codec-none")])
def test_uncompressed_batches_are_encoded_as_java_does(log: GoldenLog, kernel: str) -> None:
    """Byte for byte, CRC included: an uncompressed batch leaves its writer no freedom.

    (A cleaner keeps a batch's old bounds, and LogAppendTime keeps the producer's deltas: those
    topics are not what any producer would write.)
    """
    encoded = list(_encode_again(log, kernel))
    assert encoded == [log.data[batch.start : batch.end] for batch in split(log.data)]


def _encode_again(log: GoldenLog, kernel: str) -> Iterator[bytes]:
    from parley.kernel import EncodeOptions

    chosen = importlib.import_module(f"parley.kernel.{kernel}")
    for batch in split(log.data):
        (chunk,) = decode_columns(log.data[batch.start : batch.end], first_offset=0)
        options = EncodeOptions(
            magic=batch.magic,
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=batch.is_transactional,
        )
        yield bytes(chosen.encode(chunk.columns, None, 0, options).data)


def test_the_markers_of_real_brokers_are_made_byte_for_byte() -> None:
    """What the embedded cluster writes at a transaction's end is what
    brokers of each release wrote.
    """
    seen = set()
    for log in LOGS:
        for batch in split(log.data):
            if not batch.is_control:
                continue
            stored = bytearray(log.data[batch.start : batch.end])
            facts = read_facts(stored)
            assert facts is not None
            made = end_marker(
                facts.producer_id, facts.producer_epoch, facts.coordinator_epoch,
                commit=facts.control_type == 1, now_ms=facts.max_timestamp_ms,
            )  # fmt: skip
            assert (
                bytes(assign_offsets(bytearray(made), facts.base_offset, facts.leader_epoch))
                == stored
            )
            seen.add((log.release, facts.control_type))
    assert {kind for _, kind in seen} == {0, 1}
    assert len({release for release, _ in seen}) >= 4
