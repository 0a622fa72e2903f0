"""Names of types in a .proto file: which message or enum each means, by protoc's scopes."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf import descriptor_pb2 as pb

from parley.errors import SchemaError, nearest_hint, printable

_FIELD = pb.FieldDescriptorProto
PACKAGE, OTHER = 0, -1
"""What a name can be beside a type."""


def link(made: pb.FileDescriptorProto, visible: Iterable[pb.FileDescriptorProto]) -> None:
    """Give each field of a file its type by the full name.

    `visible` are the files that it imports, and those that they import publicly. Raises SchemaError
    for names that nothing has.
    """
    symbols: dict[str, int] = {}
    for one in (*visible, made):
        _collect(one, symbols)
    linker = _Linker(symbols)
    scope = made.package
    for message in made.message_type:
        linker.message(message, scope)
    linker.fields(made.extension, scope)
    for service in made.service:
        for method in service.method:
            inside = _join(scope, service.name)
            method.input_type = linker.of_kind(method.input_type, inside, _FIELD.TYPE_MESSAGE)
            method.output_type = linker.of_kind(method.output_type, inside, _FIELD.TYPE_MESSAGE)


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _collect(file: pb.FileDescriptorProto, symbols: dict[str, int]) -> None:
    parts = file.package.split(".") if file.package else []
    for count in range(1, len(parts) + 1):
        symbols.setdefault(".".join(parts[:count]), PACKAGE)
    for enum in file.enum_type:
        symbols[_join(file.package, enum.name)] = _FIELD.TYPE_ENUM
    for service in file.service:
        symbols[_join(file.package, service.name)] = OTHER
    for message in file.message_type:
        _collect_message(message, _join(file.package, message.name), symbols)


def _collect_message(message: pb.DescriptorProto, name: str, symbols: dict[str, int]) -> None:
    symbols[name] = _FIELD.TYPE_MESSAGE
    for field in message.field:
        symbols.setdefault(f"{name}.{field.name}", OTHER)
    for enum in message.enum_type:
        symbols[f"{name}.{enum.name}"] = _FIELD.TYPE_ENUM
    for nested in message.nested_type:
        _collect_message(nested, f"{name}.{nested.name}", symbols)


class _Linker:
    def __init__(self, symbols: dict[str, int]) -> None:
        self._symbols = symbols

    def message(self, made: pb.DescriptorProto, scope: str) -> None:
        inside = _join(scope, made.name)
        self.fields(made.field, inside)
        self.fields(made.extension, inside)
        for nested in made.nested_type:
            self.message(nested, inside)

    def fields(self, fields: Iterable[pb.FieldDescriptorProto], scope: str) -> None:
        for one in fields:
            if one.extendee:
                one.extendee = self.of_kind(one.extendee, scope, _FIELD.TYPE_MESSAGE)
            if not one.type_name:
                continue
            found = self._resolved(one.type_name, scope)
            kind = self._symbols[found]
            if one.type not in (_FIELD.TYPE_GROUP, kind):
                one.type = kind
            one.type_name = f".{found}"

    def of_kind(self, name: str, scope: str, kind: int) -> str:
        """Return the full name of a type that must be a message."""
        found = self._resolved(name, scope)
        if self._symbols[found] != kind:
            raise SchemaError(f"{printable(name)} is no message", path=scope)
        return f".{found}"

    def _resolved(self, name: str, scope: str) -> str:
        """Return which type a name means: the innermost scope that has its first part decides."""
        if name.startswith("."):
            if self._symbols.get(name[1:], OTHER) > PACKAGE:
                return name[1:]
            raise self._unknown(name, scope)
        first, _, rest = name.partition(".")
        around = scope
        while True:
            known = self._symbols.get(_join(around, first))
            if rest:
                if known is not None and known != OTHER:
                    whole = _join(around, name)
                    if self._symbols.get(whole, OTHER) > PACKAGE:
                        return whole
                    raise self._unknown(name, scope)
            elif known is not None and known > PACKAGE:
                return _join(around, first)
            if not around:
                raise self._unknown(name, scope)
            around = around.rpartition(".")[0]

    def _unknown(self, name: str, scope: str) -> SchemaError:
        types = [one for one, kind in self._symbols.items() if kind > PACKAGE]
        hint = nearest_hint(name.lstrip("."), types[:1000])
        return SchemaError(
            f"no type is named {printable(name)}; is an import missing?{hint}", path=scope
        )
