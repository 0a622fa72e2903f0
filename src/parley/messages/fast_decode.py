"""Generates one flat Python function that decodes one message in one version.

Fields of fixed size that follow each other, and the length that follows them, are read by one
`struct` call. Bounds: `struct` and indexing refuse to read beyond the input by themselves; every
slice and every count is compared with the end first, because slicing would cut silently.

There are two of each: the quick one, and the careful one for large inputs, which keeps account of
the memory that its objects take (`costs.py`) and shares equal short lists of numbers.

Names in the generated code: `b` the input, `e` its end, `p` the position, `o…` objects, `n…`
lengths and counts, `q` the end of what is being taken; in careful code `m` the memory that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, unpack_from
from typing import TypeVar

from parley.messages.classes import Message, MessageStruct
from parley.messages.costs import DICT, LIST, NUMBER, SHARED, SLOT, TAG, WIDE_CHAR, element_cost
from parley.messages.plan import FIXED_CODES, FIXED_SIZES, Step, StructPlan
from parley.messages.source import Source
from parley.schema import Field, Fresh
from parley.wire import decode_unsigned_varint

M = TypeVar("M", bound=Message)

_EMPTY = {"string": "''", "bytes": "b''"}
_SMALL_ARRAY = 17
"""Arrays of numbers shorter than this have a prepared unpacker: replica lists are that short."""


_PIECE = 16 * 1024


class TooMuch(Exception):
    """The message would take more memory than careful code may use."""


class Malformed(Exception):
    """The compiled code met bytes that no message has; the reference decoder then says which."""


def read_long_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the varint whose first byte, already read, is before `position`, and its end."""
    return decode_unsigned_varint(data, position - 1)


def read_numbers(
    data: bytes | memoryview, position: int, count: int, code: str
) -> list[int | float | bool]:
    """Return many numbers, in pieces: other threads wait while one piece is unpacked."""
    found: list[int | float | bool] = []
    for begin in range(0, count, _PIECE):
        piece = min(_PIECE, count - begin)
        found += unpack_from(f">{piece}{code}", data, position + begin * FIXED_SIZES[code])
    return found


def _small_unpackers(code: str) -> tuple[Callable[..., tuple[object, ...]], ...]:
    return tuple(Struct(f">{count}{code}").unpack_from for count in range(_SMALL_ARRAY))


def generate_decoder(
    message: type[M], version: int, plan: StructPlan, *, careful: bool = False
) -> Callable[..., tuple[M, int]]:
    """Return a function `(data, position) -> (message, position after it)`.

    The careful one takes the memory that it may use as a third argument, and raises TooMuch beyond
    it. Both raise Malformed, RemoteProtocolError, struct.error, IndexError or UnicodeDecodeError
    for bytes that are no such message.
    """
    source = decoder_source(message, plan, careful=careful)
    made: Callable[..., tuple[M, int]] = source.function(
        "decode", f"decode {message.__name__} v{version}"
    )
    return made


def decoder_source(message: type[Message], plan: StructPlan, *, careful: bool = False) -> Source:
    """Return the source of a decoder, for reading it in a debugger or a test."""
    names = {
        "new": object.__new__,
        "unpack_from": unpack_from,
        "Malformed": Malformed,
        "varint": read_long_varint,
    }
    if careful:
        names |= {"TooMuch": TooMuch, "numbers": read_numbers}
    writer = _Decoder(
        message, Source("decode(b, p, m)" if careful else "decode(b, p)", names), careful
    )
    if careful:
        for code in {FIXED_CODES.get(step.kind) for step in plan.walk() if step.is_array} - {
            None,
            "16s",
        }:
            writer.source.line(f"{_table(str(code))} = {{}}")
    writer.source.line("e = len(b)")
    writer.struct(plan, message, "o0")
    writer.source.line("return o0, p")
    return writer.source


