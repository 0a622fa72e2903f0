"""Apache Kafka's message definitions (`common/message/*.json`
of a kafka-clients jar), read and merged.

Shared by `import_definitions.py`, which writes parley's notation from them, and by
`compare_definitions.py`, which holds the notation against them. Only facts are kept: the
definitions' prose is dropped here.

Where two jars define the same version of a message, the newer jar's word holds: an older one may
have carried it as an unstable draft (ReadShareGroupStateSummary v0 in 3.9.1, for one).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = "common/message/"

# Names that a newer release changed without changing a byte: (message, old name) -> the name kept.
RENAMED = {
    ("ListClientMetricsResourcesRequest", ""): "ListConfigResourcesRequest",
    ("ListClientMetricsResourcesResponse", ""): "ListConfigResourcesResponse",
    ("ListClientMetricsResourcesResponse", "ClientMetricsResources"): "ConfigResources",
    ("ListClientMetricsResourcesResponse", "ClientMetricsResource"): "ConfigResource",
    ("ListClientMetricsResourcesResponse", "Name"): "ResourceName",
    ("VoteRequest", "CandidateEpoch"): "ReplicaEpoch",
    ("VoteRequest", "CandidateId"): "ReplicaId",
    ("VoteRequest", "CandidateDirectoryId"): "ReplicaDirectoryId",
}

TYPE_DEFAULTS: dict[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": bytes(16),
    "float64": 0.0,
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), 0),
}


@dataclass
class FieldFacts:
    """What the jars say of one field; the version sets are exact, not open-ended."""

    kafka_name: str
    type: str
    versions: set[int]
    nullable: set[int]
    default: Any
    tag: int | None = None
    ignorable: bool = False
    map_key: bool = False
    never_flexible: bool = False
    fields: list[FieldFacts] = field(default_factory=list)


@dataclass
class MessageFacts:
    """What the jars say of one message."""

    name: str
    kind: str
    api_key: int | None
    versions: set[int]
    flexible: set[int]
    deprecated: set[int]
    unstable: set[int]
    listeners: list[str]
    fields: list[FieldFacts]
    structs: dict[str, list[FieldFacts]]


def read_jar(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the definitions in a jar, or in a folder that a jar was unpacked to,
    in order of their names.
    """
    if path.is_dir():
        for file in sorted(path.joinpath(FOLDER).glob("*.json")):
            yield json.loads(strip_comments(file.read_text(encoding="utf-8")))
        return
    with zipfile.ZipFile(path) as jar:
        for name in sorted(jar.namelist()):
            if name.startswith(FOLDER) and name.endswith(".json"):
                yield json.loads(strip_comments(jar.read(name).decode("utf-8")))


def strip_comments(text: str) -> str:
    """Return JSON text without its `//` comments; strings are left alone."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda found: found[1] or "", text)


def interval(text: str | None, within: set[int]) -> set[int]:
    """Return the members of `within` that a version text names ("3", "0-5", "2+", "none").

    >>> sorted(interval("2+", {0, 1, 2, 3}))
    [2, 3]
    """
    if text is None or text == "none":
        return set()
    found = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
    if found is None:
        raise ValueError(f'"{text}" is not a version range')
    low = int(found[1])
    high = (
        low if found[2] is None else max(within, default=low) if found[2] == "+" else int(found[3])
    )
    return {version for version in within if low <= version <= high}


def message_facts(definition: dict[str, Any]) -> MessageFacts | None:
    """Return the facts of one definition, or None when the jar keeps no version of it."""
    text = definition["validVersions"]
    if text == "none":
        return None
    if "+" in text:
        raise ValueError(f"{definition['name']}: validVersions {text} has no end")
    versions = interval(text, set(range(1000)))
    original = definition["name"]
    return MessageFacts(
        name=RENAMED.get((original, ""), original),
        kind=definition["type"],
        api_key=definition.get("apiKey"),
        versions=versions,
        flexible=interval(definition.get("flexibleVersions"), versions),
        deprecated=interval(definition.get("deprecatedVersions"), versions),
        unstable={max(versions)} if definition.get("latestVersionUnstable") else set(),
        listeners=list(definition.get("listeners", [])),
        fields=[field_facts(entry, versions, original) for entry in definition["fields"]],
        structs={
            entry["name"]: [field_facts(inner, versions, original) for inner in entry["fields"]]
            for entry in definition.get("commonStructs", [])
        },
    )


def field_facts(entry: dict[str, Any], valid: set[int], message: str) -> FieldFacts:
    """Return the facts of one field, version ranges cut to the message's valid ones."""
    versions = interval(entry["versions"], valid)
    if interval(entry.get("taggedVersions"), valid) not in (set(), versions):
        raise ValueError(
            f"{message}.{entry['name']} is tagged in a part of its versions; the notation "
            "cannot say so"
        )
    type_name = entry["type"]
    prefix = "[]" if type_name.startswith("[]") else ""
    base = type_name.removeprefix("[]")
    return FieldFacts(
        kafka_name=RENAMED.get((message, entry["name"]), entry["name"]),
        type=prefix + RENAMED.get((message, base), base),
        versions=versions,
        nullable=interval(entry.get("nullableVersions"), versions),
        default=default_of(type_name, entry.get("default")),
        tag=int(entry["tag"]) if entry.get("taggedVersions") else None,
        ignorable=bool(entry.get("ignorable")),
        map_key=bool(entry.get("mapKey")),
        never_flexible=entry.get("flexibleVersions") == "none",
        fields=[field_facts(inner, versions, message) for inner in entry.get("fields", [])],
    )


