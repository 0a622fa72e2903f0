"""The notation of message definitions: text to model.

One file per API holds its request and its response; headers and data messages have files of
their own. Facts only, one field per line, inner fields indented by two spaces below their struct:

    api 1 Fetch                                   key and name
    listeners zkBroker broker controller          where brokers offer it

    request 0-18 flexible=12+ deprecated=0-3      valid versions, then what holds in a part of them
      max_wait_ms          int32           0+
      topics               []FetchTopic    0+     an array of structs …
        topic              string          0-12   … and its fields
        replica_directory  uuid            17+    tag=0 ignorable
      struct TopicPartitions                      a struct that several fields name
        topic_id           uuid            0+

    header RequestHeader 0-2 flexible=2+          in header_*.api
    data ConsumerProtocolAssignment 0-3           in data_*.api
    record GroupMetadataKey 2                     in record_*.api: of __consumer_offsets

Columns are name, type, versions ("2", "0-12", or "3+" for all from 3 on), then options:

    tag=N           sent as tagged field N
    null, null=2+   may be null (in those versions)
    default=X       instead of 0, false, "", [], …
    key             keys the array's entries
    ignorable       may be dropped where a version lacks it
    plain           never in compact form
    secret          masked when shown
    kafka=Name      Kafka's spelling, where the rule fails

The rule: Kafka's name of a field is its name here with each word capitalised and the underscores
taken out (`topic_id` is `TopicId`). `#` starts a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from parley.schema.apikeys import ApiKey
from parley.schema.model import (
    PRIMITIVES,
    ApiSchema,
    Default,
    Field,
    Fresh,
    MessageSchema,
    NotationError,
    Struct,
)
from parley.schema.ranges import VersionRange

_ZERO: dict[str, Default] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": bytes(16),
    "float64": 0.0,
}
_FLAGS = {"key": "map_key", "ignorable": "ignorable", "plain": "never_compact", "secret": "secret"}


@dataclass(slots=True)
class _Line:
    """A line with what is indented below it."""

    number: int
    words: list[str]
    below: list[_Line] = field(default_factory=list)


class Parser:
    """Parses one file. `name` is used in errors only."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._top = self._tree(text)

    def api(self) -> ApiSchema:
        """Return the API that the file describes. Raises NotationError."""
        if [line.words[0] for line in self._top] != ["api", "listeners", "request", "response"]:
            raise NotationError(
                f"{self._name}: the lines api, listeners, request and response are expected, "
                "in order"
            )
        head, listeners, request, response = self._top
        if len(head.words) != 3 or not head.words[1].isdigit():
            raise self._error(head, 'expected "api KEY NAME"')
        api = head.words[2]
        try:
            key = ApiKey(int(head.words[1]))
        except ValueError as error:
            raise self._error(head, f"key {head.words[1]} is not in schema/apikeys.py") from error
        schema = ApiSchema(
            key=key,
            name=api,
            listeners=tuple(listeners.words[1:]),
            request=self._message(request, f"{api}Request", request.words[1:]),
            response=self._message(response, f"{api}Response", response.words[1:]),
        )
        if schema.request.valid_versions != schema.response.valid_versions:
            raise self._error(response, "the response has other versions than the request")
        return schema

    def message(self) -> MessageSchema:
        """Return the one message of a header's or data file. Raises NotationError."""
        if (
            len(self._top) != 1
            or self._top[0].words[0] not in ("header", "data", "record")
            or len(self._top[0].words) < 3
        ):
            raise NotationError(
                f'{self._name}: one message "header NAME VERSIONS" or "data NAME VERSIONS" '
                "is expected"
            )
        line = self._top[0]
        return self._message(line, line.words[1], line.words[2:])

    def _error(self, line: _Line, problem: str) -> NotationError:
        return NotationError(f"{self._name}, line {line.number}: {problem}")

    def _tree(self, text: str) -> list[_Line]:
        """Return the lines that are not indented, the others below their owners."""
        top: list[_Line] = []
        owners: list[list[_Line]] = [top]
        for number, raw in enumerate(text.splitlines(), start=1):
            content = raw.split("#", 1)[0].rstrip()
            if not content:
                continue
            stripped = content.lstrip(" ")
            line = _Line(number, stripped.split())
            depth, odd = divmod(len(content) - len(stripped), 2)
            if odd or depth >= len(owners):
                raise self._error(
                    line, "indented by another number of spaces than its neighbours (two per level)"
                )
            del owners[depth + 1 :]
            owners[depth].append(line)
            owners.append(line.below)
        return top

    def _message(self, line: _Line, name: str, words: list[str]) -> MessageSchema:
        if not words:
            raise self._error(line, "the valid versions are missing")
        valid = self._range(line, words[0], None)
        ranges: dict[str, VersionRange] = {}
        for word in words[1:]:
            option, equals, text = word.partition("=")
            if option not in ("flexible", "deprecated", "unstable") or not equals:
                raise self._error(line, f'"{word}" is not one of flexible=, deprecated=, unstable=')
            ranges[option] = self._range(line, text, valid.max)
        shared = {
            inner.words[1]: inner
            for inner in line.below
            if inner.words[0] == "struct" and len(inner.words) == 2
        }
        own = [inner for inner in line.below if inner.words[0] != "struct"]
        return MessageSchema(
            name=name,
            kind=line.words[0],
            root=Struct(name, tuple(self._fields(own, valid, shared, ()))),
            valid_versions=valid,
            flexible_versions=ranges.get("flexible"),
            deprecated_versions=ranges.get("deprecated"),
            unstable_versions=ranges.get("unstable"),
        )

    def _fields(
        self,
        lines: list[_Line],
        valid: VersionRange,
        shared: dict[str, _Line],
        inside: tuple[str, ...],
    ) -> Iterator[Field]:
        seen: set[str] = set()
        for line in lines:
            if line.words[0] in seen:
                raise self._error(line, f'a second field "{line.words[0]}" in one struct')
            seen.add(line.words[0])
            yield self._field(line, valid, shared, inside)

    def _field(
        self, line: _Line, valid: VersionRange, shared: dict[str, _Line], inside: tuple[str, ...]
    ) -> Field:
        if len(line.words) < 3:
            raise self._error(line, "a field needs a name, a type and versions")
        name, type_name, versions_text, *options = line.words
        is_array = type_name.startswith("[]")
        base = type_name.removeprefix("[]")
        struct = None
        if base not in PRIMITIVES:
            inner = line.below or (shared[base].below if base in shared else [])
            if not inner or base in inside:
                raise self._error(
                    line, f'the type "{base}" is neither a primitive nor a struct with fields'
                )
            struct = Struct(base, tuple(self._fields(inner, valid, shared, (*inside, base))))
        elif line.below:
            raise self._error(line.below[0], f'fields below "{name}", which is no struct')
        versions = self._range(line, versions_text, valid.max)
        found: dict[str, object] = {"default": self._zero(base, is_array)}
        for option in options:
            self._option(line, option, found, versions, base if not is_array else "[]")
        kafka_name = str(found.pop("kafka", "".join(word.capitalize() for word in name.split("_"))))
        return Field(
            name=name,
            kafka_name=kafka_name,
            type=base,
            is_array=is_array,
            versions=versions,
            struct=struct,
            **found,  # type: ignore[arg-type]  # the names and types of `_option`
        )

    def _option(
        self, line: _Line, text: str, found: dict[str, object], versions: VersionRange, base: str
    ) -> None:
        option, equals, value = text.partition("=")
        if text in _FLAGS:
            found[_FLAGS[text]] = True
        elif option == "null":
            found["nullable"] = self._range(line, value, versions.max) if equals else versions
        elif option == "tag" and value.isdigit():
            found["tag"] = int(value)
        elif option == "kafka" and value:
            found["kafka"] = value
        elif option == "default" and equals:
            found["default"] = self._default(line, value, base)
        else:
            raise self._error(line, f'"{text}" is not an option of a field')

    def _default(self, line: _Line, text: str, base: str) -> Default:
        if text == "null":
            return None
        if base == "bool" and text in ("true", "false"):
            return text == "true"
        if base == "string":
            return text
        try:
            if base == "float64":
                return float(text)
            if base.startswith(("int", "uint")):
                return int(text, 0)
        except ValueError:
            pass
        raise self._error(line, f'"{text}" is not a default of the type {base}')

    def _range(self, line: _Line, text: str, end: int | None) -> VersionRange:
        try:
            parsed = VersionRange.parse(text, end)
        except ValueError as error:
            raise self._error(line, f'"{text}" is not a range of versions') from error
        if end is not None and parsed.max > end:
            raise self._error(line, f"the versions {text} reach beyond {end}, the last one here")
        return parsed

    @staticmethod
    def _zero(base: str, is_array: bool) -> Default:
        if is_array:
            return Fresh.LIST
        if base in PRIMITIVES:
            return _ZERO.get(base, 0)
        return Fresh.STRUCT
