"""The records layer over both kernels: any log against a plain model, and any bytes at all."""

from __future__ import annotations

import contextlib
import importlib
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from parley.errors import CorruptRecordError, UnsupportedVersionError
from parley.records import (
    ReadOptions,
    Record,
    WriteOptions,
    assign_offsets,
    check_batch,
    columns_from_records,
    convert,
    decode_columns,
    encode_batches,
    records,
    split,
    stamp_producer,
)

KERNELS = ("reference", "native")
USERS = ("append", "convert", "decode", "encode", "split")
MODULES = [importlib.import_module(f"parley.records.{name}") for name in USERS]
pytest.importorskip(
    "parley.kernel.native", reason="the compiled kernel is not built", exc_type=ImportError
)


@contextlib.contextmanager
def using(name: str) -> Iterator[None]:
    """Make the records layer use one kernel. (A fixture would live across Hypothesis' examples.)"""
    chosen = importlib.import_module(f"parley.kernel.{name}")
    before = [module.active for module in MODULES]
    for module in MODULES:
        module.active = chosen
    try:
        yield
    finally:
        for module, active in zip(MODULES, before, strict=True):
            module.active = active


# ── logs against a model ─────────────────────────────────────────────────────


class Part(NamedTuple):
    """One batch of a log: what is in it and what it is."""

    offsets: list[int]
    last: int
    magic: int
    codec: int
    pid: int  # -1: of no transaction
    control: int | None  # 0 abort, 1 commit


@st.composite
def logs(draw: Any) -> list[Part]:
    """Draw a log: gaps, empty batches, transactions of three producers that commit and abort."""
    parts, offset = [], draw(st.sampled_from([0, 7, 2**31 - 5, 2**40]))
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["plain", "plain", "old", "txn", "txn", "end", "empty"]))
        pid = draw(st.integers(1, 3)) if kind in ("txn", "end") else -1
        count = draw(st.integers(1, 4))
        offsets = []
        for _ in range(count):
            offsets.append(offset)
            offset += draw(st.sampled_from([1, 1, 1, 3, 100]))
        magic, codec = 2, draw(st.integers(0, 4))
        if kind == "old":
            magic, codec = draw(st.integers(0, 1)), draw(st.integers(0, 3))
        if kind == "end":
            parts.append(Part(offsets[:1], offsets[0], 2, 0, pid, draw(st.integers(0, 1))))
            offset = offsets[0] + 1
        elif kind == "empty":
            parts.append(Part([], offsets[-1], 2, codec, -1, None))
            offset = offsets[-1] + 1
        else:
            last = offsets[-1] if magic < 2 else offset - 1
            offset = last + 1
            parts.append(Part(offsets, last, magic, codec, pid, None))
    return parts


def written(part: Part) -> bytes:
    """Return the batch's bytes."""
    rows = [Record(offset, 5, 0, b"k", b"%d" % offset) for offset in part.offsets or [part.last]]
    if part.control is not None:
        rows = [Record(part.last, 5, 0, struct.pack(">hh", 0, part.control), b"")]
    (made,) = encode_batches(
        columns_from_records(rows), None, WriteOptions(magic=part.magic, codec=part.codec)
    )
    data = bytearray(made.data)
    if part.magic < 2:
        return bytes(data)
    if not part.offsets:
        del data[61:]
        struct.pack_into(">i", data, 8, 49)
        struct.pack_into(">i", data, 57, 0)
    struct.pack_into(">i", data, 23, part.last - rows[0].offset)
    data[22] |= 0x20 if part.control is not None else 0
    stamp_producer(data, part.pid, 0 if part.pid > 0 else -1, -1, transactional=part.pid > 0)
    return bytes(data)


def aborted_in(parts: list[Part]) -> tuple[list[tuple[int, int]], set[int]]:
    """Return the aborted transactions of a log as a broker lists them, and
    the offsets they hold.
    """
    running: dict[int, list[Part]] = {}
    listed, hidden = [], set()
    for part in parts:
        if part.pid > 0 and part.control is None:
            running.setdefault(part.pid, []).append(part)
        elif part.control is not None:
            done = running.pop(part.pid, [])
            if part.control == 0 and done:
                listed.append((part.pid, done[0].offsets[0]))
                hidden |= {offset for one in done for offset in one.offsets}
    return listed, hidden


