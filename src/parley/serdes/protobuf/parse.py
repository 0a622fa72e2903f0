"""Texts of .proto files to descriptors whose names are not resolved yet: `link` does that.

The grammar is that of proto2, proto3 and editions. What a pool checks anyway (numbers that are used
twice, names that are) is left to it.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2 as pb

from parley.serdes.protobuf.parse_options import (
    boolean,
    escaped,
    float_text,
    number_of,
    one_option,
    statement,
)
from parley.serdes.protobuf.parse_others import (
    INT32,
    MAX_FIELD,
    parse_enum,
    parse_extensions,
    parse_reserved,
    parse_service,
)
from parley.serdes.protobuf.tokens import Kind, Tokens

MAX_TEXT = 4 * 2**20
"""Characters of a text: registries take less."""
MAX_NESTING = 32
"""How deep a message may lie in others."""
_FIELD = pb.FieldDescriptorProto
_LABELS = {
    "optional": _FIELD.LABEL_OPTIONAL,
    "required": _FIELD.LABEL_REQUIRED,
    "repeated": _FIELD.LABEL_REPEATED,
}
SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
"""The names of types that are no message and no enum."""
_WHOLE = {
    "int32": INT32, "sint32": INT32, "sfixed32": INT32, "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1), "fixed64": (0, 2**64 - 1),
}  # fmt: skip
_INT64 = (-(2**63), 2**63 - 1)


def parse_proto(text: str, name: str) -> pb.FileDescriptorProto:
    """Return the descriptor of a text; `name` is that of the file.

    Raises SchemaError with line and column for a text that is none.
    """
    return _Parser(text, name).file()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._tokens = Tokens(text[: MAX_TEXT + 1])
        if len(text) > MAX_TEXT:
            raise self._tokens.error(f"the text has more than {MAX_TEXT} characters:")
        self._made = pb.FileDescriptorProto(name=name)
        self._proto3 = False
        self._edition = False

    # -- files -------------------------------------------------------------------------------------

    def file(self) -> pb.FileDescriptorProto:
        tokens, made = self._tokens, self._made
        if tokens.sees("syntax", "edition"):
            self._syntax(tokens.next().text)
        while tokens.now.kind is not Kind.END:
            if tokens.takes(";"):
                continue
            if tokens.sees("import"):
                self._import()
            elif tokens.takes("package"):
                made.package = tokens.full_name()
                tokens.expect(";")
            elif tokens.takes("option"):
                statement(tokens, made.options)
            elif tokens.takes("extend"):
                self._extend(made.extension, made.message_type, 0)
            elif tokens.takes("service"):
                parse_service(tokens, made.service.add())
            else:
                self._definition(made.message_type, made.enum_type, 0)
        return made

    def _definition(self, messages: object, enums: object, depth: int) -> None:
        tokens = self._tokens
        if tokens.sees("export", "local") and tokens.peek().kind is Kind.NAME:
            tokens.next()  # since edition 2024: who may use it, which a registry does not ask
        if tokens.takes("message"):
            self._message(messages.add(), depth)  # type: ignore[attr-defined]  # a repeated field
        elif tokens.takes("enum"):
            parse_enum(tokens, enums.add())  # type: ignore[attr-defined]  # a repeated field
        else:
            raise tokens.error("message, enum, import, option, extend or service is expected")

    def _syntax(self, word: str) -> None:
        tokens = self._tokens
        tokens.expect("=")
        at = tokens.now
        said = tokens.unicode_text()
        tokens.expect(";")
        if word == "edition":
            known = f"EDITION_{said}"
            if known not in pb.Edition.keys():  # noqa: SIM118  # no mapping
                raise tokens.error("no edition that this release of protobuf knows:", at)
            self._made.syntax, self._made.edition = "editions", pb.Edition.Value(known)
            self._edition = True
        elif said == "proto3":
            self._made.syntax, self._proto3 = said, True
        elif said != "proto2":
            raise tokens.error('"proto2" or "proto3" is expected', at)

    def _import(self) -> None:
        tokens, made = self._tokens, self._made
        tokens.next()
        if tokens.takes("option"):
            tokens.unicode_text()  # a file of options, which are read over
            tokens.expect(";")
            return
        number = len(made.dependency)
        if tokens.takes("public"):
            made.public_dependency.append(number)
        elif tokens.takes("weak"):
            made.weak_dependency.append(number)
        made.dependency.append(tokens.unicode_text())
        tokens.expect(";")

    # -- messages ----------------------------------------------------------------------------------

    def _message(self, made: pb.DescriptorProto, depth: int) -> None:
        made.name = self._tokens.name()
        self._block(made, depth)

    def _block(self, made: pb.DescriptorProto, depth: int) -> None:
        tokens = self._tokens
        if depth >= MAX_NESTING:
            raise tokens.error(f"messages lie more than {MAX_NESTING} deep in each other:")
        tokens.expect("{")
        while not tokens.takes("}"):
            self._member(made, depth)
        self._add_synthetic_oneofs(made)

    def _member(self, made: pb.DescriptorProto, depth: int) -> None:
        tokens = self._tokens
        if tokens.takes(";"):
            return
        following = tokens.peek()
        if following.kind is Kind.NAME and tokens.sees("message", "enum", "export", "local"):
            self._definition(made.nested_type, made.enum_type, depth + 1)
        elif following.kind is Kind.NAME and tokens.takes("oneof"):
            self._oneof(made, depth)
        elif tokens.takes("option"):
            statement(tokens, made.options)
        elif tokens.takes("extensions"):
            parse_extensions(tokens, made)
        elif tokens.takes("reserved"):
            parse_reserved(tokens, made, MAX_FIELD, exclusive=1)
        elif tokens.takes("extend"):
            self._extend(made.extension, made.nested_type, depth)
        else:
            self._field(made.field.add(), made.nested_type, depth)

    def _add_synthetic_oneofs(self, made: pb.DescriptorProto) -> None:
        """Give each `optional` field of proto3 the oneof of its own that means its presence."""
        taken = {one.name for one in (*made.field, *made.oneof_decl)}
        for field in made.field:
            if field.proto3_optional:
                name = f"_{field.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=name)

    def _oneof(self, made: pb.DescriptorProto, depth: int) -> None:
        tokens, index = self._tokens, len(made.oneof_decl)
        declared = made.oneof_decl.add(name=tokens.name())
        tokens.expect("{")
        while not tokens.takes("}"):
            if tokens.takes("option"):
                statement(tokens, declared.options)
            elif not tokens.takes(";"):
                field = made.field.add(oneof_index=index)
                if tokens.sees(*_LABELS):
                    raise tokens.error("fields of a oneof have no label:")
                self._field(field, made.nested_type, depth)

    def _extend(self, extensions: object, nested: object, depth: int) -> None:
        tokens = self._tokens
        extendee = tokens.full_name()
        tokens.expect("{")
        while not tokens.takes("}"):
            if not tokens.takes(";"):
                field = extensions.add(extendee=extendee)  # type: ignore[attr-defined]  # a repeated field
                self._field(field, nested, depth)

    # -- fields ------------------------------------------------------------------------------------

    def _field(self, made: pb.FieldDescriptorProto, nested: object, depth: int) -> None:
        tokens = self._tokens
        made.label = _FIELD.LABEL_OPTIONAL
        if tokens.sees(*_LABELS) and tokens.peek().text != "=":
            label = tokens.next().text
            made.label = _LABELS[label]
            if self._proto3 and label == "required":
                raise tokens.error("proto3 has no required fields:")
            if self._proto3 and label == "optional" and not made.extendee:
                made.proto3_optional = True
        if tokens.sees("map") and tokens.peek().text == "<":
            self._map(made, nested)
            return
        kind = tokens.full_name()
        if kind == "group" and tokens.now.kind is Kind.NAME and tokens.now.text[0].isupper():
            self._group(made, nested, depth)
            return
        self._name_and_number(made)
        if kind in SCALARS:
            made.type = SCALARS[kind]
        else:
            made.type_name = kind
        self._field_options(made, kind)
        tokens.expect(";")

    def _name_and_number(self, made: pb.FieldDescriptorProto) -> None:
        made.name = self._tokens.name()
        made.json_name = json_name(made.name)
        self._tokens.expect("=")
        made.number = self._tokens.integer(1, MAX_FIELD)

    def _map(self, made: pb.FieldDescriptorProto, nested: object) -> None:
        """Take a map, which is a list of entries of a message that nobody sees."""
        tokens = self._tokens
        if made.label != _FIELD.LABEL_OPTIONAL or made.proto3_optional or made.extendee:
            raise tokens.error("a map has no label, and is no extension:")
        tokens.next()
        tokens.expect("<")
        key = tokens.full_name()
        tokens.expect(",")
        value = tokens.full_name()
        tokens.expect(">")
        self._name_and_number(made)
        entry = nested.add(name=entry_name(made.name))  # type: ignore[attr-defined]  # a repeated field
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            field = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            field.json_name = name
            if kind in SCALARS:
                field.type = SCALARS[kind]
            else:
                field.type_name = kind
        made.label, made.type, made.type_name = (
            _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE, entry.name
        )  # fmt: skip
        self._field_options(made, "map")
        tokens.expect(";")

    def _group(self, made: pb.FieldDescriptorProto, nested: object, depth: int) -> None:
        """Take a group: a message and a field of its type, which is written otherwise."""
        tokens = self._tokens
        if self._proto3 or self._edition:
            raise tokens.error("groups are of proto2 alone:")
        self._name_and_number(made)
        message = nested.add(name=made.name)  # type: ignore[attr-defined]  # a repeated field
        made.type, made.type_name = _FIELD.TYPE_GROUP, made.name
        made.name = made.name.lower()
        made.json_name = json_name(made.name)
        self._field_options(made, "group")
        self._block(message, depth + 1)

    def _field_options(self, made: pb.FieldDescriptorProto, kind: str) -> None:
        tokens = self._tokens
        if not tokens.takes("["):
            return
        while True:
            if tokens.sees("default", "json_name") and tokens.peek().text == "=":
                word = tokens.next().text
                tokens.expect("=")
                if word == "json_name":
                    made.json_name = tokens.unicode_text()
                else:
                    made.default_value = self._default(kind)
            else:
                one_option(tokens, made.options)
            if not tokens.takes(","):
                break
        tokens.expect("]")

    def _default(self, kind: str) -> str:
        tokens = self._tokens
        if kind in ("float", "double"):
            return float_text(number_of(tokens))
        if kind == "bool":
            return "true" if boolean(tokens) else "false"
        if kind == "string":
            return tokens.unicode_text()
        if kind == "bytes":
            return escaped(tokens.raw_text())
        if kind in SCALARS:
            return str(tokens.integer(*_WHOLE.get(kind, _INT64)))
        return tokens.name()


def json_name(name: str) -> str:
    """Return the name of a field in JSON: `order_id` gives `orderId`."""
    first, *rest = name.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in rest)


def entry_name(name: str) -> str:
    """Return the name of the message of a map's entries: `my_map` gives `MyMapEntry`."""
    return "".join(one[:1].upper() + one[1:] for one in name.split("_")) + "Entry"
