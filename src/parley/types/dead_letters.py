"""What the headers of a dead letter say: where it was, and what is wrong with it.

Written are Kafka Connect's headers, and a few of our own; Spring's are read as well. A dead letter
that fails again keeps its first place and counts its attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

Header = tuple[str, bytes | None]

_CONNECT = "__connect.errors."
_SPRING = "kafka_dlt-"
ERROR, QUERY, BATCH, ATTEMPTS = "parley-error", "parley-query", "parley-batch", "parley-attempts"
_OURS = (ERROR, QUERY, BATCH, ATTEMPTS)
_STAGES = {"value": "VALUE_CONVERTER", "key": "KEY_CONVERTER"}
_INT32, _INT64 = Struct(">i"), Struct(">q")
_MOST_DIGITS = 19


class Origin(NamedTuple):
    """Where a dead letter was first, why it is one, and how often it was tried."""

    topic: str
    partition: int
    offset: int
    reason: str = ""
    attempts: int = 1


def origin_of(headers: Sequence[Header]) -> Origin | None:
    """Return what a dead letter's headers say, Connect's or Spring's; None for other records.

    >>> origin_of([("__connect.errors.topic", b"orders"), ("__connect.errors.partition", b"2"),
    ...            ("__connect.errors.offset", b"17")])
    Origin(topic='orders', partition=2, offset=17, reason='', attempts=1)
    """
    found = {name: value for name, value in headers if value is not None}
    attempts = _number(found.get(ATTEMPTS, b"1")) or 1
    reason = found.get(f"{_CONNECT}exception.message") or found.get(f"{_SPRING}exception-message")
    said = (reason or b"").decode("utf-8", "replace")
    topic = found.get(f"{_CONNECT}topic")
    if topic is not None:
        partition, offset = (_number(found.get(f"{_CONNECT}{one}")) for one in _PLACE)
    else:
        topic = found.get(f"{_SPRING}original-topic")
        partition = _unpacked(_INT32, found.get(f"{_SPRING}original-partition"))
        offset = _unpacked(_INT64, found.get(f"{_SPRING}original-offset"))
    if topic is None or partition is None or offset is None:
        return None
    return Origin(topic.decode("utf-8", "replace"), partition, offset, said, attempts)


_PLACE = ("partition", "offset")


def dead_letter_headers(
    own: Sequence[Header],
    place: Origin,
    *,
    part: str,
    code: str,
    query: str | None = None,
    batch: str | None = None,
) -> list[Header]:
    """Return the headers of a dead letter: the record's own, and what is wrong with its `part`."""
    before = origin_of(own)
    first = place if before is None else before._replace(attempts=before.attempts + 1)
    kept = [
        (name, value) for name, value in own if not name.startswith(_CONNECT) and name not in _OURS
    ]
    said = {
        f"{_CONNECT}topic": first.topic,
        f"{_CONNECT}partition": str(first.partition),
        f"{_CONNECT}offset": str(first.offset),
        f"{_CONNECT}stage": _STAGES[part],
        f"{_CONNECT}exception.class.name": "parley.errors.SchemaDecodeError",
        f"{_CONNECT}exception.message": place.reason,
        ERROR: code,
        QUERY: query,
        BATCH: batch,
        ATTEMPTS: str(first.attempts),
    }
    return kept + [(name, text.encode()) for name, text in said.items() if text is not None]


def _number(text: bytes | None) -> int | None:
    if text is None or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    return int(text)


def _unpacked(form: Struct, raw: bytes | None) -> int | None:
    if raw is None or len(raw) != form.size:
        return None
    found: int = form.unpack(raw)[0]
    return found
