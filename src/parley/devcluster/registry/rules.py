"""Which schema may follow which, by a subject's compatibility level.

    BACKWARD    the new one reads what was written with the old one
    FORWARD     the old one reads what was written with the new one
    FULL        both
    ..._TRANSITIVE    with all old ones, and not the newest alone

Avro's schemas are parsed and compared. Protobuf's are compiled where that package is installed, of
a JSON schema it is checked that it is JSON, and neither is compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from parley.devcluster.registry import protobuf
from parley.devcluster.registry.refusals import RegistryRefused, invalid_schema
from parley.devcluster.registry.subjects import Version
from parley.errors import SchemaError
from parley.serdes import NamedSchema, Schema
from parley.serdes.avro import AvroType, incompatibilities, parse_schema

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


def check_level(level: object) -> str:
    """Return a level as it is kept. Raises RegistryRefused for none."""
    found = str(level).upper()
    if found not in LEVELS:
        raise RegistryRefused(
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward, full, "
            "backward_transitive, forward_transitive, and full_transitive",
        )
    return found


def check_mode(mode: object) -> str:
    """Return a mode as it is kept. Raises RegistryRefused for none."""
    found = str(mode).upper()
    if found not in MODES:
        raise RegistryRefused(42204, f"Invalid mode. Valid values are {', '.join(MODES)}")
    return found


def parsed(schema: Schema, references: Sequence[NamedSchema]) -> AvroType | None:
    """Return an Avro schema, None for another kind. Raises RegistryRefused for what is none."""
    if schema.schema_type == "AVRO":
        try:
            return parse_schema(schema.text, [one.schema.text for one in references])
        except SchemaError as error:
            raise invalid_schema(str(error)) from error
    if schema.schema_type == "JSON":
        try:
            json.loads(schema.text)
        except (ValueError, RecursionError) as error:
            raise invalid_schema(str(error)) from error
    if schema.schema_type == "PROTOBUF":
        protobuf.check(schema, references)
    return None


def broken(
    level: str, new: AvroType | None, old: Sequence[tuple[Version, AvroType | None]]
) -> list[str]:
    """Return why a schema may not follow others (oldest first); nothing where it may."""
    if level == "NONE" or not old:
        return []
    found: list[str] = []
    compared = old if level.endswith("_TRANSITIVE") else old[-1:]
    for version, before in reversed(compared):
        if (new is None) != (before is None):
            found.append("{errorType:'TYPE_MISMATCH', description:'the schemas' types differ'}")
        elif new is not None and before is not None:
            found += _compared(level, new, before)
        if found:
            found.append(f"{{oldSchemaVersion: {version.number}}}")
            found.append(f"{{oldSchema: '{version.schema.text}'}}")
            found.append(f"{{compatibility: '{level}'}}")
            break
    return found


def _compared(level: str, new: AvroType, before: AvroType) -> list[str]:
    ways = []
    if level.startswith(("BACKWARD", "FULL")):
        ways.append(("the new schema reads what was written with the old one", new, before))
    if level.startswith(("FORWARD", "FULL")):
        ways.append(("the old schema reads what was written with the new one", before, new))
    return [
        f"{{errorType:'{one.kind}', description:'{one.why}; {how}', "
        f"additionalInfo:'{one.path or '/'}'}}"
        for how, reader, writer in ways
        for one in incompatibilities(reader, writer)
    ]
