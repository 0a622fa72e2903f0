"""The readers' schemas of a stream: the same after each restart, whatever is the latest by then.

    {"@parley": 1, ..., "@schemas": {"value": "id:7"}}

1. Offsets name the schemas that records before them were read with, by a text that the registry
   always understands; where there is none (a file), the schema itself stands there.
2. A stream that is started again reads on with those. Where a latest schema with other columns was
   loaded by then, it is refused, unless the user says which schema it is to be.
3. A reader that is given the option `checkpointLocation` as well looks there when it is loaded, and
   has the stream's columns from the beginning.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileSystem, FileType

from parley.client import ChosenSchema, Schema
from parley.errors import ConfigError
from parley.spark.options.schemas import TypedOptions
from parley.spark.options.subscription import Subscription
from parley.spark.read.typed import Readers, choose_readers, column_types
from parley.spark.values.offsets import FORMAT_KEY
from parley.spark.values.struct_types import difference

SCHEMAS_KEY = "@schemas"


def with_schemas(offset: dict[str, object], readers: Readers | None) -> dict[str, object]:
    """Return an offset that names the readers' schemas."""
    if not readers:
        return offset
    return {**offset, SCHEMAS_KEY: {part: _named(readers[part]) for part in sorted(readers)}}


def schemas_in(offset: Mapping[str, object]) -> dict[str, Schema | str]:
    """Return the schemas that an offset names, by "value" and "key".

    Raises ConfigError for what is no such thing.
    """
    listed = offset.get(SCHEMAS_KEY, {})
    found: dict[str, Schema | str] = {}
    if isinstance(listed, Mapping):
        for part, named in listed.items():
            if isinstance(named, str):
                found[part] = named
            elif isinstance(named, Mapping):
                found[part] = Schema(str(named.get("schema")), str(named.get("type")))
    if not isinstance(listed, Mapping) or len(found) < len(listed):
        raise ConfigError(
            f"the checkpoint names schemas that this parley does not know: {str(listed)[:200]}. "
            "Resume the query with the parley that wrote it, or a later one."
        )
    return found


class StreamSchemas:
    """Which schemas each micro-batch of a query run is read with."""

    def __init__(self, typed: TypedOptions, planned: Readers) -> None:
        self._typed = typed
        self._planned = planned
        self._known: dict[str, Readers] = {}

    def of(self, offset: Mapping[str, object]) -> Readers:
        """Return the schemas to read up to an offset with.

        Raises ConfigError where those that it names have other columns than were loaded.
        """
        kept = {
            part: named
            for part, named in schemas_in(offset).items()
            if part in self._planned
            and named != _kept(self._planned[part])
            and not self._typed.is_pinned(part)
        }
        if not kept:
            return self._planned
        key = json.dumps(offset[SCHEMAS_KEY], sort_keys=True)
        if key not in self._known:
            self._known[key] = self._settled(kept)
        return self._known[key]

    def _settled(self, kept: Mapping[str, Schema | str]) -> Readers:
        planned = {part: _kept(chosen) for part, chosen in self._planned.items()}
        found = choose_readers(self._typed, {**planned, **kept})
        now = column_types(self._typed, self._planned)
        for part in kept:
            try:
                then = column_types(self._typed, {part: found[part]})[part]
                differs = difference(now[part], then, part) or difference(then, now[part], part)
            except ConfigError as error:
                differs = str(error)
            if differs is not None:
                raise _changed(part, found[part], self._planned[part], differs)
        return found


def kept_in_checkpoint(
    location: str | None, typed: TypedOptions, subscription: Subscription
) -> dict[str, Schema | str]:
    """Return the schemas that a stream began to read with, for those the user has not chosen.

    Nothing for a new query. Raises ConfigError where the checkpoint cannot be looked at.
    """
    parts = [part for part in typed.schemas.parts if not typed.is_pinned(part)]
    if not location or not parts:
        return {}
    candidates = []
    for offset in _newest_offsets(location):
        topics = [name for name in offset if not name.startswith("@")]
        if topics and all(subscription.matches(topic, is_internal=False) for topic in topics):
            candidates.append(schemas_in(offset))
    if any(one != candidates[0] for one in candidates[1:]):
        raise ConfigError(
            f"the checkpoint {location} has several streams of these topics, which read with other "
            "schemas: say which one this is with valueSchema or keySchema"
        )
    found = candidates[0] if candidates else {}
    return {part: found[part] for part in parts if part in found}


def _newest_offsets(location: str) -> Iterator[Mapping[str, object]]:
    """Yield the offsets of a checkpoint's newest micro-batch that are parley's."""
    place = location if "://" in location or location.startswith("file:") else None
    try:
        files, root = FileSystem.from_uri(place or os.path.abspath(location))
        chosen = FileSelector(f"{root.rstrip('/')}/offsets", allow_not_found=True)
        listed = [
            one
            for one in files.get_file_info(chosen)
            if one.type == FileType.File and one.base_name.isdigit()
        ]
        if not listed:
            return
        newest = max(listed, key=lambda one: int(one.base_name))
        with files.open_input_stream(newest.path) as opened:
            lines = opened.read().decode().splitlines()
    except (OSError, ArrowInvalid, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the checkpoint {location} cannot be looked at for the schema that the query began "
            f"with: {error}. Say which one it is, for example valueSchema=id:7."
        ) from error
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and FORMAT_KEY in found:
            yield found


def _kept(chosen: ChosenSchema) -> Schema | str:
    return chosen.schema if chosen.named is None else chosen.named


def _named(chosen: ChosenSchema) -> object:
    if chosen.named is not None:
        return chosen.named
    return {"type": chosen.schema.schema_type, "schema": chosen.schema.text}


def _changed(part: str, then: ChosenSchema, now: ChosenSchema, differs: str) -> ConfigError:
    old, new = (one.named or "file:PATH" for one in (then, now))
    return ConfigError(
        f"this stream has read its {part}s with the schema {then.named or 'of a file'}, and was "
        f"loaded with {now.named or 'another file'}, whose columns are others: {differs}. To go on "
        f"with the columns as they were, give the reader the option checkpointLocation as well, or "
        f"{part}Schema={old}. To read with the new ones from here on, set {part}Schema={new}."
    )
