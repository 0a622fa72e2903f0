"""Message classes: one per message for all versions, made from its schema when first asked for.

A struct inside a message is a class of its own, an attribute of the message's class under Kafka's
name (`FetchRequest.FetchTopic`), however deep it lies. Fields are slots: a misspelt one raises
AttributeError at once. Defaults are Kafka's; lists and structs are fresh for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, dataclass_transform

from parley.errors import nearest_hint
from parley.schema import ApiKey, Field, Fresh, MessageSchema, Struct

Builder: TypeAlias = Callable[..., None]

_SHOWN_BYTES = 32
_SHOWN_ITEMS = 12


# so that type checkers make constructors of the fields in types.pyi
@dataclass_transform(kw_only_default=True)
class MessageStruct:
    """The base of all messages and of the structs in them."""

    __slots__ = ("_unknown",)

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    _FRESH_STRUCTS: ClassVar[dict[str, type[MessageStruct]]] = {}
    _unknown: dict[int, bytes] | None

    @property
    def unknown_tagged_fields(self) -> dict[int, bytes]:
        """Tagged fields without a definition here, by tag: kept and sent on (KIP-482)."""
        if self._unknown is None:
            self._unknown = {}
        return self._unknown

    @unknown_tagged_fields.setter
    def unknown_tagged_fields(self, fields: dict[int, bytes]) -> None:
        self._unknown = fields

    if not TYPE_CHECKING:  # with it, each misspelt field would pass

        def __getattr__(self, name: str) -> object:
            # Reached only for a slot that is not set: decoders leave out structs that were not
            # sent, because making them would cost more than all other fields of a Fetch partition.
            struct = self._FRESH_STRUCTS.get(name)
            if struct is None:
                hint = nearest_hint(name, (field.name for field in self.FIELDS))
                raise AttributeError(f'{type(self).__qualname__} has no field "{name}".{hint}')
            value = struct()
            setattr(self, name, value)
            return value

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS
        ) and ((self._unknown or {}) == (other._unknown or {}))

    def __hash__(self) -> int:
        raise TypeError(f"{type(self).__qualname__} can be changed, so it has no hash")

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={_show(field, getattr(self, field.name))}"
            for field in self._set_fields()
        ]
        if self._unknown:
            shown.append(f"unknown_tagged_fields={self._unknown!r}")
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _set_fields(self) -> Iterator[Field]:
        """Yield the fields that do not hold their default: only those matter in a repr."""
        for field in self.FIELDS:
            if getattr(self, field.name) != default_value(field, self._FRESH_STRUCTS):
                yield field


class Message(MessageStruct):
    """The base of the messages themselves. `API_KEY` is None for headers and data messages."""

    __slots__ = ()

    API_KEY: ClassVar[ApiKey | None] = None
    SCHEMA: ClassVar[MessageSchema]
    STRUCTS: ClassVar[dict[str, type[MessageStruct]]] = {}
    IS_REQUEST: ClassVar[bool] = False


R_co = TypeVar("R_co", bound=Message, covariant=True)


class Request(Message, Generic[R_co]):
    """The base of all requests; each names the response that answers it."""

    __slots__ = ()

    API_KEY: ClassVar[ApiKey]


class Response(Message):
    """The base of all responses."""

    __slots__ = ()

    API_KEY: ClassVar[ApiKey]


_BASES: dict[str, type[Message]] = {"request": Request, "response": Response}


def default_value(field: Field, fresh_structs: dict[str, type[MessageStruct]]) -> object:
    """Return a field's default; lists and structs are new each time."""
    if field.default is Fresh.LIST:
        return []
    if field.default is Fresh.STRUCT:
        return fresh_structs[field.name]()
    return field.default


def make_message_class(schema: MessageSchema, api_key: ApiKey | None, module: str) -> type[Message]:
    """Return the class of a message; `module` is where users find it."""
    structs: dict[str, type[MessageStruct]] = {}
    body = _class_body(schema.root, structs, schema.name, module)
    body |= {
        "API_KEY": api_key,
        "SCHEMA": schema,
        "STRUCTS": structs,
        "IS_REQUEST": schema.kind == "request",
        "__qualname__": schema.name,
        "__doc__": f"Kafka's {schema.name}, versions "
        f"{schema.valid_versions}.\n\n{_field_list(schema.root)}",
        **structs,
    }
    return type(schema.name, (_BASES.get(schema.kind, Message),), body)


def _class_body(
    struct: Struct, structs: dict[str, type[MessageStruct]], owner: str, module: str
) -> dict[str, object]:
    """Return the attributes of a struct's class; inner structs' go into `structs`."""
    fresh: dict[str, type[MessageStruct]] = {}
    for field in struct.fields:
        if field.struct is not None:
            inner = structs.get(field.struct.name)
            if inner is None:
                body = _class_body(field.struct, structs, owner, module)
                body["__qualname__"] = f"{owner}.{field.struct.name}"
                body["__doc__"] = f"A part of {owner}.\n\n{_field_list(field.struct)}"
                inner = structs[field.struct.name] = type(field.struct.name, (MessageStruct,), body)
            if field.default is Fresh.STRUCT:
                fresh[field.name] = inner
    return {
        "__slots__": tuple(field.name for field in struct.fields),
        "__module__": module,
        "__init__": _constructor(struct, fresh, owner),
        "FIELDS": struct.fields,
        "_FRESH_STRUCTS": fresh,
    }


def _field_list(struct: Struct) -> str:
    return "\n".join(
        f"    {field.name}: {'[]' if field.is_array else ''}{field.type} ({field.versions})"
        for field in struct.fields
    )


def _constructor(struct: Struct, fresh: dict[str, type[MessageStruct]], owner: str) -> Builder:
    """Return a compiled `__init__`, a keyword per field: a generic one is far slower."""
    parameters: list[str] = []
    lines: list[str] = []
    names: dict[str, Any] = {}
    for field in struct.fields:
        name = field.name
        names[f"_d_{name}"] = field.default
        parameters.append(f"{name}=_d_{name}")
        if field.default is Fresh.LIST:
            lines.append(f"    self.{name} = [] if {name} is _d_{name} else {name}")
        elif field.default is Fresh.STRUCT:
            names[f"_c_{name}"] = fresh[name]
            lines.append(f"    self.{name} = _c_{name}() if {name} is _d_{name} else {name}")
        else:
            lines.append(f"    self.{name} = {name}")
    parameters.append("unknown_tagged_fields=None")
    lines.append("    self._unknown = unknown_tagged_fields")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(lines)
    exec(compile(source, f"<{owner}.{struct.name} constructor>", "exec"), names)
    made: Builder = names["__init__"]
    return made


def _show(field: Field, value: object) -> str:
    if field.secret and value is not None:
        return "'***'"
    return _show_value(value)


def _show_value(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return repr(bytes(value)) if len(value) <= _SHOWN_BYTES else f"<{len(value)} bytes>"
    if isinstance(value, list):
        shown = [_show_value(item) for item in value[:_SHOWN_ITEMS]]
        if len(value) > _SHOWN_ITEMS:
            shown.append(f"… {len(value) - _SHOWN_ITEMS} more")
        return f"[{', '.join(shown)}]"
    return repr(value)
