"""What a table asks of its writers and this sink cannot give: pure.

Files come from tasks that know nothing of Delta, and delta-rs only commits them. So what Delta has
its writers check or compute in rows is refused where a table uses it, not only what delta-rs itself
refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from parley.errors import ConfigError
from parley.types import Json

RETENTION = "delta.setTransactionRetentionDuration"
_HARMLESS = frozenset(
    (
        "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns",
        "columnMapping", "identityColumns", "deletionVectors", "timestampNtz", "v2Checkpoint",
        "domainMetadata", "vacuumProtocolCheck", "allowColumnDefaults",
    )
)  # fmt: skip
"""Features that a table may name: some ask nothing of who adds files, the others only where they
are used, which `_used` finds out.
"""
_OLD_WRITERS = 6
"""The highest writer version that names no features, and has all of those before."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What a table's newest version says of itself."""

    writer_version: int
    writer_features: Sequence[str]
    configuration: Mapping[str, str]
    schema: str
    """Delta's JSON."""


def check_features(demands: Demands, where: str, *, stream: bool, overwrite: bool) -> None:
    """Raise ConfigError for a table that rows cannot be written into as it wants them, or that
    forgets what it promised to remember. The text names the feature and the remedy.
    """
    unknown = sorted(set(demands.writer_features) - _HARMLESS)
    if unknown or (not demands.writer_features and demands.writer_version > _OLD_WRITERS):
        what = ", ".join(unknown) or f"writer version {demands.writer_version}"
        raise ConfigError(
            f"the table {where} has a feature that parley-delta cannot write: {what}. Nothing was "
            "written. Drop the feature (ALTER TABLE ... DROP FEATURE) or write into another table"
        )
    for used, remedy in _used(demands):
        raise ConfigError(
            f"the table {where} uses {used}, which parley-delta cannot keep: its files are written "
            f"without Delta. Nothing was written. {remedy}, or write into another table"
        )
    if overwrite and demands.configuration.get("delta.appendOnly", "").lower() == "true":
        raise ConfigError(
            f"the table {where} has delta.appendOnly=true: rows can be added, not replaced. Use "
            'mode("append")'
        )
    if overwrite and "deletionVectors" in demands.writer_features:
        raise ConfigError(
            f"the table {where} has deletion vectors, with which parley-delta only adds rows. Use "
            'mode("append"), or write into another table'
        )
    if stream and RETENTION in demands.configuration:
        raise ConfigError(
            f"the table {where} has {RETENTION}={demands.configuration[RETENTION]}: it forgets "
            "which batch was written last, and a query that restarts later would write it twice. "
            f"Remove the property (ALTER TABLE ... UNSET TBLPROPERTIES ('{RETENTION}'))"
        )


def _used(demands: Demands) -> list[tuple[str, str]]:
    """Return what the table uses and what could be done about it."""
    found = []
    if demands.configuration.get("delta.columnMapping.mode", "none") != "none":
        found.append(("column mapping", "Drop the feature columnMapping"))
    if demands.configuration.get("delta.enableRowTracking", "").lower() == "true":
        found.append(("row tracking", "Disable it"))
    names = sorted(
        name.removeprefix("delta.constraints.")
        for name in demands.configuration
        if name.startswith("delta.constraints.")
    )
    if names:
        found.append((f"the constraint {names[0]}", "Drop the constraint"))
    for name, key in _keys(json.loads(demands.schema), ""):
        if key == "delta.generationExpression":
            found.append((f'the generated column "{name}"', "Drop the column"))
        elif key.startswith("delta.identity."):
            found.append((f'the identity column "{name}"', "Drop the column"))
        elif key == "delta.invariants":
            found.append((f'an invariant of column "{name}"', "Drop it"))
    return found


def _keys(kind: Json, within: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of columns' metadata, and of fields in them, with the column's path."""
    if not isinstance(kind, dict):
        return
    for part in ("elementType", "keyType", "valueType"):
        yield from _keys(kind.get(part), f"{within}{part[:-4]}.")
    fields = kind.get("fields", ())
    assert isinstance(fields, list | tuple)
    for field in fields:
        assert isinstance(field, dict)
        metadata = field.get("metadata") or {}
        assert isinstance(metadata, dict)
        yield from ((f"{within}{field['name']}", key) for key in metadata)
        yield from _keys(field["type"], f"{within}{field['name']}.")
