"""Confluent's REST protocol: requests to calls of the store, and what it says to answers.

Paths, parameters and errors are those of Confluent's documentation. Contexts, exporters, key
encryption and rules of data contracts are not there: what asks for them is answered 404.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from parley.devcluster.registry.protobuf import serialized
from parley.devcluster.registry.refusals import RegistryRefused, no_version
from parley.devcluster.registry.store import Store, version_number
from parley.devcluster.registry.subjects import Version, guid_of, schema_of
from parley.net.http_server import HttpReply, HttpRequest
from parley.serdes import Schema
from parley.serdes.schemas import schema_json
from parley.types import Json

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"

Answer = Json
Route = Callable[[Store, HttpRequest], Answer]


def answer(store: Store, request: HttpRequest) -> HttpReply:
    """Return the answer to a request, whatever it is."""
    try:
        return _reply(200, _routed(store, request))
    except RegistryRefused as error:
        said: Json = {"error_code": error.error_code, "message": str(error)}
        return _reply(error.status, said)


def _reply(status: int, found: Json) -> HttpReply:
    body = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    return HttpReply(status, body, {"Content-Type": MEDIA_TYPE})


def _routed(store: Store, request: HttpRequest) -> Answer:
    path = request.path
    room = path[0] if path else ""
    route = _ROOMS.get(room)
    if route is None:
        raise _no_path()
    return route(store, request)


def _no_path() -> RegistryRefused:
    return RegistryRefused(404, "HTTP 404 Not Found")


def _no_method() -> RegistryRefused:
    return RegistryRefused(405, "HTTP 405 Method Not Allowed")


# -- schemas -----------------------------------------------------------------------------------


def _root(store: Store, request: HttpRequest) -> Answer:
    return {}


def _schemas(store: Store, request: HttpRequest) -> Answer:
    if request.method != "GET":
        raise _no_method()
    match request.path[1:]:
        case ():
            return _listed(store, request)
        case ("types",):
            return ["JSON", "PROTOBUF", "AVRO"]
        case ("ids", number):
            return _shown(store, request, _number(number))
        case ("guids", guid):
            known = store.id_of_guid(guid)
            return {**_shown(store, request, known), "id": known}
        case ("ids", number, "schema"):
            return _bare(store.schema(_number(number)))
        case ("ids", number, ("versions" | "subjects") as what):
            found = store.versions_of_id(_number(number), deleted=_says(request, "deleted"))
            if what == "versions":
                return [{"subject": one.subject, "version": one.number} for one in found]
            return _texts(sorted({one.subject for one in found}))
    raise _no_path()


def _listed(store: Store, request: HttpRequest) -> Answer:
    prefix, deleted = request.query.get("subjectPrefix", ""), _says(request, "deleted")
    found: list[Json] = []
    for subject in store.subjects(prefix=prefix, deleted=deleted):
        versions = store.versions(subject, deleted=deleted)
        chosen = versions[-1:] if _says(request, "latestOnly") else versions
        found += [one.as_json() for one in chosen]
    return _page(request, found)


def _shown(store: Store, request: HttpRequest, number: int) -> dict[str, Json]:
    schema = store.schema(number)
    found = {**schema_json(schema), "guid": guid_of(schema)}
    return _formatted(store, request, schema, found)


def _formatted(
    store: Store, request: HttpRequest, schema: Schema, found: dict[str, Json]
) -> dict[str, Json]:
    """Return an answer with the schema in the format that was asked for: `serialized` is Protobuf's
    descriptor in base64. Others are the text's own.
    """
    if schema.schema_type == "PROTOBUF" and request.query.get("format") == "serialized":
        return {**found, "schema": serialized(schema, store.references(schema))}
    return found


def _bare(schema: Schema) -> Json:
    """Return a schema as it is where nothing stands around it."""
    if schema.schema_type == "PROTOBUF":
        return schema.text
    try:
        found: Json = json.loads(schema.text)
    except ValueError:
        return schema.text
    return found


# -- subjects ----------------------------------------------------------------------------------


def _subjects(store: Store, request: HttpRequest) -> Answer:
    match request.method, request.path[1:]:
        case "GET", ():
            prefix = request.query.get("subjectPrefix", "")
            names = store.subjects(prefix=prefix, deleted=_says(request, "deleted"))
            return _page(request, list(names))
        case "POST", (subject,):
            return store.lookup(
                subject,
                schema_of(_object(request)),
                normalize=_says(request, "normalize"),
                deleted=_says(request, "deleted"),
            ).as_json()
        case "DELETE", (subject,):
            return list(store.delete_subject(subject, permanent=_says(request, "permanent")))
        case "GET", (subject, "versions"):
            found = store.versions(subject, deleted=_says(request, "deleted"))
            return _page(request, [one.number for one in found])
        case "POST", (subject, "versions"):
            return _registered(store, subject, request)
        case "GET", (subject, "metadata"):
            return store.version(subject, "latest").as_json()
        case _, (subject, "versions", version, *rest):
            return _one_version(store, request, subject, version, rest)
    raise _no_path() if len(request.path) > 3 else _no_method()


def _one_version(
    store: Store, request: HttpRequest, subject: str, version: str, rest: Sequence[str]
) -> Answer:
    if request.method == "DELETE" and not rest:
        return store.delete_version(subject, version, permanent=_says(request, "permanent"))
    if request.method != "GET":
        raise _no_method()
    found = store.version(subject, version, deleted=_says(request, "deleted"))
    match rest:
        case []:
            return _formatted(store, request, found.schema, found.as_json())
        case ["schema"]:
            return _bare(found.schema)
        case ["referencedby"]:
            return list(store.users_of(found))
    raise _no_path()


def _registered(store: Store, subject: str, request: HttpRequest) -> Answer:
    made = store.register(
        subject, schema_of(_object(request)), normalize=_says(request, "normalize")
    )
    return _of_register(made)


def _of_register(made: Version) -> Answer:
    return {"id": made.schema_id, "version": made.number, "guid": guid_of(made.schema)}


# -- compatibility -----------------------------------------------------------------------------


def _compatibility(store: Store, request: HttpRequest) -> Answer:
    if request.method != "POST":
        raise _no_method()
    match request.path[1:]:
        case ("subjects", subject, "versions"):
            wanted = None
        case ("subjects", subject, "versions", version):
            wanted = version
        case _:
            raise _no_path()
    schema = schema_of(_object(request))
    if wanted is not None and version_number(wanted) is not None:
        store.version(subject, wanted)
    elif wanted is not None and subject not in store.subjects():
        # nothing is there that it could break
        wanted = None
    messages = store.compatible(subject, schema, wanted)
    found: dict[str, Json] = {"is_compatible": not messages}
    if _says(request, "verbose"):
        found["messages"] = list(messages)
    return found


def _config(store: Store, request: HttpRequest) -> Answer:
    subject = _subject(request)
    match request.method:
        case "GET":
            own = not _says(request, "defaultToGlobal")
            return {"compatibilityLevel": store.level(subject, own=own)}
        case "PUT":
            said = _object(request)
            level = said.get("compatibility") or said.get("compatibilityLevel")
            return {"compatibility": store.set_level(subject, level)}
        case "DELETE":
            return {"compatibilityLevel": store.delete_level(subject)}
    raise _no_method()


def _mode(store: Store, request: HttpRequest) -> Answer:
    subject = _subject(request)
    match request.method:
        case "GET":
            return {"mode": store.mode(subject, own=not _says(request, "defaultToGlobal"))}
        case "PUT":
            return {"mode": store.set_mode(subject, _object(request).get("mode"))}
        case "DELETE":
            return {"mode": store.delete_mode(subject)}
    raise _no_method()


# -- reading requests --------------------------------------------------------------------------


def _subject(request: HttpRequest) -> str | None:
    match request.path[1:]:
        case ():
            return None
        case (subject,):
            return subject
    raise _no_path()


def _object(request: HttpRequest) -> Mapping[str, Json]:
    try:
        found = json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise RegistryRefused(400, "the body is no JSON") from error
    if not isinstance(found, dict):
        raise RegistryRefused(400, "the body is no JSON object")
    return found


def _says(request: HttpRequest, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise no_version(text) if len(text) > 10 else _no_path()
    return int(text)


def _texts(found: Sequence[str]) -> list[Json]:
    return list(found)


def _page(request: HttpRequest, found: list[Json]) -> list[Json]:
    """Return the part of a list that `offset` and `limit` ask for."""
    try:
        offset, limit = int(request.query.get("offset", 0)), int(request.query.get("limit", -1))
    except ValueError as error:
        raise RegistryRefused(400, "offset and limit are whole numbers") from error
    rest = found[max(0, offset) :]
    return rest if limit < 0 else rest[:limit]


_ROOMS: Mapping[str, Route] = {
    "": _root,
    "schemas": _schemas,
    "subjects": _subjects,
    "compatibility": _compatibility,
    "config": _config,
    "mode": _mode,
}