def default_of(type_name: str, given: Any) -> Any:
    """Return a field's default as a value: None for null, [] for an empty array,
    "struct" for a fresh struct.
    """
    if given is None:
        return [] if type_name.startswith("[]") else TYPE_DEFAULTS.get(type_name, "struct")
    if given == "null":
        return None
    if type_name == "bool":
        return given in (True, "true")
    if type_name.startswith(("int", "uint")):
        return int(str(given), 0)
    if type_name == "float64":
        return float(given)
    if type_name == "string":
        return given
    raise ValueError(f"a default {given!r} for the type {type_name} is not known")


def merged(jars: Iterable[Path]) -> dict[str, MessageFacts]:
    """Return the union of the definitions in `jars`, given from the oldest to the newest."""
    result: dict[str, MessageFacts] = {}
    for jar in jars:
        for definition in read_jar(jar):
            newer = message_facts(definition)
            if newer is not None:
                older = result.get(newer.name)
                result[newer.name] = merge_messages(older, newer) if older else newer
    return result


def merge_messages(older: MessageFacts, newer: MessageFacts) -> MessageFacts:
    """Return one message that says of each version what the newest definition of it says."""
    only_old = older.versions - newer.versions
    everything = older.versions | newer.versions
    if everything != set(range(min(everything), max(everything) + 1)):
        raise ValueError(f"{newer.name}: versions {sorted(everything)} have a hole")
    structs = {}
    for name in {**older.structs, **newer.structs}:
        structs[name] = merge_fields(
            older.structs.get(name, []), newer.structs.get(name, []), only_old, newer
        )
    return MessageFacts(
        name=newer.name,
        kind=newer.kind,
        api_key=newer.api_key,
        versions=everything,
        flexible=(older.flexible & only_old) | newer.flexible,
        deprecated=(older.deprecated & only_old) | newer.deprecated,
        unstable=(older.unstable & only_old) | newer.unstable,
        listeners=[*dict.fromkeys([*older.listeners, *newer.listeners])],
        fields=merge_fields(older.fields, newer.fields, only_old, newer),
        structs=structs,
    )


def merge_fields(
    older: list[FieldFacts], newer: list[FieldFacts], only_old: set[int], message: MessageFacts
) -> list[FieldFacts]:
    """Merge two lists of fields; each field that only the older one has keeps its
    place among its neighbours.
    """
    old_by_name = {facts.kafka_name: facts for facts in older}
    new_names = {facts.kafka_name for facts in newer}
    common = [facts.kafka_name for facts in older if facts.kafka_name in new_names]
    if common != [facts.kafka_name for facts in newer if facts.kafka_name in old_by_name]:
        raise ValueError(f"{message.name}: the order of {common} differs between the jars")
    result: list[FieldFacts] = []
    waiting = list(older)
    for facts in newer:
        if facts.kafka_name in old_by_name:
            while waiting and waiting[0].kafka_name != facts.kafka_name:
                result.extend(kept_from_old(waiting.pop(0), only_old))
            result.append(merge_field(waiting.pop(0), facts, only_old, message))
        else:
            result.append(facts)
    for left in waiting:
        result.extend(kept_from_old(left, only_old))
    return result


def kept_from_old(facts: FieldFacts, only_old: set[int]) -> list[FieldFacts]:
    """Return the part of an old field that lies in versions that only the older jar defines."""
    versions = facts.versions & only_old
    return [clipped(facts, versions)] if versions else []


def clipped(facts: FieldFacts, versions: set[int]) -> FieldFacts:
    """Return a field cut down to some versions."""
    return FieldFacts(
        **{
            **vars(facts),
            "versions": facts.versions & versions,
            "nullable": facts.nullable & versions,
            "fields": [
                clipped(inner, versions) for inner in facts.fields if inner.versions & versions
            ],
        }
    )


def merge_field(
    old: FieldFacts, new: FieldFacts, only_old: set[int], message: MessageFacts
) -> FieldFacts:
    """Return one field that holds in the versions of both; a contradiction raises ValueError."""
    for name in ("type", "default", "tag", "never_flexible"):
        if getattr(old, name) != getattr(new, name):
            raise ValueError(f"{message.name}.{new.kafka_name}: {name} differs between the jars")
    # `ignorable` says something only where some version lacks the field.
    moot = message.versions <= new.versions
    return FieldFacts(
        kafka_name=new.kafka_name,
        type=new.type,
        versions=(old.versions & only_old) | new.versions,
        nullable=(old.nullable & only_old) | new.nullable,
        default=new.default,
        tag=new.tag,
        ignorable=old.ignorable or new.ignorable if moot else new.ignorable,
        map_key=new.map_key,
        never_flexible=new.never_flexible,
        fields=merge_fields(old.fields, new.fields, only_old, message),
    )
