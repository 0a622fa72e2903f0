"""Options in .proto texts.

Those that `descriptor.proto` knows are set; those that a text defines itself, in parentheses, are
read over: nothing in them says how messages are written.
"""

from __future__ import annotations

import math

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from parley.serdes.protobuf.tokens import Kind, Token, Tokens, whole_number

_OPEN, _CLOSE = ("{", "[", "<"), ("}", "]", ">")
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}


def statement(tokens: Tokens, options: Message) -> None:
    """Take what follows the word `option`: a name, its value, and a semicolon."""
    one_option(tokens, options)
    tokens.expect(";")


def one_option(tokens: Tokens, options: Message) -> None:
    """Take the name of an option and its value."""
    path = _option_name(tokens)
    tokens.expect("=")
    if path is None:
        skip_value(tokens)
    else:
        _set(tokens, options, path)


def _option_name(tokens: Tokens) -> list[str] | None:
    """Return the parts of a name, None where one of them is of the text's own."""
    path: list[str] = []
    own = False
    while True:
        if tokens.takes("("):
            tokens.full_name()
            tokens.expect(")")
            own = True
        else:
            path.append(tokens.name())
        if not tokens.takes("."):
            return None if own else path


def skip_value(tokens: Tokens) -> str:
    """Take a value, and return its text."""
    first = tokens.now
    depth = 0
    while True:
        token = tokens.next()
        if token.kind is Kind.END:
            raise tokens.error("a value is expected")
        if token.kind is Kind.SYMBOL:
            if token.text in _OPEN:
                depth += 1
            elif token.text in _CLOSE:
                depth -= 1
                if depth < 0:
                    raise tokens.error("a value is expected", token)
            elif depth == 0 and token.text not in "-+":
                raise tokens.error("a value is expected", token)
        more = token.kind is Kind.SYMBOL and token.text in "-+"
        if (
            depth == 0
            and not more
            and not (token.kind is Kind.TEXT and tokens.now.kind is Kind.TEXT)
        ):
            return tokens.text[first.start : token.end]


def _set(tokens: Tokens, options: Message, path: list[str]) -> None:
    at = tokens.now
    holder = options
    for name in path[:-1]:
        field = holder.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.message_type is None or field.is_repeated:
            raise tokens.error(f"there is no option {'.'.join(path)}:", at)
        holder = getattr(holder, name)
    field = holder.DESCRIPTOR.fields_by_name.get(path[-1])
    if field is None:
        raise tokens.error(f"there is no option {'.'.join(path)}:", at)
    if field.message_type is not None:
        text = skip_value(tokens)
        try:
            text_format.Merge(
                f"{field.name} {text}" if text[0] == "{" else f"{field.name}: {text}", holder
            )
        except (text_format.ParseError, UnicodeError) as error:
            raise tokens.error(
                f"the option {'.'.join(path)} has a wrong value ({error}):", at
            ) from None
        return
    value = _scalar(tokens, field)
    if field.is_repeated:
        getattr(holder, field.name).append(value)
    else:
        setattr(holder, field.name, value)


def _scalar(tokens: Tokens, field: FieldDescriptor) -> object:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return boolean(tokens)
    if field.type == FieldDescriptor.TYPE_STRING:
        return tokens.unicode_text()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return tokens.raw_text()
    if field.type == FieldDescriptor.TYPE_ENUM:
        at = tokens.now
        number = field.enum_type.values_by_name.get(tokens.name())
        if number is None:
            raise tokens.error(f"no value of {field.enum_type.name} is this:", at)
        return number.number
    if field.type in _INTEGERS:
        return tokens.integer(*_INTEGERS[field.type])
    return number_of(tokens)


def boolean(tokens: Tokens) -> bool:
    """Take `true` or `false`."""
    if tokens.sees("true", "false"):
        return tokens.next().text == "true"
    raise tokens.error("true or false is expected")


def number_of(tokens: Tokens) -> float:
    """Take a number, `inf` or `nan`."""
    sign = -1.0 if tokens.takes("-") else 1.0
    if tokens.sees("inf", "nan"):
        return sign * float(tokens.next().text)
    at: Token = tokens.now
    if at.kind is Kind.INTEGER:
        return sign * float(whole_number(tokens, tokens.next()))
    if at.kind is Kind.FLOAT:
        return sign * float(tokens.next().text)
    raise tokens.error("a number is expected")


def float_text(value: float) -> str:
    """Return a number as descriptors write it."""
    if math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    found = repr(value)
    return found[:-2] if found.endswith(".0") else found


def escaped(raw: bytes) -> str:
    """Return bytes as descriptors write a default: ASCII, with C's escapes."""
    return "".join(_escape(one) for one in raw)


def _escape(byte: int) -> str:
    simple = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}.get(byte)
    if simple is not None:
        return simple
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
