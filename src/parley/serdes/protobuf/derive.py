"""The .proto text of an Arrow type: the opposite of `columns`.

Fields are numbered in the order of the columns: new columns belong at the end, and none may go, or
the numbers of others change. What may be null is `optional`, except for lists and maps, which
Protobuf has no null of: such a list is read as an empty one.
"""

from __future__ import annotations

import re

import pyarrow as pa
from google.protobuf import descriptor_pb2 as pb

from parley.errors import ConfigError, SchemaError
from parley.serdes.faults import inner_path
from parley.serdes.protobuf.columns import UINT64
from parley.serdes.protobuf.parse import entry_name, json_name
from parley.serdes.protobuf.printing import print_proto
from parley.serdes.schemas import Schema
from parley.types import shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = pb.FieldDescriptorProto
_SCALARS: dict[pa.DataType, int] = {
    pa.bool_(): _FIELD.TYPE_BOOL,
    pa.int8(): _FIELD.TYPE_INT32,
    pa.int16(): _FIELD.TYPE_INT32,
    pa.int32(): _FIELD.TYPE_INT32,
    pa.uint8(): _FIELD.TYPE_INT32,
    pa.uint16(): _FIELD.TYPE_INT32,
    pa.int64(): _FIELD.TYPE_INT64,
    pa.uint32(): _FIELD.TYPE_UINT32,
    pa.uint64(): _FIELD.TYPE_UINT64,
    UINT64: _FIELD.TYPE_UINT64,
    pa.float16(): _FIELD.TYPE_FLOAT,
    pa.float32(): _FIELD.TYPE_FLOAT,
    pa.float64(): _FIELD.TYPE_DOUBLE,
    pa.string(): _FIELD.TYPE_STRING,
    pa.large_string(): _FIELD.TYPE_STRING,
    pa.string_view(): _FIELD.TYPE_STRING,
    pa.binary(): _FIELD.TYPE_BYTES,
    pa.large_binary(): _FIELD.TYPE_BYTES,
    pa.binary_view(): _FIELD.TYPE_BYTES,
}
_KEYS = (_FIELD.TYPE_BOOL, _FIELD.TYPE_INT32, _FIELD.TYPE_INT64, _FIELD.TYPE_UINT32,
         _FIELD.TYPE_UINT64, _FIELD.TYPE_STRING)  # fmt: skip
_TIMESTAMP, _DURATION = "google/protobuf/timestamp.proto", "google/protobuf/duration.proto"
MAX_NESTING = 30


def protobuf_schema(kind: pa.DataType, name: str) -> Schema:
    """Return the schema of a column's type, which must be a struct; `name` is the full name of its
    message. Raises SchemaError, which names the field, for types that Protobuf does not have.
    """
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise ConfigError(
            f"{shown(name)} is no full name of a message: letters, digits and _ are expected, and "
            "dots behind the names of packages"
        )
    if not pa.types.is_struct(kind):
        raise SchemaError(f"a Protobuf message is made of a struct, not of a column of {kind}")
    package, _, own = name.rpartition(".")
    file = pb.FileDescriptorProto(syntax="proto3", package=package)
    _Deriving(file).message(file.message_type.add(name=own), kind, "", 0)
    return Schema(print_proto(file), "PROTOBUF")


class _Deriving:
    def __init__(self, file: pb.FileDescriptorProto) -> None:
        self._file = file

    def message(self, made: pb.DescriptorProto, kind: pa.DataType, path: str, depth: int) -> None:
        if depth >= MAX_NESTING:
            raise SchemaError("the column is nested too deep", path=path)
        seen: set[str] = set()
        for number, one in enumerate(kind, 1):
            inside = inner_path(path, one.name)
            # two names may be one in JSON, which protoc refuses
            if not _NAME.fullmatch(one.name) or json_name(one.name) in seen:
                raise SchemaError(
                    "no name of a field: letters, digits and _ are expected, and no two names that "
                    "are one without _; rename it",
                    path=inside,
                )
            seen.add(json_name(one.name))
            field = made.field.add(name=one.name, number=number, label=_FIELD.LABEL_OPTIONAL)
            self._field(made, field, one, inside, depth)

    def _field(
        self, made: pb.DescriptorProto, field: pb.FieldDescriptorProto, of: pa.Field, path: str,
        depth: int,
    ) -> None:  # fmt: skip
        kind = _plain(of.type)
        if pa.types.is_map(kind):
            self._map(made, field, kind, path, depth)
        elif (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            field.label = _FIELD.LABEL_REPEATED
            self._type(made, field, _plain(kind.value_type), inner_path(path, "element"), depth)
        else:
            self._type(made, field, kind, path, depth)
            if of.nullable and field.type != _FIELD.TYPE_MESSAGE:
                field.proto3_optional = True

    def _map(
        self, made: pb.DescriptorProto, field: pb.FieldDescriptorProto, kind: pa.DataType,
        path: str, depth: int,
    ) -> None:  # fmt: skip
        entry = pb.DescriptorProto(name=entry_name(field.name))
        entry.options.map_entry = True
        key, value = (
            entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            for number, name in enumerate(("key", "value"), 1)
        )
        self._type(made, key, _plain(kind.key_type), inner_path(path, "key"), depth)
        if key.type not in _KEYS:
            raise SchemaError(f"a map of Protobuf has no keys of {kind.key_type}", path=path)
        # its message is a neighbour of the entries, and named by the field
        value.name = field.name
        self._type(made, value, _plain(kind.item_type), inner_path(path, "value"), depth)
        value.name = "value"
        made.nested_type.append(entry)
        field.label, field.type, field.type_name = (
            _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE, entry.name
        )  # fmt: skip

    def _type(
        self, made: pb.DescriptorProto, field: pb.FieldDescriptorProto, kind: pa.DataType,
        path: str, depth: int,
    ) -> None:  # fmt: skip
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        elif pa.types.is_fixed_size_binary(kind):
            field.type = _FIELD.TYPE_BYTES
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            self._well_known(field, "Timestamp", _TIMESTAMP)
        elif pa.types.is_duration(kind):
            self._well_known(field, "Duration", _DURATION)
        elif pa.types.is_struct(kind):
            taken = {one.name for one in made.nested_type} | {one.name for one in made.field}
            name = entry_name(field.name).removesuffix("Entry") or "Message"
            while name in taken:
                name += "_"
            field.type, field.type_name = _FIELD.TYPE_MESSAGE, name
            self.message(made.nested_type.add(name=name), kind, path, depth + 1)
        else:
            raise SchemaError(
                f"Protobuf has no type for a column of {kind}; {_remedy(kind)}", path=path
            )

    def _well_known(self, field: pb.FieldDescriptorProto, name: str, file: str) -> None:
        if file not in self._file.dependency:
            self._file.dependency.append(file)
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".google.protobuf.{name}"


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    return kind


def _remedy(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return 'cast it to timestamp("us", tz="UTC")'
    if pa.types.is_decimal(kind):
        return "cast it to float64, or to string to keep all digits"
    if pa.types.is_list(kind):
        return "make it a list of structs"
    return "cast it to string, or leave it out"
