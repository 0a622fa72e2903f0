"""What happened to a registry, as the records of `_schemas` say it: keys and values in JSON.

The shapes are those of Confluent's registry. A record without a value takes back what its key says.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from parley.devcluster.registry.subjects import Version
from parley.serdes.schemas import schema_json
from parley.types import Json

SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"


class Event(NamedTuple):
    """One record."""

    key: dict[str, Json]
    value: dict[str, Json] | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Return the bytes of key and value."""
        return _bytes(self.key), None if self.value is None else _bytes(self.value)


def version_event(version: Version) -> Event:
    """Return the record of a version, as it is now."""
    value = {
        "subject": version.subject,
        "version": version.number,
        "id": version.schema_id,
        **schema_json(version.schema),
        "deleted": version.deleted,
    }
    return Event(_schema_key(version), value)


def gone_event(version: Version) -> Event:
    """Return the record that takes a version back."""
    return Event(_schema_key(version), None)


def config_event(subject: str | None, level: str | None) -> Event:
    """Return the record of a compatibility level; None takes it back."""
    key: dict[str, Json] = {"keytype": CONFIG, "subject": subject, "magic": 0}
    return Event(key, None if level is None else {"subject": subject, "compatibilityLevel": level})


def mode_event(subject: str | None, mode: str | None) -> Event:
    """Return the record of a mode; None takes it back."""
    key: dict[str, Json] = {"keytype": MODE, "subject": subject, "magic": 0}
    return Event(key, None if mode is None else {"subject": subject, "mode": mode})


def decoded(key: bytes | None, value: bytes | None) -> Event | None:
    """Return the event of a record, None for one of another kind."""
    try:
        found = json.loads(key or b"null")
        said = None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not (said is None or isinstance(said, dict)):
        return None
    return Event(found, said)


def _schema_key(version: Version) -> dict[str, Json]:
    return {
        "keytype": SCHEMA,
        "subject": version.subject,
        "version": version.number,
        "magic": 1,
    }


def _bytes(said: dict[str, Json]) -> bytes:
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
