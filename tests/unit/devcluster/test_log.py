"""The log: offsets, bounded reads by reference, truncation, and recovery of torn files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.devcluster.state.log.batches import BatchFacts, read_facts, walk
from parley.devcluster.state.log.bytestore import Extent, FileStores, MemoryStore, MemoryStores
from parley.devcluster.state.log.log import Log
from parley.records import crc_is_right

Stored = Callable[..., tuple[list[BatchFacts], bytes]]
MAGICS = pytest.mark.parametrize("magic", [0, 1, 2])


def filled(log: Log, stored: Stored, batches: int, each: int, **options: object) -> list[bytes]:
    written = []
    for number in range(batches):
        run, data = stored(number * each, each, timestamp_ms=1_000 + number * 100, **options)
        log.append(run, data, now_ms=number)
        written.append(data)
    return written


def content(log: Log, offset: int = 0) -> bytes:
    return b"".join(bytes(data) for _, data in log.batches_from(offset))


@MAGICS
def test_reading_gives_back_what_was_appended(log: Log, stored: Stored, magic: int) -> None:
    written = filled(log, stored, 20, 5, magic=magic)
    assert (log.start_offset, log.end_offset) == (0, 100)
    assert content(log) == b"".join(written)
    assert log.size == sum(map(len, written))


@MAGICS
@pytest.mark.parametrize("offset", [0, 1, 4, 5, 7, 49, 98, 99])
def test_a_read_begins_with_the_batch_that_holds_the_offset(
    log: Log, stored: Stored, magic: int, offset: int
) -> None:
    filled(log, stored, 20, 5, magic=magic)
    found = log.read(offset, 1)
    facts = read_facts(found.parts[0])
    assert facts is not None
    assert facts.base_offset <= offset <= facts.last_offset
    assert found.next_offset == facts.last_offset + 1


def test_a_read_stops_at_max_bytes_and_at_the_end_offset(log: Log, stored: Stored) -> None:
    size = len(filled(log, stored, 20, 5)[0])
    assert log.read(0, 3 * size).size == 3 * size
    assert log.read(0, 3 * size + size - 1).size == 3 * size
    assert log.read(0, 10**9, end_offset=15).size == 3 * size
    assert log.read(0, 10**9, end_offset=14).size == 2 * size
    assert log.read(0, 10**9).next_offset == 100
    assert log.read(100, 10**9).parts == []


def test_the_first_batch_comes_whole_or_not_at_all(log: Log, stored: Stored) -> None:
    size = len(filled(log, stored, 3, 5)[0])
    assert log.read(0, 10).size == size
    assert log.read(0, 10, at_least_one=False).parts == []
    assert log.read(0, 10, end_offset=0).parts == []


def test_reads_in_memory_are_by_reference(log: Log, stored: Stored) -> None:
    filled(log, stored, 20, 5)
    first, second = log.read(0, 10**6).parts, log.read(0, 10**6).parts
    assert len(first) == 1, "one slab, one piece"
    assert first[0].obj is second[0].obj


def test_reads_cross_segments_and_slabs(stored: Stored) -> None:
    log = Log(MemoryStores(), segment_bytes=1_000)
    written = filled(log, stored, 50, 5)
    assert len(log.segments) > 5
    found = log.read(0, 10**9)
    assert b"".join(found.parts) == b"".join(written)


def test_a_batch_that_overlaps_the_log_is_a_bug(log: Log, stored: Stored) -> None:
    filled(log, stored, 2, 5)
    run, data = stored(9, 1)
    with pytest.raises(ValueError, match="do not follow"):
        log.append(run, data)
    assert log.end_offset == 10


def test_gaps_of_compaction_are_passed_over(log: Log, stored: Stored) -> None:
    for base in (0, 10, 30):
        log.append(*stored(base, 5))
    facts = read_facts(log.read(7, 1).parts[0])
    assert facts is not None
    assert facts.base_offset == 10


@pytest.mark.parametrize(
    ("to", "end"), [(100, 100), (99, 95), (95, 95), (51, 50), (5, 5), (1, 0), (0, 0)]
)
def test_truncation_removes_whole_batches(stored: Stored, to: int, end: int) -> None:
    log = Log(MemoryStores(), segment_bytes=700)
    written = filled(log, stored, 20, 5)
    assert log.truncate_to(to) is (to < 100)
    assert log.end_offset == end
    assert content(log) == b"".join(written[: end // 5])
    run, data = stored(end, 5, size=3)
    log.append(run, data)
    assert content(log, end) == data, "and the log goes on from there"


def test_what_a_reader_holds_outlives_a_truncation(log: Log, stored: Stored) -> None:
    written = filled(log, stored, 4, 5)
    held = log.read(10, 10**6).parts
    log.truncate_to(10)
    log.append(*stored(10, 5, size=99))
    assert b"".join(held) == b"".join(written[2:]), "slabs are never rewritten"


def test_the_start_advances_and_old_segments_go(stored: Stored) -> None:
    log = Log(MemoryStores(), segment_bytes=700)
    filled(log, stored, 20, 5)
    before = len(log.segments)
    log.advance_start(52)
    assert (log.start_offset, log.end_offset) == (52, 100)
    assert len(log.segments) < before
    log.advance_start(10)
    assert log.start_offset == 52, "it never goes back"


def test_what_is_too_much_is_counted_from_the_front(stored: Stored) -> None:
    log = Log(MemoryStores(), segment_bytes=700)
    filled(log, stored, 20, 5)
    last = log.segments[-1]
    assert log.end_of_excess(log.size) == log.end_of_excess(10**9) == 0
    assert log.end_of_excess(log.size - 1) == 0, "whole segments only"
    assert log.end_of_excess(log.size - log.segments[0].size) == log.segments[1].base_offset
    assert log.end_of_excess(1) == log.end_of_excess(last.size) == last.base_offset
    assert log.end_of_excess(0) == 100, "the one that is written to goes as well"


def test_restart_empties_the_log(log: Log, stored: Stored) -> None:
    filled(log, stored, 4, 5)
    log.restart_at(1_000)
    assert (log.start_offset, log.end_offset, content(log)) == (1_000, 1_000, b"")
    log.append(*stored(1_000, 3))
    assert log.end_offset == 1_003


def test_batches_are_found_by_time(stored: Stored) -> None:
    log = Log(MemoryStores(), segment_bytes=700)
    filled(log, stored, 20, 5)
    assert next(log.batches_at_time(0)) == (0, log.read(0, 1).parts[0])
    found = next(log.batches_at_time(1_105), None)
    assert found is not None
    assert found[0] == 10, "batch 1 ends at 1104"
    assert not list(log.batches_at_time(10_000))
    assert log.max_timestamp_ms == 1_000 + 19 * 100 + 4


def test_reading_scales_with_what_is_read_not_with_the_log(stored: Stored) -> None:
    log = Log(MemoryStores())
    filled(log, stored, 2_000, 1)
    size = log.read(0, 1).size
    # One piece whatever the number of batches: nothing is touched per batch.
    assert [len(log.read(0, n * size).parts) for n in (1, 10, 600)] == [1, 1, 1]


# -- on disk ---------------------------------------------------------------------------------------


@MAGICS
@pytest.mark.parametrize("codec", [0, 1])
def test_a_log_on_disk_is_recovered(tmp_path: Path, stored: Stored, magic: int, codec: int) -> None:
    log = Log(FileStores(tmp_path / "t-0"), segment_bytes=900)
    filled(log, stored, 20, 5, magic=magic, codec=codec)
    written = content(log)
    log.close()
    again = Log(FileStores(tmp_path / "t-0"), segment_bytes=900)
    facts = again.recover(crc_is_right)
    assert (again.start_offset, again.end_offset) == (0, 100)
    assert content(again) == written
    assert facts[-1].last_offset == 99
    again.append(*stored(100, 5, magic=magic))
    assert again.end_offset == 105
    again.close()


@MAGICS
def test_a_tail_torn_at_any_byte_is_cut_off(tmp_path: Path, stored: Stored, magic: int) -> None:
    whole, last = (
        [stored(0, 3, magic=magic), stored(3, 2, magic=magic)],
        stored(5, 2, magic=magic, codec=1),
    )
    head = b"".join(data for _, data in whole)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    for kept in range(len(last[1])):
        path.write_bytes(head + last[1][:kept])
        log = Log(FileStores(path.parent))
        log.recover(crc_is_right)
        assert (log.end_offset, path.stat().st_size) == (5, len(head)), f"torn after {kept} bytes"
        log.append(*last)
        assert content(log) == head + last[1]
        log.close()


@MAGICS
def test_a_tail_with_any_flipped_byte_is_never_taken_for_sound(
    tmp_path: Path, stored: Stored, magic: int
) -> None:
    first, last = stored(0, 3, magic=magic), stored(3, 1, magic=magic)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    # in front of the CRC: offsets, lengths, epoch
    unprotected = {2: range(16), 1: range(8), 0: range(8)}[magic]
    for at in range(len(last[1])):
        torn = bytearray(last[1])
        torn[at] ^= 0x40
        path.write_bytes(first[1] + torn)
        log = Log(FileStores(path.parent))
        log.recover(crc_is_right)
        kept = log.end_offset
        log.close()
        if at not in unprotected:
            assert kept == 3, f"byte {at} flipped and not noticed"


def test_garbage_behind_the_log_is_cut_off(tmp_path: Path, stored: Stored) -> None:
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    good = stored(0, 3)[1]
    # the last one repeats old offsets
    for garbage in (b"\0" * 4096, b"\xff" * 4096, os.urandom(4096), good):
        path.write_bytes(good + garbage)
        log = Log(FileStores(path.parent))
        log.recover(crc_is_right)
        assert (log.end_offset, path.stat().st_size) == (3, len(good))
        log.close()


def test_segments_behind_a_damaged_one_are_removed(tmp_path: Path, stored: Stored) -> None:
    log = Log(FileStores(tmp_path / "t-0"), segment_bytes=700)
    filled(log, stored, 20, 5)
    second = log.segments[1].base_offset
    log.close()
    path = tmp_path / "t-0" / f"{second:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = Log(FileStores(tmp_path / "t-0"), segment_bytes=700)
    again.recover(crc_is_right)
    assert second < again.end_offset < 100
    assert [base for base, _ in walk(content(again))]
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 2
    again.close()


@pytest.mark.parametrize(
    ("at", "why", "reported"),
    [(-1, "another CRC", "12 whole batches with 60 records"),
      (8, "cut off, or its header", "0 whole batches with 0"),
     (1, "offsets that do not follow", "12 whole batches with 60 records")],
)  # fmt: skip
def test_what_a_damage_takes_away_is_said(
    tmp_path: Path,
    stored: Stored,
    caplog: pytest.LogCaptureFixture,
    at: int,
    why: str,
    reported: str,
) -> None:
    log = Log(FileStores(tmp_path / "t-0"))
    written = filled(log, stored, 20, 5)
    log.close()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    position, data = sum(map(len, written[:8])), bytearray(path.read_bytes())
    data[position + (at if at >= 0 else len(written[8]) - 1)] ^= 0x80
    if at == 1:  # a base offset that fell is not seen by the CRC
        data[position : position + 8] = bytes(8)
    path.write_bytes(data)
    again = Log(FileStores(tmp_path / "t-0"))
    again.recover(crc_is_right)
    assert again.end_offset == 40
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("parley.devcluster", "WARNING")
    text = record.getMessage()
    assert f"{path}: the batch at byte {position}, where offset 40 is expected, " in text
    assert why in text
    assert f"{len(data) - position} bytes, in which {reported}" in text
    again.close()


def test_segments_that_go_with_a_damaged_one_are_named(
    tmp_path: Path, stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(FileStores(tmp_path / "t-0"), segment_bytes=700)
    filled(log, stored, 20, 5)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    paths = [tmp_path / "t-0" / f"{base:020d}.log" for base in bases]
    sizes = [path.stat().st_size for path in paths]
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    again = Log(FileStores(tmp_path / "t-0"), segment_bytes=700)
    again.recover(crc_is_right)
    again.close()
    first, *others = [record.getMessage() for record in caplog.records]
    assert first.startswith(f"{paths[1]}: the batch at byte ")
    assert others == [
        f"{path} is removed, {size} bytes: it lies behind a damage"
        for path, size in zip(paths[2:], sizes[2:], strict=True)
    ]


def test_a_sound_log_is_recovered_in_silence(
    tmp_path: Path, stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(FileStores(tmp_path / "t-0"), segment_bytes=700)
    filled(log, stored, 20, 5)
    log.close()
    again = Log(FileStores(tmp_path / "t-0"), segment_bytes=700)
    again.recover(crc_is_right)
    again.close()
    assert not caplog.records


@pytest.mark.parametrize("size", [1_000, 60_000, 1_000_000, 1_100_000, 4_500_000, 9_000_000])
def test_memory_holds_little_more_than_the_records(size: int) -> None:
    store, total = MemoryStores().create(0), 0
    assert isinstance(store, MemoryStore)
    slabs = {}
    while total < 40_000_000:
        part = store.append(bytes(size))
        assert isinstance(part, Extent)
        slabs[id(part.slab)] = part.slab
        total += size
    last = store.append(b"x")
    assert isinstance(last, Extent)
    unused = sum(slab.size - slab.used for slab in slabs.values() if slab is not last.slab)
    assert unused <= total / 8
    assert b"".join(store.view(total, total + 1)) == b"x"


class FullDisk:
    """Stands in for os.pwrite: takes `room` bytes, then refuses as a full disk does."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.real = os.pwrite

    def __call__(self, fd: int, data: bytes, at: int) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = self.real(fd, memoryview(data)[: self.room], at)
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", [0, 1, 60, 100])
def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, stored: Stored, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    log = Log(FileStores(tmp_path / "t-0"))
    filled(log, stored, 3, 5)
    before = content(log)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", FullDisk(room))
        with pytest.raises(OSError, match="No space left"):
            log.append(*stored(15, 5))
    assert (log.end_offset, content(log)) == (15, before)
    assert (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size == len(before), (
        "no half batch on disk"
    )
    log.append(*stored(15, 5))
    assert log.end_offset == 20
    log.close()
