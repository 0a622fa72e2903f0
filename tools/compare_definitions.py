"""Hold parley's notation against the message definitions of kafka-clients jars, version by version.

    python tools/compare_definitions.py kafka-clients-3.9.1.jar kafka-clients-4.3.0.jar

Give the jars from the oldest to the newest. Prints every difference and ends with status 1 if there
is one. Each jar is read by itself, without the merging of `import_definitions.py`, and is laid
beside what the parser makes of the notation: the sequence of fields of every message in every
version that the jar knows, and what happens to the fields which that version lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from definitions import FieldFacts, MessageFacts, message_facts, read_jar
from parley.schema import (
    ApiKey,
    Field,
    Fresh,
    MessageSchema,
    data_names,
    load,
    load_data,
    load_header,
)

Fact = tuple[Any, ...]


def schemas() -> dict[str, MessageSchema]:
    """Return every message of parley's notation by name."""
    found = [
        load_header("RequestHeader"),
        load_header("ResponseHeader"),
        *map(load_data, data_names()),
    ]
    for key in ApiKey:
        found += [load(key).request, load(key).response]
    return {schema.name: schema for schema in found}


def jar_rows(
    fields: Sequence[FieldFacts], structs: dict[str, list[FieldFacts]], version: int, depth: int = 0
) -> Iterator[Fact]:
    """Yield what a jar says of the fields that a version has, in the order of the wire."""
    for facts in fields:
        if version not in facts.versions:
            continue
        base = facts.type.removeprefix("[]")
        yield (
            depth,
            facts.kafka_name,
            facts.type,
            version in facts.nullable,
            facts.tag,
            facts.never_flexible,
        )
        yield from jar_rows(facts.fields or structs.get(base, []), structs, version, depth + 1)


def our_rows(fields: Iterable[Field], version: int, depth: int = 0) -> Iterator[Fact]:
    """Yield the same of parley's notation."""
    for field in fields:
        if version not in field.versions:
            continue
        type_name = f"[]{field.type}" if field.is_array else field.type
        nullable = field.nullable is not None and version in field.nullable
        yield (depth, field.kafka_name, type_name, nullable, field.tag, field.never_compact)
        if field.struct is not None:
            yield from our_rows(field.struct.fields, version, depth + 1)


def jar_manners(message: MessageFacts, version: int) -> dict[str, Fact]:
    """Return by path what a jar says beyond the wire: defaults, and whether a field may be dropped.

    `ignorable` is left out (None) where the version has the field: it says nothing there. Inside
    structs that the version lacks nothing can be dropped, so these fields are left out.
    """

    def walk(fields: Sequence[FieldFacts], path: str) -> Iterator[tuple[str, Fact]]:
        for facts in fields:
            inner = f"{path}/{facts.kafka_name}"
            lacking = version not in facts.versions
            default = facts.default if facts.default != [] else "[]"
            yield inner, (default, facts.ignorable if lacking else None)
            if not lacking:
                base = facts.type.removeprefix("[]")
                yield from walk(facts.fields or message.structs.get(base, []), inner)

    return dict(walk(message.fields, ""))


def our_manners(schema: MessageSchema, version: int) -> dict[str, Fact]:
    """Return the same of parley's notation."""

    def walk(fields: Iterable[Field], path: str) -> Iterator[tuple[str, Fact]]:
        for field in fields:
            inner = f"{path}/{field.kafka_name}"
            lacking = version not in field.versions
            default = field.default.value if isinstance(field.default, Fresh) else field.default
            yield inner, (default, field.ignorable if lacking else None)
            if field.struct is not None and not lacking:
                yield from walk(field.struct.fields, inner)

    return dict(walk(schema.fields, ""))


def jar_keys(message: MessageFacts) -> set[str]:
    """Return the paths of the fields by which a jar's arrays are keyed."""

    def walk(fields: Sequence[FieldFacts], path: str) -> Iterator[str]:
        for facts in fields:
            inner = f"{path}/{facts.kafka_name}"
            if facts.map_key:
                yield inner
            yield from walk(
                facts.fields or message.structs.get(facts.type.removeprefix("[]"), []), inner
            )

    return set(walk(message.fields, ""))


