"""What stands beside fields in .proto texts: enums, services, and ranges of numbers."""

from __future__ import annotations

from google.protobuf import descriptor_pb2 as pb

from parley.serdes.protobuf.parse_options import one_option, statement
from parley.serdes.protobuf.tokens import Kind, Tokens

MAX_FIELD = 2**29 - 1
INT32 = (-(2**31), 2**31 - 1)


def parse_enum(tokens: Tokens, made: pb.EnumDescriptorProto) -> None:
    """Take the name of an enum and its block."""
    made.name = tokens.name()
    tokens.expect("{")
    while not tokens.takes("}"):
        is_value = tokens.peek().text == "="
        if not is_value and tokens.takes("option"):
            statement(tokens, made.options)
        elif not is_value and tokens.takes("reserved"):
            parse_reserved(tokens, made, INT32[1], exclusive=0)
        elif not tokens.takes(";"):
            _enum_value(tokens, made.value.add())


def _enum_value(tokens: Tokens, made: pb.EnumValueDescriptorProto) -> None:
    made.name = tokens.name()
    tokens.expect("=")
    made.number = tokens.integer(*INT32)
    if tokens.takes("["):
        one_option(tokens, made.options)
        while tokens.takes(","):
            one_option(tokens, made.options)
        tokens.expect("]")
    tokens.expect(";")


def parse_extensions(tokens: Tokens, made: pb.DescriptorProto) -> None:
    """Take the ranges behind the word `extensions`."""
    while True:
        first, last = _range(tokens, 1, MAX_FIELD)
        made.extension_range.add(start=first, end=last + 1)
        if not tokens.takes(","):
            break
    if tokens.takes("["):
        options = pb.ExtensionRangeOptions()
        one_option(tokens, options)
        while tokens.takes(","):
            one_option(tokens, options)
        tokens.expect("]")
    tokens.expect(";")


def parse_reserved(
    tokens: Tokens, made: pb.DescriptorProto | pb.EnumDescriptorProto, high: int, *, exclusive: int
) -> None:
    """Take the ranges or names behind the word `reserved`; `exclusive` is 1 where descriptors have
    the number after the last one.
    """
    while True:
        if tokens.now.kind is Kind.TEXT:
            made.reserved_name.append(tokens.unicode_text())
        elif tokens.now.kind is Kind.NAME:
            made.reserved_name.append(tokens.name())
        else:
            first, last = _range(tokens, 1 if exclusive else INT32[0], high)
            made.reserved_range.add(start=first, end=last + exclusive)
        if not tokens.takes(","):
            break
    tokens.expect(";")


def _range(tokens: Tokens, low: int, high: int) -> tuple[int, int]:
    first = tokens.integer(low, high)
    if not tokens.takes("to"):
        return first, first
    return first, high if tokens.takes("max") else tokens.integer(first, high)


def parse_service(tokens: Tokens, made: pb.ServiceDescriptorProto) -> None:
    """Take the name of a service and its block."""
    made.name = tokens.name()
    tokens.expect("{")
    while not tokens.takes("}"):
        if tokens.takes("option"):
            statement(tokens, made.options)
        elif not tokens.takes(";"):
            _method(tokens, made.method.add())


def _method(tokens: Tokens, made: pb.MethodDescriptorProto) -> None:
    tokens.expect("rpc")
    made.name = tokens.name()
    made.input_type, client = _streamed(tokens)
    tokens.expect("returns")
    made.output_type, server = _streamed(tokens)
    if client:
        made.client_streaming = True
    if server:
        made.server_streaming = True
    if tokens.takes(";"):
        return
    tokens.expect("{")
    made.options.SetInParent()
    while not tokens.takes("}"):
        if tokens.takes("option"):
            statement(tokens, made.options)
        else:
            tokens.expect(";")


def _streamed(tokens: Tokens) -> tuple[str, bool]:
    tokens.expect("(")
    streams = tokens.sees("stream") and tokens.peek().text != ")"
    if streams:
        tokens.next()
    kind = tokens.full_name()
    tokens.expect(")")
    return kind, streams
