"""Golden bytes: what real brokers and Java clients
wrote, kept as one .bin and one .json file per release.

The .json file is the index: where each piece lies in the .bin file, and what it is known to hold.
`tools/capture_golden.py` writes both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, NotRequired, TypeAlias, TypedDict


class GoldenRecord(NamedTuple):
    """A record as the Java consumer of its release printed it."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    """-1 none (magic 0), 0 CreateTime, 1 LogAppendTime."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, kw_only=True)
class GoldenLog:
    """A topic's log as the broker stored it, and what its own consumer reads from it."""

    release: str
    topic: str
    codec: str
    data: bytes
    records: tuple[GoldenRecord, ...]
    committed: tuple[GoldenRecord, ...] | None
    """What a read_committed consumer sees; None where there are no transactions."""


@dataclass(frozen=True, kw_only=True)
class GoldenExchange:
    """A request frame and the response frame that the broker sent, both without their size."""

    release: str
    api_key: int
    api_name: str
    version: int
    title: str
    request: bytes
    response: bytes


_Header: TypeAlias = tuple[str, str | None]
_RecordRow: TypeAlias = tuple[int, int, int, str | None, str | None, list[_Header]]
"""A record in the index: as GoldenRecord, with bytes as hexadecimal text. (A list, once read.)"""


class _LogEntry(TypedDict):
    topic: str
    codec: str
    start: int
    size: int
    records: list[_RecordRow]
    committed_offsets: NotRequired[list[int]]


class _Logs(TypedDict):
    release: str
    logs: list[_LogEntry]


class _ExchangeEntry(TypedDict):
    api_key: int
    api_name: str
    version: int
    title: str
    request: tuple[int, int]
    response: tuple[int, int]


class _Exchanges(TypedDict):
    release: str
    exchanges: list[_ExchangeEntry]


def write_logs(path: Path, logs: Sequence[GoldenLog]) -> None:
    """Write the logs of one release to `path`.json and `path`.bin."""
    data = bytearray()
    index = []
    for log in logs:
        entry: _LogEntry = {
            "topic": log.topic,
            "codec": log.codec,
            "start": len(data),
            "size": len(log.data),
            "records": [_record_to_json(record) for record in log.records],
        }
        if log.committed is not None:
            entry["committed_offsets"] = [record.offset for record in log.committed]
        index.append(entry)
        data += log.data
    _write(path, logs[0].release, "logs", index, data)


def read_logs(path: Path) -> list[GoldenLog]:
    """Read back what `write_logs` wrote."""
    read, data = _read(path)
    index: _Logs = json.loads(read)
    found = []
    for entry in index["logs"]:
        records = tuple(_record_from_json(*record) for record in entry["records"])
        committed = entry.get("committed_offsets")
        found.append(
            GoldenLog(
                release=index["release"],
                topic=entry["topic"],
                codec=entry["codec"],
                data=data[entry["start"] : entry["start"] + entry["size"]],
                records=records,
                committed=None
                if committed is None
                else tuple(r for r in records if r.offset in set(committed)),
            )
        )
    return found


def write_exchanges(path: Path, exchanges: Sequence[GoldenExchange]) -> None:
    """Write the exchanges of one release to `path`.json and `path`.bin."""
    data = bytearray()
    index = []
    for exchange in exchanges:
        entry = asdict(exchange)
        del entry["release"]
        for part in ("request", "response"):
            entry[part] = [len(data), len(entry[part])]
            data += getattr(exchange, part)
        index.append(entry)
    _write(path, exchanges[0].release, "exchanges", index, data)


def read_exchanges(path: Path) -> list[GoldenExchange]:
    """Read back what `write_exchanges` wrote."""
    read, data = _read(path)
    index: _Exchanges = json.loads(read)
    found = []
    for entry in index["exchanges"]:
        found.append(
            GoldenExchange(
                release=index["release"],
                api_key=entry["api_key"],
                api_name=entry["api_name"],
                version=entry["version"],
                title=entry["title"],
                request=_piece(data, entry["request"]),
                response=_piece(data, entry["response"]),
            )
        )
    return found


def _piece(data: bytes, place: tuple[int, int]) -> bytes:
    start, size = place
    return data[start : start + size]


def _record_to_json(record: GoldenRecord) -> _RecordRow:
    headers = [(name, _hex(value)) for name, value in record.headers]
    return (
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        _hex(record.key),
        _hex(record.value),
        headers,
    )


def _record_from_json(
    offset: int,
    stamp_ms: int,
    stamp_type: int,
    key: str | None,
    value: str | None,
    headers: list[_Header],
) -> GoldenRecord:
    pairs = tuple((name, _unhex(content)) for name, content in headers)
    return GoldenRecord(offset, stamp_ms, stamp_type, _unhex(key), _unhex(value), pairs)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _write(
    path: Path, release: str, name: str, entries: Iterable[object], data: bytes | bytearray
) -> None:
    """Write one line per entry, so that a change of the golden bytes can be read in a diff."""
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    path.with_name(path.name + ".json").write_text(
        f'{{"release": {json.dumps(release)}, "{name}": [\n{lines}\n]}}\n'
    )
    path.with_name(path.name + ".bin").write_bytes(data)


def _read(path: Path) -> tuple[str, bytes]:
    index = path.with_name(path.name + ".json").read_text()
    return index, path.with_name(path.name + ".bin").read_bytes()
