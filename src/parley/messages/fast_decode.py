"""Generates one flat Python function that decodes one message in one version.

Fields of fixed size that follow each other, and the length that follows them, are read by one
`struct` call. Bounds: `struct` and indexing refuse to read beyond the input by themselves; every
slice and every count is compared with the end first, because slicing would cut silently.

Names in the generated code: `b` the input, `e` its end, `p` the position, `o…` objects, `n…`
lengths and counts, `q` the end of what is being taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, unpack_from
from typing import Any

from parley.messages.classes import Message, MessageStruct
from parley.messages.plan import FIXED_CODES, FIXED_SIZES, Step, StructPlan
from parley.messages.source import Source
from parley.schema import Field, Fresh
from parley.wire import decode_unsigned_varint

_SMALL_ARRAY = 17
"""Arrays of numbers shorter than this have a prepared unpacker: replica lists are that short."""


class Malformed(Exception):
    """The compiled code met bytes that no message has; the reference decoder then says which."""


def read_long_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the varint whose first byte, already read, lies before `position`, and where it ends."""
    return decode_unsigned_varint(data, position - 1)


def _small_unpackers(code: str) -> tuple[Any, ...]:
    return tuple(Struct(f">{count}{code}").unpack_from for count in range(_SMALL_ARRAY))


def generate_decoder(message: type[Message], version: int, plan: StructPlan) -> Any:
    """Return a function `(data, position) -> (message, position after it)`.

    It raises Malformed, RemoteProtocolError, struct.error, IndexError or UnicodeDecodeError for
    bytes that are no such message.
    """
    return decoder_source(message, plan).function("decode", f"decode {message.__name__} v{version}")


def decoder_source(message: type[Message], plan: StructPlan) -> Source:
    """Return the source of a decoder, for reading it in a debugger or a test."""
    names = {"new": object.__new__, "unpack_from": unpack_from, "Malformed": Malformed, "varint": read_long_varint}
    writer = _Decoder(message, Source("decode(b, p)", names))
    writer.source.line("e = len(b)")
    writer.struct(plan, message, "o0")
    writer.source.line("return o0, p")
    return writer.source


