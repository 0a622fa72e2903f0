"""Bytes of messages in the shapes that cost a decoder most: floods of the smallest elements, of
tags, of wide texts.

Made from the plan of a message, so that no API and no version is left out.

>>> from parley.messages import MetadataResponse
>>> sorted(shapes(MetadataResponse, 12, 1_000))[0]
'brokers: empty'
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from parley.messages import Message
from parley.messages.codec import codec_for
from parley.messages.plan import FIXED_CODES, FIXED_SIZES, Step, StructPlan

WIDE_TEXT = ("\N{GRINNING FACE}" + "a" * 120).encode()
"""One character of four bytes makes all others four bytes wide."""


def shapes(message: type[Message], version: int, size_bytes: int) -> dict[str, bytes]:
    """Return bodies of about `size_bytes` that decode, by what they are a flood of.

    For each array: elements as small as they can be, elements with the largest numbers, elements
    whose texts are wide, and for arrays in arrays outer elements with one inner one; for structs
    with tagged fields: unknown tags.
    """
    plan = codec_for(message, version).reading_plan
    made: dict[str, bytes] = {}
    for path in _paths(plan, ()):
        where = ".".join(step.name for step in path)
        for style in ("empty", "large", "wide"):
            made[f"{where}: {style}"] = _flooded(plan, path, style, size_bytes)
    if plan.flexible:
        made["tags"] = _struct(plan, None, "empty")[:-1] + _tags(size_bytes)
    return made


def _paths(plan: StructPlan, outer: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for step in plan.steps:
        if step.is_array:
            yield (*outer, step)
        if step.struct is not None and step.is_array:
            yield from _paths(step.struct, (*outer, step))


def _flooded(plan: StructPlan, path: tuple[Step, ...], style: str, size_bytes: int) -> bytes:
    """Return a message in which the array at a path is as long as there is room for, in
    outer ones of one element.
    """
    step = path[-1]
    element = _element(step, style)
    count = max(1, size_bytes // len(element))
    body = _count(step, count) + element * count
    for outer in range(len(path) - 2, -1, -1):
        struct_of = path[outer].struct
        assert struct_of is not None
        body = _count(path[outer], 1) + _struct(struct_of, (path[outer + 1], body), style)
    return _struct(plan, (path[0], body), "empty")


def nested(message: type[Message], version: int, size_bytes: int) -> dict[str, bytes]:
    """Return bodies with many outer elements that each have one inner one, and
    inner lists that all differ.
    """
    plan = codec_for(message, version).reading_plan
    made: dict[str, bytes] = {}
    for path in _paths(plan, ()):
        if len(path) < 2:
            continue
        inner, outer = path[-1], path[-2]
        assert outer.struct is not None
        elements, size, number = [], 0, 0
        while size < size_bytes:
            number += 1
            one = _count(inner, 1) + (_numbered(inner, number) or _element(inner, "large"))
            elements.append(_struct(outer.struct, (inner, one), "empty"))
            size += len(elements[-1])
        body = _count(outer, len(elements)) + b"".join(elements)
        for at in range(len(path) - 3, -1, -1):
            struct_of = path[at].struct
            assert struct_of is not None
            body = _count(path[at], 1) + _struct(struct_of, (path[at + 1], body), "empty")
        made[".".join(step.name for step in path) + ": one each"] = _struct(
            plan, (path[0], body), "empty"
        )
    return made


def _numbered(step: Step, number: int) -> bytes:
    code = FIXED_CODES.get(step.kind)
    return struct.pack(f">{code}", number + 1_000) if code in ("i", "q") else b""


def _element(step: Step, style: str) -> bytes:
    if step.struct is not None:
        return _struct(step.struct, None, style)
    code = FIXED_CODES.get(step.kind)
    if code is not None:
        return (b"\x01" if step.kind == "bool" else b"\x6f") * FIXED_SIZES[code]
    return _sized(step, WIDE_TEXT if style == "wide" and step.kind == "string" else b"")


def _struct(plan: StructPlan, given: tuple[Step, bytes] | None, style: str) -> bytes:
    parts = []
    for step in plan.steps:
        if given is not None and step is given[0]:
            parts.append(given[1])
        else:
            parts.append(_field(step, style))
    return b"".join(parts) + (b"\0" if plan.flexible else b"")


def _field(step: Step, style: str) -> bytes:
    code = step.code
    if code is not None:
        filler = b"\0" if style == "empty" or step.kind == "bool" else b"\x6f"
        return filler * FIXED_SIZES[code]
    if step.is_array:
        return _count(step, 0)
    if step.struct is not None:
        return (b"\x01" if step.nullable else b"") + _struct(step.struct, None, style)
    if step.kind == "string":
        return _sized(step, {"empty": b"", "large": b"ab", "wide": WIDE_TEXT}[style])
    return _sized(step, b"")


def _sized(step: Step, content: bytes) -> bytes:
    if step.compact:
        return _varint(len(content) + 1) + content
    return struct.pack(">h" if step.kind == "string" else ">i", len(content)) + content


def _count(step: Step, count: int) -> bytes:
    return _varint(count + 1) if step.compact else struct.pack(">i", count)


def _tags(size_bytes: int) -> bytes:
    first = 10_000  # no tag that is defined
    count = max(1, size_bytes // 4)
    tags = b"".join(_varint(tag) + b"\0" for tag in range(first, first + count))
    return _varint(count) + tags


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
