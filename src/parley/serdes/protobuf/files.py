"""A Protobuf schema with its references: texts or serialized descriptors to one pool.

The pool is the schema's own: two schemas may define the same names differently.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from parley.errors import SchemaError, nearest_hint, printable
from parley.serdes.protobuf.builtin import builtin_file
from parley.serdes.protobuf.link import link
from parley.serdes.protobuf.parse import parse_proto
from parley.serdes.schemas import NamedSchema, Schema

MAIN = "schema.proto"
"""The name of the file that a schema is: registries know none."""
MAX_IMPORTS, MAX_DEPTH = 1_000, 100
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def file_protos(
    schema: Schema, references: Sequence[NamedSchema] = ()
) -> dict[str, pb.FileDescriptorProto]:
    """Return the descriptors of a schema and of all that it imports, by name, each behind those
    that it imports; the schema's own is the last.

    Raises SchemaError for texts that are none, and for imports that are not among the references.
    """
    known: dict[str, Schema] = {}
    for one in references:
        known.setdefault(one.name, one.schema)
    name = MAIN
    while name in known:
        name = f"_{name}"
    return _Files({**known, name: schema}).all_of(name)


def compile_schema(schema: Schema, references: Sequence[NamedSchema] = ()) -> FileDescriptor:
    """Return a schema as the file of a pool of its own. Raises SchemaError."""
    pool = DescriptorPool()
    name = MAIN
    for name, made in file_protos(schema, references).items():
        try:
            pool.AddSerializedFile(made.SerializeToString())
        except (TypeError, ValueError) as error:
            why = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
            raise SchemaError(f"{name}: {printable(why, 300)}") from error
    return pool.FindFileByName(name)


class _Files:
    def __init__(self, known: Mapping[str, Schema]) -> None:
        self._known = known
        self._made: dict[str, pb.FileDescriptorProto] = {}

    def all_of(self, name: str) -> dict[str, pb.FileDescriptorProto]:
        self._add(name, ())
        return self._made

    def _add(self, name: str, above: tuple[str, ...]) -> None:
        if name in self._made:
            return
        if name in above or len(above) >= MAX_DEPTH or len(self._made) >= MAX_IMPORTS:
            why = "imports itself" if name in above else "too many files are imported"
            raise SchemaError(f"{printable(name)}: {why}")
        made = self._read(name)
        for one in made.dependency:
            self._add(one, (*above, name))
        try:
            link(made, self._visible(made))
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None
        self._made[name] = made

    def _read(self, name: str) -> pb.FileDescriptorProto:
        schema = self._known.get(name)
        if schema is None:
            found = builtin_file(name)
            if found is None:
                hint = nearest_hint(name, self._known)
                raise SchemaError(
                    f"{printable(name)} is imported and is not among the schema's references.{hint}"
                )
            return parse_proto(found, name) if isinstance(found, str) else found
        if schema.schema_type != "PROTOBUF":
            raise SchemaError(f"{name}: a schema of the type {schema.schema_type} is referred to")
        try:
            return file_proto(schema.text, name)
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}" if name != MAIN else str(error)) from error

    def _visible(self, made: pb.FileDescriptorProto) -> list[pb.FileDescriptorProto]:
        """Return the imported files, and what these import publicly."""
        found: dict[str, pb.FileDescriptorProto] = {}
        waiting = list(made.dependency)
        while waiting:
            name = waiting.pop()
            if name not in found:
                one = found[name] = self._made[name]
                waiting += [one.dependency[index] for index in one.public_dependency]
        return list(found.values())


def is_descriptor(text: str) -> bool:
    """Return whether a text is a descriptor in base64, and none of a .proto file."""
    return _BASE64.fullmatch(text) is not None


def file_proto(text: str, name: str) -> pb.FileDescriptorProto:
    """Return the descriptor of a .proto text, or of a descriptor in base64, as Confluent's client
    for Python registers it. Names of types may not be resolved yet.
    """
    if not is_descriptor(text):
        return parse_proto(text, name)
    made = pb.FileDescriptorProto()
    try:
        made.ParseFromString(base64.b64decode(text, validate=False))
    except (DecodeError, ValueError) as error:
        raise SchemaError("neither a .proto text nor a descriptor in base64") from error
    if not _is_readable(made):
        raise SchemaError("a name in the descriptor is not UTF-8")
    if any(not 0 <= one < len(made.dependency) for one in made.public_dependency):
        raise SchemaError("the descriptor imports publicly what it does not import")
    made.name = name
    return made


def _is_readable(made: Message) -> bool:
    """Return whether all names are texts: others come as bytes, or as an error."""
    try:
        for field, value in made.ListFields():
            for one in value if field.is_repeated else (value,):
                if isinstance(one, Message):
                    if not _is_readable(one):
                        return False
                elif field.type == FieldDescriptor.TYPE_STRING and not isinstance(one, str):
                    return False
    except UnicodeDecodeError:
        return False
    return True


def message_of(file: FileDescriptor, indexes: Sequence[int]) -> Descriptor:
    """Return the message that indexes lead to. Raises SchemaError where there is none."""
    level = list(file.message_types_by_name.values())
    found = None
    for one in indexes:
        if not 0 <= one < len(level):
            way = ", ".join(map(str, indexes))
            raise SchemaError(f"the schema has no message at the indexes {way}")
        found = level[one]
        level = messages_in(found)
    if found is None:
        raise SchemaError("no message indexes are given")
    return found


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """Return the way to a message."""
    outer = message.containing_type
    if outer is None:
        return (list(message.file.message_types_by_name).index(message.name),)
    return (*indexes_of(outer), messages_in(outer).index(message))


def messages_in(message: Descriptor) -> list[Descriptor]:
    """Return the messages that a message defines, without those that maps are made of: these do
    not count in Confluent's indexes, which are made of the text. (Its clients in other languages
    than Java count them; that matters for messages within others, behind maps.)
    """
    return [one for one in message.nested_types if not one.GetOptions().map_entry]


def message_named(file: FileDescriptor, name: str | None) -> Descriptor:
    """Return a message by its full name, the first one for None. Raises SchemaError without it."""
    known = {one.full_name: one for one in _all_messages(file)}
    if not known:
        raise SchemaError("the schema has no message")
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise SchemaError(
            f"the schema has no message {printable(name)}.{nearest_hint(name, known)}"
        )
    return known[name]


def _all_messages(file: FileDescriptor) -> list[Descriptor]:
    found: list[Descriptor] = []
    waiting = list(reversed(file.message_types_by_name.values()))
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += reversed(messages_in(one))
    return found