class _Decoder:
    def __init__(self, message: type[Message], source: Source) -> None:
        self._message = message
        self.source = source

    def struct(self, plan: StructPlan, made: type[MessageStruct], target: str) -> None:
        """Emit the reading of one struct into a new object named `target`."""
        source = self.source
        source.line(f"{target} = new({source.constant('C', made, made)})")
        self._defaults([*plan.absent, *(step.field for step in plan.tagged)], target)
        pending: list[Step] = []
        for step in plan.steps:
            if step.code is not None:
                pending.append(step)
                continue
            length, code = source.fresh("n"), _length_code(step)
            self._run(pending, target, length if code else None, code)
            pending = []
            self._variable(step, f"{target}.{step.name}", length)
        if plan.flexible:
            count = source.fresh("n")
            self._run(pending, target, count, "B")
            self._tagged(plan, target, count)
        else:
            self._run(pending, target, None, "")

    def _defaults(self, fields: Sequence[Field], target: str) -> None:
        """Emit the defaults of fields that are not (or may not be) sent; fresh structs stay unset slots."""
        by_default: dict[str, list[str]] = {"None": [f"{target}._unknown"]}
        for field in fields:
            if field.default is Fresh.LIST:
                self.source.line(f"{target}.{field.name} = []")
            elif field.default is not Fresh.STRUCT:
                by_default.setdefault(repr(field.default), []).append(f"{target}.{field.name}")
        for default, slots in by_default.items():
            self.source.line(f"{' = '.join(slots)} = {default}")

    def _run(self, steps: Sequence[Step], target: str, length: str | None, length_code: str) -> None:
        """Emit the reading of fixed fields and, with a `length`, of the length that follows them."""
        slots = [f"{target}.{step.name}" for step in steps]
        codes = [step.code or "" for step in steps]
        if length is not None:
            slots.append(length)
            codes.append(length_code)
        if not slots:
            return
        source = self.source
        size = sum(FIXED_SIZES[code] for code in codes)
        if codes == ["B"]:
            source.line(f"{slots[0]} = b[p]")
        else:
            layout = ">" + "".join(codes)
            unpack = source.constant("U", layout, Struct(layout).unpack_from)
            source.line(f"{', '.join(slots)}{',' if len(slots) == 1 else ''} = {unpack}(b, p)")
        source.line(f"p += {size}")

    def _variable(self, step: Step, slot: str, length: str) -> None:
        """Emit the reading of a string, bytes, records, array or nullable struct, its length read already."""
        if step.struct is not None and not step.is_array:
            self._single_struct(step, step.struct, slot, length)
            return
        source = self.source
        if step.compact:
            self._finish_varint(length)
            source.line(f"{length} -= 1")
        with source.block(f"if {length} < 0:"):
            if step.nullable:
                if not step.compact:
                    self._refuse(f"{length} != -1")
                source.line(f"{slot} = None")
            else:
                source.line("raise Malformed")
        with source.block("else:"):
            if step.is_array:
                self._array(step, slot, length)
            else:
                self._sequence(step.kind, step.compact, slot, length)

    def _finish_varint(self, name: str) -> None:
        """Emit the rest of a varint whose first byte is in `name`."""
        with self.source.block(f"if {name} > 127:"):
            self.source.line(f"{name}, p = varint(b, p)")

    def _refuse(self, condition: str) -> None:
        with self.source.block(f"if {condition}:"):
            self.source.line("raise Malformed")

    def _sequence(self, kind: str, compact: bool, slot: str, length: str) -> None:
        """Emit the taking of `length` bytes as text, bytes or a view."""
        source = self.source
        if kind == "string" and compact:
            self._refuse(f"{length} > 32767")
        source.line(f"q = p + {length}")
        self._refuse("q > e")
        taken = {"string": "str(b[p:q], 'utf-8')", "bytes": "bytes(b[p:q])", "records": "b[p:q]"}[kind]
        source.line(f"{slot} = {taken}")
        source.line("p = q")

    def _array(self, step: Step, slot: str, count: str) -> None:
        source = self.source
        code = FIXED_CODES.get(step.kind)
        if code is not None and step.kind != "uuid":
            source.line(f"q = p + {count} * {FIXED_SIZES[code]}")
            self._refuse("q > e")
            small = source.constant("A", code, _small_unpackers(code))
            with source.block(f"if {count} < {_SMALL_ARRAY}:"):
                source.line(f"{slot} = list({small}[{count}](b, p))")
            with source.block("else:"):
                source.line(f"{slot} = list(unpack_from(f'>{{{count}}}{code}', b, p))")
            source.line("p = q")
            return
        self._refuse(f"{count} * {step.least_element_bytes} > e - p")
        values, item = source.fresh("v"), source.fresh("o")
        source.line(f"{values} = {slot} = []")
        with source.block(f"for {source.fresh('i')} in range({count}):"):
            if step.struct is not None:
                self.struct(step.struct, self._message.STRUCTS[step.struct.name], item)
            elif step.kind == "uuid":
                source.line(f"{item} = bytes(b[p:p + 16])")
                source.line("p += 16")
            else:
                self._element(step, item)
            source.line(f"{values}.append({item})")

    def _element(self, step: Step, item: str) -> None:
        """Emit the reading of a string or bytes inside an array, where null is not allowed."""
        length = self.source.fresh("n")
        self._run([], item, length, _length_code(step, element=True))
        if step.compact:
            self._finish_varint(length)
            self.source.line(f"{length} -= 1")
        self._refuse(f"{length} < 0")
        self._sequence(step.kind, step.compact, item, length)

    def _single_struct(self, step: Step, plan: StructPlan, slot: str, marker: str) -> None:
        made = self._message.STRUCTS[plan.name]
        inner = self.source.fresh("o")
        if not step.nullable:
            self.struct(plan, made, inner)
            self.source.line(f"{slot} = {inner}")
            return
        with self.source.block(f"if {marker} < 0:"):
            self.source.line(f"{slot} = None")
        with self.source.block("else:"):
            self.struct(plan, made, inner)
            self.source.line(f"{slot} = {inner}")

    def _tagged(self, plan: StructPlan, target: str, count: str) -> None:
        """Emit the reading of the tagged section; `count` holds its first byte."""
        source = self.source
        last, tag, end, unknown = (source.fresh(prefix) for prefix in ("last", "t", "z", "u"))
        with source.block(f"if {count}:"):
            self._finish_varint(count)
            source.line(f"{last} = -1")
            source.line(f"{unknown} = {{}}")
            with source.block(f"for {source.fresh('i')} in range({count}):"):
                for name in (tag, end):
                    source.line(f"{name} = b[p]")
                    source.line("p += 1")
                    self._finish_varint(name)
                self._refuse(f"{tag} <= {last}")
                source.line(f"{last} = {tag}")
                source.line(f"{end} += p")
                self._refuse(f"{end} > e")
                word = "if"
                for step in plan.tagged:
                    with source.block(f"{word} {tag} == {step.field.tag}:"):
                        self._tagged_value(step, f"{target}.{step.name}")
                    word = "elif"
                if plan.tagged:
                    with source.block("else:"):
                        source.line(f"{unknown}[{tag}] = bytes(b[p:{end}])")
                        source.line(f"p = {end}")
                    self._refuse(f"p != {end}")
                else:
                    source.line(f"{unknown}[{tag}] = bytes(b[p:{end}])")
                    source.line(f"p = {end}")
            with source.block(f"if {unknown}:"):
                source.line(f"{target}._unknown = {unknown}")

    def _tagged_value(self, step: Step, slot: str) -> None:
        if step.code is not None:
            layout = f">{step.code}"
            unpack = self.source.constant("U", layout, Struct(layout).unpack_from)
            self.source.line(f"{slot}, = {unpack}(b, p)")
            self.source.line(f"p += {FIXED_SIZES[step.code]}")
            return
        length = self.source.fresh("n")
        self._run([], slot, length if _length_code(step) else None, _length_code(step))
        self._variable(step, slot, length)


def _length_code(step: Step, *, element: bool = False) -> str:
    """Return the struct code of what leads a field: a length, a count or a marker ("" for nothing)."""
    if step.struct is not None and not step.is_array:
        return "b" if step.nullable else ""
    if step.compact:
        return "B"
    if step.kind == "string" and (element or not step.is_array):
        return "h"
    return "i"
