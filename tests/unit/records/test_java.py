"""Kafka's own classes read every format and codec that either kernel
writes, conversions included.
"""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

from parley.kernel import EncodeOptions
from parley.kernel.functions import Kernel
from parley.records import Record, assign_offsets, columns_from_records, convert, records, split
from parley.records.decode import decode_columns
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command

from ...support import GENEROUS_S

pytestmark = pytest.mark.jars

HERE = Path(__file__).parent
HEADERS = (("h", b"x"), ("h", None), ("", b""), ("ключ", b"\xff"))
ROWS = [
    Record(100, 1_700_000_000_123, 0, b"key", b"value", HEADERS),
    Record(101, 1_699_999_999_999, 0, None, b""),
    Record(105, 1_700_000_000_124, 0, b"", None),
    *(
        Record(n, 1_700_000_000_000 + n, 0, b"k%d" % n, b"text %d " % n * 60)
        for n in range(106, 900)
    ),
]
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < 4 or magic == 2]


def made(kernel: Kernel) -> dict[str, bytes]:
    """Return record sets of every format that a kernel writes, by name."""
    found = {}
    for magic, codec in FORMATS:
        rows = ROWS if magic == 2 else [row._replace(headers=()) for row in ROWS]
        columns = columns_from_records(rows)
        for time in (None, 1_800_000_000_000):
            data, start = b"", 0
            while start < len(rows):
                options = EncodeOptions(
                    magic=magic, codec=codec, max_bytes=200_000, log_append_time_ms=time
                )
                batch = kernel.encode(columns, None, start, options)
                data, start = data + bytes(batch.data), batch.next_start
            found[f"magic {magic}, codec {codec}, append time {time}"] = data
    for magic, codec in FORMATS:
        sent = bytearray(found[f"magic {magic}, codec {codec}, append time None"])
        if len(split(sent)) == 1:
            found[f"stored, magic {magic}, codec {codec}"] = bytes(
                assign_offsets(sent, 5000, 3, 1_900_000_000_000)
            )
        if codec < 4:
            for to_magic in {0, 1, 2} - {magic}:
                found[f"converted, magic {magic} to {to_magic}, codec {codec}"] = convert(
                    sent, to_magic, upward=True
                )
    return found


def by_java(files: list[Path]) -> dict[str, list[Record]]:
    """Return what Kafka's classes read in each file."""
    jars = class_path(["org.apache.kafka:kafka-clients:3.9.1"])
    command = java_command(jars, [str(HERE / "ReadRecords.java"), *map(str, files)])
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GENEROUS_S)
    found: dict[str, list[Record]] = {}
    for line in done.stdout.splitlines():
        kind, *cells = line.split("\t")
        if kind == "file":
            rows = found[Path(cells[0]).name] = []
            continue
        assert kind == "record", line
        raw = [None if cell == "null" else bytes.fromhex(cell) for cell in cells[3:]]
        headers = tuple((str(raw[at], "utf-8"), raw[at + 1]) for at in range(2, len(raw), 2))  # type: ignore[arg-type]
        rows.append(Record(int(cells[0]), int(cells[1]), int(cells[2]), raw[0], raw[1], headers))
    return found


def test_java_reads_what_is_written_here(kernel: str, tmp_path: Path) -> None:
    chosen: Kernel = importlib.import_module(f"parley.kernel.{kernel}")
    sets = made(chosen)
    files = []
    for number, data in enumerate(sets.values()):
        files.append(tmp_path / str(number))
        files[-1].write_bytes(data)
    found = by_java(files)
    for number, (name, data) in enumerate(sets.items()):
        ours = [
            row for chunk in decode_columns(data, first_offset=0) for row in records(chunk.columns)
        ]
        assert len(ours) == len(ROWS), name
        assert found[str(number)] == ours, name
