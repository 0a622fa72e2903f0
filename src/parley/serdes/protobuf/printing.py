"""Descriptors to .proto texts, which `parse` makes the same descriptors of.

Comments, and options that a text defines itself, are not in it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator

from google.protobuf import descriptor_pb2 as pb, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from parley.serdes.protobuf.parse import SCALARS, json_name
from parley.serdes.protobuf.parse_others import INT32, MAX_FIELD

_FIELD = pb.FieldDescriptorProto
_NAMES = {number: name for name, number in SCALARS.items()}


def print_proto(file: pb.FileDescriptorProto) -> str:
    """Return the text of a descriptor."""
    return _Printer(file).text()


class _Printer:
    def __init__(self, file: pb.FileDescriptorProto) -> None:
        self._file = file
        self._lines: list[str] = []
        self._proto2 = file.syntax in ("", "proto2")

    def text(self) -> str:
        file, say = self._file, self._say
        if file.syntax == "editions":
            edition = pb.Edition.Name(file.edition).removeprefix("EDITION_")
            say(0, f"edition = {_quoted(edition)};")
        else:
            say(0, f"syntax = {_quoted(file.syntax or 'proto2')};")
        if file.package:
            say(0, f"package {file.package};")
        for index, name in enumerate(file.dependency):
            how = "public " if index in file.public_dependency else ""
            how = "weak " if index in file.weak_dependency else how
            say(0, f"import {how}{_quoted(name)};")
        self._options(0, file.options)
        for message in file.message_type:
            self._message(0, message)
        for enum in file.enum_type:
            self._enum(0, enum)
        self._extensions(0, file.extension, file.message_type)
        for service in file.service:
            self._service(service)
        return "\n".join(self._lines) + "\n"

    def _say(self, depth: int, text: str) -> None:
        self._lines.append("  " * depth + text)

    def _options(self, depth: int, options: Message, *without: str) -> None:
        for name, value in _set_options(options):
            if name not in without:
                self._say(depth, f"option {name} = {value};")

    # -- messages ----------------------------------------------------------------------------------

    def _message(self, depth: int, message: pb.DescriptorProto) -> None:
        self._say(depth, f"message {message.name} {{")
        self._body(depth + 1, message)
        self._say(depth, "}")

    def _body(self, depth: int, message: pb.DescriptorProto) -> None:
        self._options(depth, message.options, "map_entry")
        inline = {one.type_name.rpartition(".")[2] for one in message.field if _is_group(one)}
        entries = {one.name: one for one in message.nested_type if one.options.map_entry}
        written: set[int] = set()
        nested = _InOrder(message.nested_type, entries.keys() | inline)
        for field in message.field:
            for one in nested.before(field.type_name.rpartition(".")[2]):
                self._message(depth, one)
            if field.HasField("oneof_index") and not field.proto3_optional:
                if field.oneof_index not in written:
                    written.add(field.oneof_index)
                    self._oneof(depth, message, field.oneof_index)
            else:
                self._field(depth, field, message.nested_type, entries)
        for one in nested.before(None):
            self._message(depth, one)
        for enum in message.enum_type:
            self._enum(depth, enum)
        self._extensions(depth, message.extension, message.nested_type)
        ranges = [_range(one.start, one.end - 1, MAX_FIELD) for one in message.extension_range]
        if ranges:
            self._say(depth, f"extensions {', '.join(ranges)};")
        self._reserved(
            depth,
            [_range(one.start, one.end - 1, MAX_FIELD) for one in message.reserved_range],
            message.reserved_name,
        )

    def _oneof(self, depth: int, message: pb.DescriptorProto, index: int) -> None:
        declared = message.oneof_decl[index]
        self._say(depth, f"oneof {declared.name} {{")
        self._options(depth + 1, declared.options)
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                self._field(depth + 1, field, message.nested_type, {}, labelled=False)
        self._say(depth, "}")

    def _extensions(
        self, depth: int, fields: Iterable[pb.FieldDescriptorProto],
        nested: Iterable[pb.DescriptorProto],
    ) -> None:  # fmt: skip
        for field in fields:
            self._say(depth, f"extend {field.extendee} {{")
            self._field(depth + 1, field, nested, {})
            self._say(depth, "}")

    def _field(
        self, depth: int, field: pb.FieldDescriptorProto, nested: Iterable[pb.DescriptorProto],
        entries: dict[str, pb.DescriptorProto], *, labelled: bool = True,
    ) -> None:  # fmt: skip
        entry = entries.get(field.type_name.rpartition(".")[2])
        is_map = entry is not None and field.label == _FIELD.LABEL_REPEATED
        if is_map and entry is not None:
            kind = f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
        else:
            kind = _type(field)
        label = self._label(field) if labelled and not is_map else ""
        options = self._field_options(field)
        if _is_group(field):
            group = field.type_name.rpartition(".")[2]
            self._say(depth, f"{label}group {group} = {field.number}{options} {{")
            for one in nested:
                if one.name == group:
                    self._body(depth + 1, one)
            self._say(depth, "}")
            return
        self._say(depth, f"{label}{kind} {field.name} = {field.number}{options};")

    def _label(self, field: pb.FieldDescriptorProto) -> str:
        if field.label == _FIELD.LABEL_REPEATED:
            return "repeated "
        if field.label == _FIELD.LABEL_REQUIRED:
            return "required "
        return "optional " if self._proto2 or field.proto3_optional else ""

    def _field_options(self, field: pb.FieldDescriptorProto) -> str:
        found = [f"{name} = {value}" for name, value in _set_options(field.options)]
        if field.HasField("default_value"):
            found.append(f"default = {_default(field)}")
        if field.json_name not in ("", json_name(field.name)):
            found.append(f"json_name = {_quoted(field.json_name)}")
        return f" [{', '.join(found)}]" if found else ""

    # -- enums and services ------------------------------------------------------------------------

    def _reserved(self, depth: int, ranges: list[str], names: Iterable[str]) -> None:
        if ranges:
            self._say(depth, f"reserved {', '.join(ranges)};")
        if listed := list(names):
            words = listed if self._file.syntax == "editions" else map(_quoted, listed)
            self._say(depth, f"reserved {', '.join(words)};")

    def _enum(self, depth: int, enum: pb.EnumDescriptorProto) -> None:
        self._say(depth, f"enum {enum.name} {{")
        self._options(depth + 1, enum.options)
        for value in enum.value:
            found = [f"{name} = {one}" for name, one in _set_options(value.options)]
            options = f" [{', '.join(found)}]" if found else ""
            self._say(depth + 1, f"{value.name} = {value.number}{options};")
        ranges = [_range(one.start, one.end, INT32[1]) for one in enum.reserved_range]
        self._reserved(depth + 1, ranges, enum.reserved_name)
        self._say(depth, "}")

    def _service(self, service: pb.ServiceDescriptorProto) -> None:
        self._say(0, f"service {service.name} {{")
        self._options(1, service.options)
        for one in service.method:
            given = f"{'stream ' if one.client_streaming else ''}{one.input_type}"
            made = f"{'stream ' if one.server_streaming else ''}{one.output_type}"
            call = f"rpc {one.name}({given}) returns ({made})"
            if one.HasField("options"):
                self._say(1, f"{call} {{")
                self._options(2, one.options)
                self._say(1, "}")
            else:
                self._say(1, f"{call};")
        self._say(0, "}")


class _InOrder:
    """Messages in others by their order, in which those of maps and groups stand where their fields
    do: clients find a message by its place.
    """

    def __init__(self, nested: Iterable[pb.DescriptorProto], inline: Container[str]) -> None:
        self._left, self._inline = list(nested), inline

    def before(self, name: str | None) -> Iterator[pb.DescriptorProto]:
        """Yield the messages in front of the one that a field brings; all for None."""
        if name is not None and name not in self._inline:
            return
        if name is not None and not any(one.name == name for one in self._left):
            return
        while self._left:
            one = self._left.pop(0)
            if one.name == name:
                return
            if one.name not in self._inline:
                yield one


def _is_group(field: pb.FieldDescriptorProto) -> bool:
    return bool(field.type == _FIELD.TYPE_GROUP)


def _type(field: pb.FieldDescriptorProto) -> str:
    return _NAMES.get(field.type) or str(field.type_name)


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"


def _default(field: pb.FieldDescriptorProto) -> str:
    if field.type == _FIELD.TYPE_STRING:
        return _quoted(field.default_value)
    if field.type == _FIELD.TYPE_BYTES:
        return f'"{field.default_value}"'  # it is written with escapes
    return str(field.default_value)


def _quoted(text: str) -> str:
    found = json.dumps(text)
    # escapes of JSON are those of .proto texts, but for halves of pairs
    return found if "\\ud" not in found.lower() else json.dumps(text, ensure_ascii=False)


def _set_options(options: Message) -> list[tuple[str, str]]:
    """Return the names and values of the options that are set and known."""
    found: list[tuple[str, str]] = []
    for field, value in options.ListFields():
        if field.is_extension or field.name == "uninterpreted_option":
            continue
        if field.message_type is not None:
            listed = value if field.is_repeated else [value]
            found += [(field.name, f"{{ {_one_line(one)} }}") for one in listed]
            continue
        listed = value if field.is_repeated else [value]
        found += [(field.name, _option_value(field, one)) for one in listed]
    return found


def _one_line(value: Message) -> str:
    return str(text_format.MessageToString(value, as_one_line=True))


def _option_value(field: FieldDescriptor, value: object) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)
