"""Answers of two brokers as plain values, masked where no two brokers are
equal, and how they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parley.records import offsets_of, split
from parley.types import ZERO_UUID

MASKED = {
    "cluster_id",
    "host",
    "port",
    "topic_id",
    "producer_id",
    "error_message",
    "batch_index_error_message",
    "rack",
}
"""Fields of which only emptiness is compared: ids, addresses and texts."""

NOT_READY = {14, 15, 16}
"""Codes of a fresh broker: the coordinator is loading, not available, or not this one yet."""


def plain(value: object) -> object:
    """Return a message as plain values, masked."""
    if isinstance(value, list):
        entries = [plain(entry) for entry in value]
        named = entries and isinstance(entries[0], dict) and entries[0].get("name")
        return sorted(entries, key=_name) if named else entries
    if isinstance(value, memoryview):
        return sorted({one.magic for one in split(value)}), offsets_of(value)
    slots: Sequence[str] | None = getattr(type(value), "__slots__", None)
    if slots is None or isinstance(value, bytes | str | int | float):
        return value
    found: dict[str, object] = {}
    for name in slots:
        if name.startswith("_") or name in ("unknown_tagged_fields", "throttle_time_ms"):
            continue
        content = getattr(value, name)
        found[name] = masked(content) if name in MASKED else plain(content)
    return found


def _name(entry: object) -> str:
    return (isinstance(entry, dict) and entry["name"]) or ""


def masked(content: object) -> object:
    """Return whether a masked field says anything: the first producer id of a cluster is 0, and -1
    is none.

    A text that says nothing is returned as it is: null is not an empty one.
    """
    if isinstance(content, str) or content is None:
        return content and True
    if isinstance(content, int):
        return content >= 0
    return bool(content) and content != ZERO_UUID


def differences(real: object, ours: object, where: str = "") -> Iterator[str]:
    """Yield each leaf in which two masked answers differ."""
    if isinstance(real, dict) and isinstance(ours, dict) and real.keys() == ours.keys():
        for name in real:
            yield from differences(real[name], ours[name], f"{where}.{name}")
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for number, pair in enumerate(zip(real, ours, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif not where and isinstance(real, tuple) and isinstance(ours, tuple) and real[:2] == ours[:2]:
        yield from differences(real[2], ours[2], f"{real[0]} v{real[1]}")
    elif real != ours:
        yield f"{where or 'all'}: real {str(real)[:300]}, ours {str(ours)[:300]}"


def transient(value: object) -> bool:
    """Whether an answer only says that a fresh broker is not ready yet."""
    if isinstance(value, dict):
        return value.get("error_code") in NOT_READY or any(
            transient(entry) for entry in value.values()
        )
    return isinstance(value, list) and any(transient(entry) for entry in value)
