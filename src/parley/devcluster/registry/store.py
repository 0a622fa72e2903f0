"""What a registry knows, without sockets: subjects, ids, levels and modes.

Rules of this file:
1. Whatever changes is kept first (`keep` is called with events), then applied; a registry that
   cannot keep it changes nothing.
2. What `apply` is given again after a restart gives the same state: ids and versions are in the
   events.
3. A schema has one id under all subjects, and keeps it when it is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from parley.devcluster.registry import events
from parley.devcluster.registry.events import Event, config_event, gone_event, version_event
from parley.devcluster.registry.protobuf import canonical
from parley.devcluster.registry.refusals import (
    RegistryRefused,
    incompatible,
    invalid_schema,
    no_schema,
    no_subject,
    no_version,
)
from parley.devcluster.registry.rules import broken, check_level, check_mode, parsed
from parley.devcluster.registry.subjects import (
    MAX_REFERENCES,
    Subject,
    Version,
    guid_of,
    schema_of,
    without_spaces,
)
from parley.serdes import NamedSchema, Schema

DEFAULT_LEVEL, DEFAULT_MODE = "BACKWARD", "READWRITE"


class Store:
    """A registry's state. `keep` stores events before they count; it may raise RegistryRefused."""

    def __init__(self, keep: Callable[[list[Event]], None] = lambda _: None) -> None:
        self._keep = keep
        self._subjects: dict[str, Subject] = {}
        self._ids: dict[Schema, int] = {}
        self._schemas: dict[int, Schema] = {}
        self._guids: dict[str, int] = {}
        self._levels: dict[str | None, str] = {}
        self._modes: dict[str | None, str] = {}

    # -- events --------------------------------------------------------------------------------

    def apply(self, listed: Iterable[Event]) -> None:
        """Take what was kept. What is not understood is left out."""
        for event in listed:
            kind, subject = event.key.get("keytype"), event.key.get("subject")
            known = subject if isinstance(subject, str) else None
            if kind == events.SCHEMA and known is not None:
                self._apply_version(known, event)
            elif kind == events.CONFIG:
                self._apply_text(self._levels, known, event, "compatibilityLevel")
            elif kind == events.MODE:
                self._apply_text(self._modes, known, event, "mode")

    def _apply_version(self, subject: str, event: Event) -> None:
        number, said = event.key.get("version"), event.value
        if not isinstance(number, int):
            return
        if said is None:
            held = self._subjects.get(subject)
            if held is not None:
                held.versions.pop(number, None)
                if not held.versions:
                    del self._subjects[subject]
            return
        schema_id = said.get("id")
        if not isinstance(schema_id, int):
            return
        try:
            schema = schema_of(said)
        except RegistryRefused:
            return
        made = Version(subject, number, schema_id, schema, said.get("deleted") is True)
        self._subjects.setdefault(subject, Subject()).versions[number] = made
        self._schemas.setdefault(schema_id, schema)
        self._ids.setdefault(schema, schema_id)
        self._guids.setdefault(guid_of(schema), schema_id)

    @staticmethod
    def _apply_text(
        held: dict[str | None, str], subject: str | None, event: Event, name: str
    ) -> None:
        said = None if event.value is None else event.value.get(name)
        if isinstance(said, str):
            held[subject] = said
        else:
            held.pop(subject, None)

    def _change(self, *listed: Event) -> None:
        if listed:
            self._keep(list(listed))
            self.apply(listed)

    # -- schemas -------------------------------------------------------------------------------

    def schema(self, schema_id: int) -> Schema:
        """Return the schema of an id."""
        found = self._schemas.get(schema_id)
        if found is None:
            raise no_schema(schema_id)
        return found

    def id_of_guid(self, guid: str) -> int:
        """Return the id of a GUID."""
        found = self._guids.get(guid.lower())
        if found is None:
            raise no_schema(guid)
        return found

    def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """Return where a schema is registered."""
        self.schema(schema_id)
        return [
            one
            for held in self._subjects.values()
            for one in held.versions.values()
            if one.schema_id == schema_id and (deleted or not one.deleted)
        ]

    def references(self, schema: Schema) -> list[NamedSchema]:
        """Return what a schema refers to, each once, before those that use it."""
        found: dict[tuple[str, int], NamedSchema] = {}
        self._follow(schema, found, 0)
        return list(found.values())

    def _follow(
        self, schema: Schema, found: dict[tuple[str, int], NamedSchema], depth: int
    ) -> None:
        for one in schema.references:
            key = (one.subject, one.version)
            if key in found:
                continue
            if depth > 100 or len(found) >= MAX_REFERENCES:
                raise invalid_schema("references are too many, or in a circle")
            held = self._subjects.get(one.subject)
            number = one.version
            if held is not None and number == -1 and held.live():
                number = held.live()[-1].number
            if held is None or number not in held.versions:
                raise invalid_schema(
                    f'No schema reference found for subject "{one.subject}" and version '
                    f"{one.version}"
                )
            used = held.versions[number].schema
            self._follow(used, found, depth + 1)
            found[key] = NamedSchema(one.name, used)

    def users_of(self, version: Version) -> list[int]:
        """Return the ids of schemas that refer to a version."""
        found = {
            one.schema_id
            for held in self._subjects.values()
            for one in held.live()
            for used in one.schema.references
            if (used.subject, used.version) == (version.subject, version.number)
        }
        return sorted(found)

    # -- subjects ------------------------------------------------------------------------------

    def subjects(self, *, prefix: str = "", deleted: bool = False) -> list[str]:
        """Return the subjects that have versions."""
        return sorted(
            name
            for name, held in self._subjects.items()
            if name.startswith(prefix) and (deleted or held.live())
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return a subject's versions."""
        held = self._subjects.get(subject)
        found = [] if held is None else held.live()
        if held is not None and deleted:
            found = [held.versions[number] for number in sorted(held.versions)]
        if not found:
            raise no_subject(subject)
        return found

    def version(self, subject: str, wanted: str, *, deleted: bool = False) -> Version:
        """Return one version: a number, -1 or `latest`."""
        number = version_number(wanted)
        found = self.versions(subject, deleted=deleted)
        if number is None:
            return found[-1]
        for one in found:
            if one.number == number:
                return one
        raise no_version(number)

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> Version:
        """Return the version that has a schema."""
        self.versions(subject, deleted=deleted)
        kept = without_spaces(schema, ordered=normalize)
        found = self._subjects[subject].find(kept, deleted=deleted)
        if found is None and normalize:
            found = self._same_but_for_order(subject, kept)
        if found is None and kept.schema_type == "PROTOBUF":
            found = self._same_descriptor(subject, kept)
        if found is None:
            raise no_schema()
        return found

    def _same_but_for_order(self, subject: str, kept: Schema) -> Version | None:
        for one in self._subjects[subject].live():
            if without_spaces(one.schema, ordered=True) == kept:
                return one
        return None

    def _same_descriptor(self, subject: str, kept: Schema) -> Version | None:
        wanted = canonical(kept, self.references(kept))
        for one in reversed(self._subjects[subject].live()):
            if one.schema.schema_type != "PROTOBUF" or wanted is None:
                continue
            if canonical(one.schema, self.references(one.schema)) == wanted:
                return one
        return None

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> Version:
        """Register a schema, or return the version that has it."""
        held = self._subjects.get(subject, Subject())
        try:
            return self.lookup(subject, schema, normalize=normalize)
        except RegistryRefused:
            pass
        self._check_mode(subject)
        kept = without_spaces(schema, ordered=normalize)
        messages = self._broken(subject, kept, held.live())
        if messages:
            raise incompatible(subject, messages)
        schema_id = self._ids.get(kept) or max(self._schemas, default=0) + 1
        number = max(held.versions, default=0) + 1
        made = Version(subject, number, schema_id, kept)
        self._change(version_event(made))
        return made

    def compatible(self, subject: str, schema: Schema, wanted: str | None) -> list[str]:
        """Return why a schema may not follow a version (None: those of the subject's level)."""
        held = self._subjects.get(subject, Subject())
        old = held.live() if wanted is None else [self.version(subject, wanted)]
        return self._broken(subject, without_spaces(schema), old)

    def _broken(self, subject: str, schema: Schema, old: list[Version]) -> list[str]:
        new = parsed(schema, self.references(schema))
        level = self.level(subject)
        if level == "NONE":
            return []
        compared = old if level.endswith("_TRANSITIVE") else old[-1:]
        before = [(one, parsed(one.schema, self.references(one.schema))) for one in compared]
        return broken(level, new, before)

    def delete_version(self, subject: str, wanted: str, *, permanent: bool) -> int:
        """Delete a version."""
        one = self.version(subject, wanted, deleted=permanent)
        self._check_unused([one])
        if permanent and not one.deleted:
            raise RegistryRefused(
                40407,
                f"Subject '{subject}' Version {one.number} was not deleted first before being "
                "permanently deleted",
            )
        self._change(gone_event(one) if permanent else version_event(replace(one, deleted=True)))
        return one.number

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject, and its level."""
        held = self._subjects.get(subject)
        if held is None:
            raise no_subject(subject)
        live = held.live()
        if permanent and live:
            raise RegistryRefused(
                40405,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        if not permanent and not live:
            raise RegistryRefused(
                40404,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        chosen = [held.versions[number] for number in sorted(held.versions)] if permanent else live
        self._check_unused(chosen)
        listed = [
            gone_event(one) if permanent else version_event(replace(one, deleted=True))
            for one in chosen
        ]
        if subject in self._levels:
            listed.append(config_event(subject, None))
        self._change(*listed)
        return [one.number for one in chosen]

    def _check_unused(self, versions: list[Version]) -> None:
        for one in versions:
            if self.users_of(one):
                raise RegistryRefused(
                    42206,
                    f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,"
                    f"subject={one.subject},version={one.number}}}.",
                )

    # -- levels and modes ----------------------------------------------------------------------

    def level(self, subject: str | None, *, own: bool = False) -> str:
        """Return the level that holds for a subject, or (`own`) the one that it has itself."""
        if subject in self._levels:
            return self._levels[subject]
        if own and subject is not None:
            raise RegistryRefused(
                40408,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return self._levels.get(None, DEFAULT_LEVEL)

    def set_level(self, subject: str | None, level: object) -> str:
        """Set a level, and return it."""
        found = check_level(level)
        self._change(config_event(subject, found))
        return found

    def delete_level(self, subject: str | None) -> str:
        """Take a level back, and return what it was."""
        found = self.level(subject, own=True)
        self._change(config_event(subject, None))
        return found

    def mode(self, subject: str | None, *, own: bool = False) -> str:
        """Return the mode that holds for a subject, or (`own`) the one that it has itself."""
        if subject in self._modes:
            return self._modes[subject]
        if own and subject is not None:
            raise RegistryRefused(
                40409, f"Subject '{subject}' does not have subject-level mode configured"
            )
        return self._modes.get(None, DEFAULT_MODE)

    def set_mode(self, subject: str | None, mode: object) -> str:
        """Set a mode, and return it."""
        found = check_mode(mode)
        self._change(events.mode_event(subject, found))
        return found

    def delete_mode(self, subject: str | None) -> str:
        """Take a mode back, and return what it was."""
        found = self.mode(subject, own=True)
        self._change(events.mode_event(subject, None))
        return found

    def _check_mode(self, subject: str) -> None:
        if self.mode(subject).startswith("READONLY"):
            raise RegistryRefused(42205, f"Subject {subject} is in read-only mode")


def version_number(text: str) -> int | None:
    """Return a version's number, None for the latest. Raises RegistryRefused for what is none."""
    if text in ("latest", "-1"):
        return None
    if text.isascii() and text.isdigit() and 0 < int(text[:12]) < 2**31:
        return int(text[:12])
    raise RegistryRefused(
        42202,
        f"The specified version '{text[:60]}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"',
    )