class _Decoder:
    def __init__(self, message: type[Message], source: Source, careful: bool) -> None:
        self._message = message
        self.source = source
        self._careful = careful

    def _charge(self, cost: str) -> None:
        """Emit the taking of memory, in careful code."""
        if self._careful:
            self.source.line(f"m -= {cost}")
            with self.source.block("if m < 0:"):
                self.source.line("raise TooMuch")

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
        """Emit defaults of fields that are not, or may not be, sent; structs stay unset slots."""
        by_default: dict[str, list[str]] = {"None": [f"{target}._unknown"]}
        for field in fields:
            if field.default is Fresh.LIST:
                self.source.line(f"{target}.{field.name} = []")
            elif field.default is not Fresh.STRUCT:
                by_default.setdefault(repr(field.default), []).append(f"{target}.{field.name}")
        for default, slots in by_default.items():
            self.source.line(f"{' = '.join(slots)} = {default}")

    def _run(
        self, steps: Sequence[Step], target: str, length: str | None, length_code: str
    ) -> None:
        """Emit the reading of fixed fields and, with `length`, of the length behind them."""
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
        """Emit the reading of a string, bytes, records, array, nullable struct after its length."""
        if step.struct is not None and not step.is_array:
            self._single_struct(step, step.struct, slot, length)
            return
        source = self.source
        if step.compact:
            self._finish_varint(length)
            source.line(f"{length} -= 1")
        empty = self._empty(step)
        with source.block(f"if {length} {'>= 0' if empty is None else '> 0'}:"):
            if step.is_array:
                self._array(step, slot, length)
            else:
                self._sequence(step.kind, step.compact, slot, length)
        # a byte or two may be all that an element has: then this is what its time goes into
        if empty is not None:
            with source.block(f"elif {length} == 0:"):
                source.line(f"{slot} = {empty}")
        with source.block("else:"):
            if step.nullable:
                if not step.compact:
                    self._refuse(f"{length} != -1")
                source.line(f"{slot} = None")
            else:
                source.line("raise Malformed")

    def _empty(self, step: Step) -> str | None:
        """Return an empty field's value, None where that needs the same code as any other."""
        if step.is_array:  # careful code shares the lists of numbers, empty ones too
            return None if self._careful and step.kind in FIXED_CODES else "[]"
        return _EMPTY.get(step.kind)

    def _finish_varint(self, name: str) -> None:
        """Emit the rest of a varint whose first byte is in `name`."""
        with self.source.block(f"if {name} > 127:"):
            self.source.line(f"{name}, p = varint(b, p)")

    def _finish_short_varint(self, name: str) -> None:
        """The same, without a call for two and three bytes: peers may send many tags."""
        source = self.source
        with source.block(f"if {name} > 127:"):
            source.line("q = b[p]")
            with source.block("if 0 < q < 128:"):
                source.line(f"{name} += (q << 7) - 128")
                source.line("p += 1")
            with source.block("elif q > 127 and 0 < b[p + 1] < 128:"):
                source.line(f"{name} += (q << 7) + (b[p + 1] << 14) - 16512")
                source.line("p += 2")
            with source.block("else:"):
                source.line(f"{name}, p = varint(b, p)")

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
        taken = {"string": "str(b[p:q], 'utf-8')", "bytes": "bytes(b[p:q])", "records": "b[p:q]"}[
            kind
        ]
        source.line(f"{slot} = {taken}")
        if kind == "string":
            self._charge(f"{length} if {slot}.isascii() else {WIDE_CHAR} * {length}")
        elif kind == "bytes":
            self._charge(length)
        source.line("p = q")

    def _array(self, step: Step, slot: str, count: str) -> None:
        source = self.source
        code = FIXED_CODES.get(step.kind)
        if code is not None and step.kind != "uuid":
            source.line(f"q = p + {count} * {FIXED_SIZES[code]}")
            self._refuse("q > e")
            small = source.constant("A", code, _small_unpackers(code))
            with source.block(f"if {count} < {_SMALL_ARRAY}:"):
                if self._careful:
                    self._shared(slot, count, small, code)
                else:
                    source.line(f"{slot} = list({small}[{count}](b, p))")
            with source.block("else:"):
                self._charge(f"{LIST} + {count} * {NUMBER + SLOT}")
                wide = (
                    "numbers(b, p, {0}, '{1}')"
                    if self._careful
                    else "list(unpack_from(f'>{{{0}}}{1}', b, p))"
                )
                source.line(f"{slot} = {wide.format(count, code)}")
            source.line("p = q")
            return
        self._refuse(f"{count} * {step.least_element_bytes} > e - p")
        self._charge(f"{count} * {element_cost(step) + SLOT}")
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

    def _shared(self, slot: str, count: str, small: str, code: str) -> None:
        """Emit the taking of a short list of numbers: equal ones, as replicas, share a list."""
        source = self.source
        key = source.fresh("k")
        table = _table(code)
        source.line(f"{key} = bytes(b[p:q])")
        source.line(f"{slot} = {table}.get({key})")
        with source.block(f"if {slot} is None:"):
            self._charge(f"{SHARED} + {count} * {NUMBER + SLOT}")
            source.line(f"{slot} = {table}[{key}] = list({small}[{count}](b, p))")

    def _element(self, step: Step, item: str) -> None:
        """Emit the reading of a string or bytes inside an array, where null is not allowed."""
        length = self.source.fresh("n")
        self._run([], item, length, _length_code(step, element=True))
        if step.compact:
            self._finish_varint(length)
            self.source.line(f"{length} -= 1")
        with self.source.block(f"if {length} > 0:"):
            self._sequence(step.kind, step.compact, item, length)
        with self.source.block("else:"):
            self._refuse(f"{length} < 0")
            self.source.line(f"{item} = {_EMPTY.get(step.kind, 'b[p:p]')}")

    def _single_struct(self, step: Step, plan: StructPlan, slot: str, marker: str) -> None:
        made = self._message.STRUCTS[plan.name]
        inner = self.source.fresh("o")
        if not step.nullable:
            self.struct(plan, made, inner)
            self.source.line(f"{slot} = {inner}")
            return
        with self.source.block(f"if {marker} <= {step.null_marker}:"):
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
            self._refuse(f"{count} * 2 > e - p")
            self._charge(f"{DICT} + {count} * {TAG}")
            source.line(f"{last} = -1")
            source.line(f"{unknown} = {{}}")
            with source.block(f"for {source.fresh('i')} in range({count}):"):
                for name in (tag, end):
                    source.line(f"{name} = b[p]")
                    source.line("p += 1")
                    self._finish_short_varint(name)
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
                        source.line(f"{unknown}[{tag}] = bytes(b[p:{end}]) if p < {end} else b''")
                        source.line(f"p = {end}")
                    self._refuse(f"p != {end}")
                else:
                    source.line(f"{unknown}[{tag}] = bytes(b[p:{end}]) if p < {end} else b''")
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


def _table(code: str) -> str:
    """Return the name of the table of shared lists of one kind of number."""
    return f"shared_{ord(code)}"


def _length_code(step: Step, *, element: bool = False) -> str:
    """Return the struct code of a field's lead: length, count or marker ("" for none)."""
    if step.struct is not None and not step.is_array:
        return "b" if step.nullable else ""
    if step.compact:
        return "B"
    if step.kind == "string" and (element or not step.is_array):
        return "h"
    return "i"
