"""Which schema a text means: "latest", "id:7", "guid:...", "subject:orders-value:3", "file:..."."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parley.errors import ConfigError
from parley.serdes import Schema, SchemaGuid, SchemaId
from parley.serdes.frames import parse_guid
from parley.types import shown

LATEST = "latest"
_ENDINGS = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """One way to name a schema: what is not None. All None is the latest of some subject."""

    id: int | None = None
    guid: SchemaGuid | None = None
    subject: str | None = None
    version: int | None = None
    file: Path | None = None

    def read_file(self) -> Schema:
        """Return the file's schema. Raises ConfigError for a file that cannot be read."""
        assert self.file is not None
        kind = _ENDINGS.get(self.file.suffix.lower())
        if kind is None:
            raise ConfigError(
                f"file:{self.file}: a file of a schema ends with {', '.join(_ENDINGS)}"
            )
        try:
            with self.file.open("rb") as opened:
                raw = opened.read(_MAX_FILE_BYTES)
            return Schema(raw.decode(), kind)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"file:{self.file}: the schema cannot be read: {error}") from error


def parse_choice(text: str) -> SchemaChoice:
    """Return what a text means. Raises ConfigError for one that means nothing.

    >>> parse_choice("subject:orders-value:3").version
    3
    """
    kind, _, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    if text == LATEST:
        return SchemaChoice()
    if kind == "id" and rest.isascii() and rest.isdigit():
        return SchemaChoice(id=SchemaId(int(rest[:20])).number)
    if kind == "guid" and rest:
        return SchemaChoice(guid=SchemaGuid(parse_guid(rest)))
    if kind == "file" and rest:
        return SchemaChoice(file=Path(rest))
    if kind == "subject":
        # a subject may have colons itself
        subject, _, version = rest.rpartition(":")
        if subject and version == LATEST:
            return SchemaChoice(subject=subject)
        if subject and version.isascii() and version.isdigit() and len(version) < 10:
            return SchemaChoice(subject=subject, version=int(version))
    raise ConfigError(
        f"{shown(text)} names no schema: latest, id:NUMBER, guid:GUID, subject:NAME:VERSION, "
        "subject:NAME:latest or file:PATH is expected"
    )