def our_keys(schema: MessageSchema) -> set[str]:
    """Return the same of parley's notation."""

    def walk(fields: Iterable[Field], path: str) -> Iterator[str]:
        for field in fields:
            inner = f"{path}/{field.kafka_name}"
            if field.map_key:
                yield inner
            if field.struct is not None:
                yield from walk(field.struct.fields, inner)

    return set(walk(schema.fields, ""))


def compare_message(
    schema: MessageSchema, facts: MessageFacts, newer: set[int], drafts: set[int]
) -> Iterator[str]:
    """Yield the differences of one message.

    `newer` are the versions that a newer jar defines too: beyond the wire its word holds. `drafts`
    are the versions that were unstable in this jar: if a newer one defines them, they were changed.
    """
    for version in sorted(facts.versions - (drafts & newer)):
        where = f"{schema.name} v{version}"
        if version not in schema.valid_versions:
            yield f"{where}: missing here"
            continue
        if schema.is_flexible(version) != (version in facts.flexible):
            yield f"{where}: flexible here is {schema.is_flexible(version)}"
        ours = list(our_rows(schema.fields, version))
        theirs = list(jar_rows(facts.fields, facts.structs, version))
        yield from (f"{where}: here only {row}" for row in ours if row not in theirs)
        yield from (f"{where}: in the jar only {row}" for row in theirs if row not in ours)
        if ours != theirs and sorted(map(repr, ours)) == sorted(map(repr, theirs)):
            yield f"{where}: the fields come in another order"
        if version not in newer:
            mine, jars = our_manners(schema, version), jar_manners(facts, version)
            for path, manner in jars.items():
                if mine.get(path) != manner:
                    yield f"{where}: {path} is {mine.get(path)} here and {manner} in the jar"
            for kind in ("deprecated", "unstable"):
                own = getattr(schema, f"{kind}_versions")
                if (own is not None and version in own) != (version in getattr(facts, kind)):
                    yield f"{where}: {kind} differs"
    if not newer and our_keys(schema) != jar_keys(facts):
        yield f"{schema.name}: keyed by {our_keys(schema)} here, by {jar_keys(facts)} in the jar"


def compare(jars: Sequence[Path]) -> Iterator[str]:
    """Yield every difference between the notation and the jars, given from
    the oldest to the newest.
    """
    ours = schemas()
    defined: dict[str, set[int]] = {name: set() for name in ours}
    listeners: dict[int, set[str]] = {}
    for jar in reversed(jars):
        found = [facts for facts in map(message_facts, read_jar(jar)) if facts is not None]
        drafts = {facts.api_key: facts.unstable for facts in found if facts.kind == "request"}
        for facts in found:
            schema = ours.get(facts.name)
            if schema is None:
                yield f"{facts.name} of {jar.name} is missing here"
                continue
            differences = compare_message(
                schema, facts, defined[facts.name], drafts.get(facts.api_key, set())
            )
            yield from (f"{jar.name}: {text}" for text in differences)
            defined[facts.name] |= facts.versions
            if facts.kind == "request" and facts.api_key is not None:
                listeners.setdefault(facts.api_key, set()).update(facts.listeners)
                if f"{ApiKey(facts.api_key).api_name}Request" != facts.name:
                    yield f"{facts.name}: key {facts.api_key} is {ApiKey(facts.api_key).name} here"
    for name, schema in ours.items():
        if set(schema.valid_versions.versions()) != defined[name]:
            yield (
                f"{name}: versions {schema.valid_versions} here, {sorted(defined[name])} in the "
                "jars"
            )
    for key in ApiKey:
        if set(load(key).listeners) != listeners.get(key, set()):
            yield (
                f"{key.name}: listeners {load(key).listeners} here, {listeners.get(key)} in the "
                "jars"
            )


def main(arguments: list[str]) -> int:
    """Print the differences; return 1 if there are any."""
    if not arguments:
        print(__doc__)
        return 2
    found = list(compare([Path(argument) for argument in arguments]))
    for text in found:
        print(text)
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
