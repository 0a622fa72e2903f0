"""The registry's client: schemas by id, GUID and subject; registering, looking up, checking.

What never changes is kept for as long as the client lives: schemas by id, GUID, and subject with
version. What changes (a subject's latest version, its versions, its level) is asked for each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, Unpack
from urllib.parse import quote

from parley.errors import ConfigError, RemoteProtocolError, SchemaNotFoundError, nearest_hint
from parley.registry import answers
from parley.registry.answers import Compatibility
from parley.registry.choices import parse_choice
from parley.registry.options import RegistryOptions, RegistryOptionValues
from parley.registry.rest import Rest
from parley.serdes import (
    NamedSchema,
    RegisteredSchema,
    Schema,
    SchemaGuid,
    SchemaId,
    SchemaRef,
    SchemaReference,
)
from parley.serdes.frames import parse_guid
from parley.serdes.schemas import schema_json
from parley.types import shown, text

T = TypeVar("T")
Key = TypeVar("Key")

LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
"""Compatibility levels."""
MAX_REFERENCES = 1_000
"""Schemas that one schema may refer to, directly or through others."""
_LATEST = "latest"
_NOT_REPLICATED = 40403


class SchemaRegistryClient:
    """A client of a schema registry, whose calls may be made from any thread.

    `url` is one URL or several with commas; the other options are `RegistryOptions`'. Nothing is
    connected before the first call, and nothing stays open after one. A pickled copy takes along
    the schemas that are known by id.
    """

    def __init__(
        self,
        url: str | None = None,
        options: RegistryOptions | None = None,
        **named: Unpack[RegistryOptionValues],
    ) -> None:
        if options is None:
            if url is None:
                raise ConfigError("url is missing: where is the schema registry?")
            unknown = sorted(named.keys() - RegistryOptionValues.__annotations__.keys())
            if unknown:
                hint = nearest_hint(unknown[0], RegistryOptionValues.__annotations__)
                raise ConfigError(f"{unknown[0]} is no option of a schema registry.{hint}")
            options = RegistryOptions(url=url, **named)
        elif url is not None or named:
            raise ConfigError("options are given, and url or others besides; give one of them")
        self.options = options
        self._rest = Rest(options)
        self._lock = threading.Lock()
        self._loading: dict[object, threading.Lock] = {}
        self._by_id: dict[tuple[int, str | None], RegisteredSchema] = {}
        self._by_guid: dict[SchemaGuid, Schema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        self._registered: dict[tuple[str, Schema, bool], RegisteredSchema] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _copy, (self.options, dict(self._by_id), dict(self._by_guid))

    # -- schemas that never change -----------------------------------------------------------------

    def get_schema(self, schema_id: int, subject: str | None = None) -> Schema:
        """Return the schema of an id, from the registry once and from memory afterwards.

        `subject` helps registries that keep ids apart by context. An id that is not there is asked
        for once more after `retries_wait_ms`, since followers of a registry lag behind. Raises
        SchemaNotFoundError then, RegistryUnreachable where no URL answers.
        """
        number = SchemaId(schema_id).number
        path = f"/schemas/ids/{number}"
        query = {} if subject is None else {"subject": text("subject", subject)}

        def load() -> RegisteredSchema:
            found, url = self._rest.ask("GET", path, query=query)
            said = answers.members(found, url)
            schema = answers.schema_of(said, url)
            return RegisteredSchema(schema, number, answers.guid_of(said), subject)

        key = (number, subject)
        return self._once(self._by_id, key, lambda: self._patiently(load)).schema

    def get_schema_by_guid(self, guid: str | bytes | SchemaGuid) -> Schema:
        """Return the schema of a GUID (a text, 16 bytes, or as framings give it).

        Raises SchemaNotFoundError without one, and as `get_schema` does.
        """
        raw = parse_guid(guid) if isinstance(guid, str) else guid
        key = raw if isinstance(raw, SchemaGuid) else SchemaGuid(raw)

        def load() -> Schema:
            found, url = self._rest.ask("GET", f"/schemas/guids/{key.text}")
            return answers.schema_of(answers.members(found, url), url)

        return self._once(self._by_guid, key, lambda: self._patiently(load))

    def get_schema_for(self, ref: SchemaRef) -> Schema:
        """Return the schema that a message names, as `parley.serdes.framing` finds it.

        Raises ConfigError for names that this protocol has no way to ask for (Glue's versions,
        Apicurio's ids, fingerprints).
        """
        if isinstance(ref, SchemaId):
            return self.get_schema(ref.number)
        if isinstance(ref, SchemaGuid):
            return self.get_schema_by_guid(ref)
        raise ConfigError(
            f"{ref}: Confluent's REST protocol finds schemas by id and GUID only; give the schema "
            "itself, or a source of your own"
        )

    def get_version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject. Raises SchemaNotFoundError if there is none."""
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ConfigError(f"version={shown(version)} is no whole number from 1 on")
        key = (text("subject", subject), version)
        return self._once(self._by_version, key, lambda: self._version(subject, str(version)))

    def get_references(self, schema: Schema) -> tuple[NamedSchema, ...]:
        """Return all schemas that one refers to, each once, before those that use it.

        Raises SchemaNotFoundError where one is missing, RemoteProtocolError for references in a
        circle, or too many.
        """
        found: dict[tuple[str, int], NamedSchema] = {}
        self._follow(schema.references, found, ())
        return tuple(found.values())

    def _follow(
        self,
        references: tuple[SchemaReference, ...],
        found: dict[tuple[str, int], NamedSchema],
        above: tuple[tuple[str, int], ...],
    ) -> None:
        for one in references:
            key = (one.subject, one.version)
            if key in above or len(above) + len(found) >= MAX_REFERENCES:
                why = "refers to itself" if key in above else f"more than {MAX_REFERENCES} of them"
                raise RemoteProtocolError(
                    f"the references of a schema cannot be followed at {one.subject} version "
                    f"{one.version}: {why}"
                )
            if key in found:
                continue
            used = self.get_version(one.subject, one.version).schema
            self._follow(used.references, found, (*above, key))
            found[key] = NamedSchema(one.name, used)

    # -- subjects ----------------------------------------------------------------------------------

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """Return the newest version of a subject, asked for each time."""
        return self._version(text("subject", subject), _LATEST)

    def choose_schema(self, choice: str, subject: str | None = None) -> RegisteredSchema | Schema:
        """Return the schema that a text means: "latest" (of `subject`), "id:7", "guid:...",
        "subject:orders-value:3", "subject:orders-value:latest" or "file:orders.avsc".

        The schemas of a GUID and of a file come back without an id, as a Schema; a file's type is
        what its ending says (.avsc, .json, .proto). Raises ConfigError for other texts and for
        files that cannot be read, SchemaNotFoundError where the registry has no such schema.
        """
        found = parse_choice(choice)
        if found.file is not None:
            return found.read_file()
        if found.guid is not None:
            return self.get_schema_by_guid(found.guid)
        if found.id is not None:
            self.get_schema(found.id)
            return self._by_id[found.id, None]
        wanted = subject if found.subject is None else found.subject
        if wanted is None:
            raise ConfigError(f'"{choice}" of which subject? Give subject:NAME:{choice}')
        if found.version is None:
            return self.get_latest_version(wanted)
        return self.get_version(wanted, found.version)

    def get_subjects(self) -> list[str]:
        """Return all subjects."""
        found, url = self._rest.ask("GET", "/subjects")
        return answers.texts(found, url)

    def get_versions(self, subject: str) -> list[int]:
        """Return the versions of a subject. Raises SchemaNotFoundError if there is none."""
        found, url = self._rest.ask("GET", f"{_path(subject)}/versions")
        return answers.numbers(found, url)

    def register_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Register a schema under a subject; one that is there already keeps its id and version.

        `normalize` makes schemas equal that differ in order and spaces only. Raises
        IncompatibleSchemaError where the subject's level forbids it, InvalidSchemaError where the
        registry cannot parse it. Registries may leave `version` out of their answer.
        """
        path = f"{_path(subject)}/versions"

        def load() -> RegisteredSchema:
            found, url = self._rest.ask("POST", path, schema_json(schema), _normalize(normalize))
            return answers.registered_of(answers.members(found, url), url, schema)

        return self._once(self._registered, (subject, schema, normalize), load)

    def lookup_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Return a schema's id and version under a subject. Raises SchemaNotFoundError if none."""
        found, url = self._rest.ask(
            "POST", _path(subject), schema_json(schema), _normalize(normalize)
        )
        return answers.registered_of(answers.members(found, url), url, schema)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject, and return its versions; ids keep their schemas unless `permanent`.

        A subject can be deleted permanently when it was deleted before.
        """
        query = {"permanent": "true"} if permanent else None
        found, url = self._rest.ask("DELETE", _path(subject), query=query)
        self._forget(subject)
        return answers.numbers(found, url)

    def _forget(self, subject: str) -> None:
        with self._lock:
            for key in [one for one in self._registered if one[0] == subject]:
                del self._registered[key]
            for version in [one for one in self._by_version if one[0] == subject]:
                del self._by_version[version]

    # -- compatibility -----------------------------------------------------------------------------

    def test_compatibility(
        self, subject: str, schema: Schema, version: int | str | None = _LATEST
    ) -> Compatibility:
        """Return whether a schema may follow a version of a subject, by the subject's level.

        `version` None means all that the level looks at, as registering does: those that are
        transitive look at every version. Older registries have no such call.
        """
        path = f"/compatibility{_path(subject)}/versions"
        if version is not None:
            path += f"/{quote(str(version), safe='')}"
        found, url = self._rest.ask("POST", path, schema_json(schema), {"verbose": "true"})
        return answers.compatibility_of(found, url)

    def get_compatibility(self, subject: str | None = None) -> str:
        """Return the level of a subject, or of all that have none of their own."""
        query = None if subject is None else {"defaultToGlobal": "true"}
        found, url = self._rest.ask("GET", _config(subject), query=query)
        level = answers.members(found, url).get("compatibilityLevel")
        if not isinstance(level, str):
            raise RemoteProtocolError(f"{url}: the answer has no compatibilityLevel")
        return level

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject, or of all that have none of their own."""
        if level not in LEVELS:
            hint = nearest_hint(str(level).upper(), LEVELS)
            raise ConfigError(f'level="{level}" is none of {", ".join(LEVELS)}.{hint}')
        self._rest.ask("PUT", _config(subject), {"compatibility": level})

    # -- asking ------------------------------------------------------------------------------------

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        found, url = self._rest.ask("GET", f"{_path(subject)}/versions/{version}")
        return answers.registered_of(answers.members(found, url), url)

    def _patiently(self, load: Callable[[], T]) -> T:
        """Ask once more for what is not there: a follower may not have it yet."""
        try:
            return load()
        except SchemaNotFoundError as error:
            if error.error_code != _NOT_REPLICATED:
                raise
        self._rest.pause_ms(self.options.retries_wait_ms)
        return load()

    def _once(self, known: dict[Key, T], key: Key, load: Callable[[], T]) -> T:
        """Return what is known, or load it: once, however many threads ask for it together."""
        with self._lock:
            if key in known:
                return known[key]
            loading = self._loading.setdefault((id(known), key), threading.Lock())
        with loading:
            with self._lock:
                if key in known:
                    return known[key]
            try:
                found = load()
                with self._lock:
                    known[key] = found
            finally:
                with self._lock:
                    self._loading.pop((id(known), key), None)
        return found


def _copy(
    options: RegistryOptions,
    by_id: dict[tuple[int, str | None], RegisteredSchema],
    by_guid: dict[SchemaGuid, Schema],
) -> SchemaRegistryClient:
    """Make a client of what a pickle holds."""
    made = SchemaRegistryClient(options=options)
    made._by_id.update(by_id)
    made._by_guid.update(by_guid)
    return made


def _path(subject: str) -> str:
    return f"/subjects/{quote(text('subject', subject), safe='')}"


def _config(subject: str | None) -> str:
    return "/config" if subject is None else f"/config/{quote(text('subject', subject), safe='')}"


def _normalize(normalize: bool) -> dict[str, str] | None:
    return {"normalize": "true"} if normalize else None
