"""What a registry's answers mean: schemas, outcomes, and errors that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from parley.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAuthenticationError,
    RegistryError,
    RemoteProtocolError,
    SchemaNotFoundError,
    printable,
)
from parley.net.http_client import HttpAnswer
from parley.serdes import RegisteredSchema, Schema, SchemaGuid, SchemaReference
from parley.serdes.frames import parse_guid
from parley.serdes.schemas import SCHEMA_TYPES
from parley.types import Json

_HINTS = {
    40401: "; register a schema under this subject first, or check its name: topics have "
    "TOPIC-value and TOPIC-key",
    40402: "; ask for get_versions of the subject",
    40403: "; the id is of another registry, or the message is framed otherwise",
    42201: "; correct the schema, and register what it refers to first",
    42205: "; the registry is in a mode that takes no schemas (set_mode)",
}


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema may be registered; true in a condition if so. `messages` say why not."""

    is_compatible: bool
    messages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible


def json_of(answer: HttpAnswer, url: str) -> Json:
    """Return what an answer holds. Raises RegistryError, or RemoteProtocolError for no JSON."""
    found: Json = None
    readable = True
    try:
        found = json.loads(answer.body) if answer.body else None
    except (ValueError, RecursionError):
        readable = False
    if not 200 <= answer.status < 300:
        raise error_of(answer, found, url)
    if not readable:
        raise RemoteProtocolError(f"{url}: the answer is no JSON; is a schema registry there?")
    return found


def error_of(answer: HttpAnswer, found: Json, url: str) -> RegistryError:
    """Return the error for an answer that refuses."""
    said = found if isinstance(found, dict) else {}
    code, message = said.get("error_code"), said.get("message")
    number = code if isinstance(code, int) and not isinstance(code, bool) else -1
    hint = _HINTS.get(number, "")
    kind = RegistryError
    status = answer.status
    if status in (401, 403) or number // 100 in (401, 403):
        kind = RegistryAuthenticationError
        hint = "; check basic_auth_user_info, bearer_auth_token or ssl_certfile, and the rights"
    elif number // 100 == 404:
        kind = SchemaNotFoundError
    elif status == 409 or number // 100 == 409:
        kind = IncompatibleSchemaError
        hint = "; test_compatibility says why, set_compatibility changes the subject's level"
    elif number in (42201, 42203) or (status == 422 and number == -1):
        kind = InvalidSchemaError
    elif 300 <= status < 400:
        where = printable(answer.location or "elsewhere")
        hint = f"; it redirects to {where}, and credentials are sent nowhere else: set url to that"
    elif status == 404:
        hint = "; a schema registry has this path: check url (Apicurio: /apis/ccompat/v7 behind it)"
    text = message if isinstance(message, str) else None
    return kind(text, status=status, error_code=number, url=url, hint=hint)


def members(found: Json, url: str) -> Mapping[str, Json]:
    """Return an answer that must be an object."""
    if not isinstance(found, dict):
        raise RemoteProtocolError(f"{url}: the answer is no JSON object")
    return found


def texts(found: Json, url: str) -> list[str]:
    """Return an answer that must be a list of texts."""
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise RemoteProtocolError(f"{url}: the answer is no list of texts")
    return [one for one in found if isinstance(one, str)]


def numbers(found: Json, url: str) -> list[int]:
    """Return an answer that must be a list of whole numbers."""
    if not isinstance(found, list) or not all(map(_is_number, found)):
        raise RemoteProtocolError(f"{url}: the answer is no list of numbers")
    return [one for one in found if isinstance(one, int)]


def schema_of(said: Mapping[str, Json], url: str) -> Schema:
    """Return the schema of an answer. `schemaType` is left out for Avro."""
    text, kind = said.get("schema"), said.get("schemaType") or "AVRO"
    if not isinstance(text, str):
        raise RemoteProtocolError(f"{url}: the answer has no text of a schema")
    if kind not in SCHEMA_TYPES:
        raise RemoteProtocolError(
            f"{url}: the schema is of the type {printable(str(kind))}, which parley does not know"
        )
    listed = said.get("references") or []
    if not isinstance(listed, list):
        raise RemoteProtocolError(f"{url}: the references are no list")
    return Schema(text, str(kind), tuple(_reference(one, url) for one in listed))


def registered_of(
    said: Mapping[str, Json], url: str, schema: Schema | None = None
) -> RegisteredSchema:
    """Return a registered schema; `schema` is the one that was sent, where no text comes back."""
    number, subject, version = said.get("id"), said.get("subject"), said.get("version")
    if not isinstance(number, int) or isinstance(number, bool):
        raise RemoteProtocolError(f"{url}: the answer has no id")
    known = schema_of(said, url) if schema is None or "schema" in said else schema
    return RegisteredSchema(
        known,
        number,
        guid_of(said),
        subject if isinstance(subject, str) else None,
        version if isinstance(version, int) else None,
    )


def guid_of(said: Mapping[str, Json]) -> SchemaGuid | None:
    """Return the GUID of an answer; registries that have none leave it out."""
    text = said.get("guid")
    if not isinstance(text, str):
        return None
    try:
        return SchemaGuid(parse_guid(text))
    except ValueError:
        return None


def compatibility_of(found: Json, url: str) -> Compatibility:
    """Return the outcome of a compatibility check."""
    said = members(found, url)
    is_compatible, messages = said.get("is_compatible"), said.get("messages") or []
    if not isinstance(is_compatible, bool) or not isinstance(messages, list):
        raise RemoteProtocolError(f"{url}: the answer does not say whether it is compatible")
    return Compatibility(is_compatible, tuple(map(str, messages)))


def _reference(said: Json, url: str) -> SchemaReference:
    name, subject, version = (
        (said.get("name"), said.get("subject"), said.get("version"))
        if isinstance(said, dict)
        else (None, None, None)
    )
    if not isinstance(name, str) or not isinstance(subject, str) or not _is_number(version):
        raise RemoteProtocolError(f"{url}: a reference lacks its name, subject or version")
    return SchemaReference(name, subject, int(str(version)))


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