@given(logs(), st.data())
def test_any_log_reads_as_its_model(parts: list[Part], data: Any) -> None:
    end_of_log = parts[-1].last + 1 if parts else 0
    raw = b"".join(written(part) for part in parts)
    listed, hidden = aborted_in(parts)
    edges = st.sampled_from([0, *(part.last for part in parts), *(part.last + 1 for part in parts)])
    first, end = data.draw(edges), data.draw(st.none() | edges)
    committed = data.draw(st.booleans())
    max_rows, max_bytes = data.draw(
        st.sampled_from([(1, 10**6), (4, 10**6), (1000, 1), (1000, 10**6)])
    )
    options = ReadOptions(max_rows=max_rows, max_bytes=max_bytes)
    expected = [
        offset
        for part in parts
        if part.control is None
        for offset in part.offsets
        if first <= offset < (end_of_log if end is None else end)
        and not (committed and offset in hidden)
    ]
    for kernel in KERNELS:
        with using(kernel):
            reported = listed if committed else None
            chunks = list(
                decode_columns(
                    raw, first_offset=first, end_offset=end, aborted=reported, options=options
                )
            )
        assert [row.offset for chunk in chunks for row in records(chunk.columns)] == expected
        positions = [first, *(chunk.next_offset for chunk in chunks)]
        assert positions == sorted(positions)
        # Nothing is waited for: the position ends at the end of the log, or of the range.
        reached = end_of_log if end is None else min(end, end_of_log)
        assert positions[-1] == max(first, reached)


# ── any bytes ────────────────────────────────────────────────────────────────

BASES = [written(Part([3, 4, 9], 12, 2, 0, 1, None)), written(Part([3], 3, 2, 0, 1, 0)),
         written(Part([3, 4], 4, 1, 1, -1, None)), written(Part([3, 4], 4, 0, 0, -1, None)),
         written(Part([3, 4], 4, 2, 4, -1, None))]  # fmt: skip


@st.composite
def hostile(draw: Any) -> bytes:
    """Draw good batches with bytes changed, cut out or put in, or plain junk."""
    raw = bytearray(b"".join(draw(st.lists(st.sampled_from(BASES), max_size=4))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw)))
        change = draw(st.sampled_from(["set", "cut", "put"]))
        if change == "put":
            raw[at:at] = draw(st.binary(max_size=6))
        elif change == "cut":
            del raw[at : at + draw(st.integers(1, 40))]
        elif at < len(raw):
            raw[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    return bytes(raw) if draw(st.integers(0, 9)) else draw(st.binary(max_size=200))


def outcome(call: Any) -> Any:
    """Return what a call gives, or where its error stands; any other exception
    is a failure of the test.
    """
    try:
        found = call()
    except CorruptRecordError as error:
        return "corrupt", error.offset, str(error).split(":")[1].split(":")[0]
    except UnsupportedVersionError:
        return "unsupported"
    return found


def shown(raw: bytes, aborted: list[tuple[int, int]] | None, check_crc: bool) -> list[Any]:
    found: list[Any] = []

    def run() -> None:
        options = ReadOptions(check_crc=check_crc)
        for chunk in decode_columns(raw, first_offset=0, aborted=aborted, options=options):
            found.extend(tuple(row) for row in records(chunk.columns))
            found.append((chunk.next_offset, chunk.last_leader_epoch))

    found.append(outcome(run))
    return found


@given(hostile(), st.none() | st.just([(1, 0)]), st.booleans())
def test_any_bytes_read_alike_or_fail_alike(
    raw: bytes, aborted: list[tuple[int, int]] | None, check_crc: bool
) -> None:
    seen = []
    for kernel in KERNELS:
        with using(kernel):
            seen.append(shown(raw, aborted, check_crc))
            seen[-1].append(outcome(lambda: split(raw)))
    assert seen[0] == seen[1]


@given(hostile())
def test_a_broker_survives_any_produced_bytes(raw: bytes) -> None:
    seen = []
    for kernel in KERNELS:
        with using(kernel):
            found = [outcome(lambda: check_batch(raw))]
            found += [outcome(lambda magic=magic: convert(raw, magic)) for magic in (0, 1, 2)]
            if isinstance(found[0], tuple) and found[0][0] != "corrupt":
                found.append(bytes(assign_offsets(bytearray(raw), 77, 3, 1234)))
            seen.append(found)
    for ours, theirs in zip(*seen, strict=True):
        if isinstance(ours, bytes) and ours != theirs:  # compressed again: equal when read
            assert shown(ours, None, True) == shown(theirs, None, True)
        else:
            assert ours == theirs
