"""Generates a flat Python function that encodes one message in one version, as `fast_decode.py`.

Names in the generated code: `w` the write buffer, `out` the block being appended to, `o…` objects,
`v` the value at hand, `n` its length, `g…` the blocks of tagged fields.

The generated code checks only what cannot be left to the operations themselves: `struct` refuses
numbers out of range, `len(None)` fails by itself. Whatever goes wrong, the reference encoder is
run then and names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, pack
from typing import TypeVar

from parley.errors import LocalProtocolError
from parley.messages.classes import Message, MessageStruct
from parley.messages.encode import is_default
from parley.messages.plan import FIXED_CODES, Step, StructPlan
from parley.messages.source import Source
from parley.schema import Field, Fresh
from parley.wire import WriteBuffer, encode_unsigned_varint
from parley.wire.buffer import RawData

M = TypeVar("M", bound=Message)

_SMALL_ARRAY = 17


class Unfit(Exception):
    """The compiled code met a value the version cannot carry; the reference encoder says which."""


def _small_packers(code: str) -> tuple[Callable[..., bytes], ...]:
    """Return packers of a count and that many numbers after it."""
    return tuple(Struct(f">{count}{code}").pack for count in range(_SMALL_ARRAY))


def _write_records(
    buffer: WriteBuffer, value: RawData | Sequence[RawData], compact: bool
) -> bytearray:
    """Write a records field by reference and return the block to append to from now on."""
    if compact:
        buffer.write_compact_bytes(value)
    else:
        buffer.write_bytes(value)
    return buffer.tail


def _write_tags(out: bytearray, fields: dict[int, bytes | bytearray]) -> None:
    out += encode_unsigned_varint(len(fields))
    for tag in sorted(fields):
        data = fields[tag]
        out += encode_unsigned_varint(tag)
        out += encode_unsigned_varint(len(data))
        out += data


def _is_set(field: Field, owner: MessageStruct) -> bool:
    return not is_default(field, getattr(owner, field.name), owner)


def generate_encoder(
    message: type[M], version: int, plan: StructPlan
) -> Callable[[M, WriteBuffer], None]:
    """Return a function `(message, write buffer) -> None`.

    It raises Unfit, LocalProtocolError, struct.error, TypeError, AttributeError or ValueError for a
    message that this version cannot carry; the buffer is then of no more use.
    """
    made: Callable[[M, WriteBuffer], None] = encoder_source(plan).function(
        "encode", f"encode {message.__name__} v{version}"
    )
    return made


def encoder_source(plan: StructPlan) -> Source:
    """Return the source of an encoder, for reading it in a debugger or a test."""
    names = {
        "pack": pack,
        "Unfit": Unfit,
        "varint": encode_unsigned_varint,
        "write_records": _write_records,
        "write_tags": _write_tags,
        "is_set": _is_set,
    }
    writer = _Encoder(Source("encode(o0, w)", names))
    writer.source.line("out = w.tail")
    writer.struct(plan, "o0", "out")
    return writer.source


class _Encoder:
    def __init__(self, source: Source) -> None:
        self.source = source

    def struct(self, plan: StructPlan, target: str, out: str) -> None:
        """Emit the writing of one struct to the block named `out`."""
        pending: list[Step] = []
        for step in plan.steps:
            if step.code is not None:
                pending.append(step)
                continue
            self._run(pending, target, out)
            pending = []
            self._variable(step, f"{target}.{step.name}", out)
        self._run(pending, target, out)
        for field in plan.absent:
            if not field.ignorable:
                self._refuse(self._set_test(field, target))
        if plan.flexible:
            self._tagged(plan, target, out)
        else:
            self._refuse(f"{target}._unknown")

    def _refuse(self, condition: str) -> None:
        with self.source.block(f"if {condition}:"):
            self.source.line("raise Unfit")

    def _run(self, steps: Sequence[Step], target: str, out: str) -> None:
        """Emit the writing of fixed fields that follow each other."""
        if not steps:
            return
        for step in steps:
            if step.kind == "uuid":
                # struct would pad or cut it silently
                self._refuse(f"len({target}.{step.name}) != 16")
        layout = ">" + "".join(step.code or "" for step in steps)
        packer = self.source.constant("P", layout, Struct(layout).pack)
        self.source.line(
            f"{out} += {packer}({', '.join(f'{target}.{step.name}' for step in steps)})"
        )

    def _length(self, value: str, compact: bool, code: str, out: str) -> None:
        """Emit the writing of a length that is in the variable `value`."""
        if not compact:
            packer = self.source.constant("P", f">{code}", Struct(f">{code}").pack)
            self.source.line(f"{out} += {packer}({value})")
            return
        with self.source.block(f"if {value} < 127:"):
            self.source.line(f"{out}.append({value} + 1)")
        with self.source.block("else:"):
            self.source.line(f"{out} += varint({value} + 1)")

    def _variable(self, step: Step, slot: str, out: str) -> None:
        """Emit the writing of a string, bytes, records, array or struct."""
        source = self.source
        value = source.fresh("v")
        source.line(f"{value} = {slot}")
        if step.nullable:
            with source.block(f"if {value} is None:"):
                source.line(f"{out} += {_null_bytes(step)!r}")
            with source.block("else:"):
                if step.struct is not None and not step.is_array:
                    source.line(f"{out}.append(1)")
                self._present(step, value, out)
        else:
            self._present(step, value, out)

    def _present(self, step: Step, value: str, out: str) -> None:
        if step.is_array:
            self._array(step, value, out)
        elif step.struct is not None:
            self.struct(step.struct, value, out)
        else:
            self._sequence(step.kind, step.compact, value, out)

    def _sequence(self, kind: str, compact: bool, value: str, out: str) -> None:
        source = self.source
        if kind == "records":
            if out != "out":
                raise LocalProtocolError(
                    "records inside a tagged field cannot be written by reference"
                )
            source.line(f"out = write_records(w, {value}, {compact})")
            return
        size = source.fresh("n")
        if kind == "string":
            source.line(f"{value} = {value}.encode()")
        source.line(f"{size} = len({value})")
        if kind == "string":
            self._refuse(f"{size} > 32767")
        self._length(size, compact, "h" if kind == "string" else "i", out)
        source.line(f"{out} += {value}")

    def _array(self, step: Step, value: str, out: str) -> None:
        source = self.source
        count = source.fresh("n")
        source.line(f"{count} = len({value})")
        self._length(count, step.compact, "i", out)
        code = FIXED_CODES.get(step.kind)
        if code is not None and step.kind != "uuid":
            small = source.constant("B", code, _small_packers(code))
            with source.block(f"if {count} < {_SMALL_ARRAY}:"):
                source.line(f"{out} += {small}[{count}](*{value})")
            with source.block("else:"):
                source.line(f"{out} += pack(f'>{{{count}}}{code}', *{value})")
            return
        item = source.fresh("o")
        with source.block(f"for {item} in {value}:"):
            if step.struct is not None:
                self.struct(step.struct, item, out)
            elif step.kind == "uuid":
                self._refuse(f"len({item}) != 16")
                source.line(f"{out} += {item}")
            else:
                self._sequence(step.kind, step.compact, item, out)

    def _tagged(self, plan: StructPlan, target: str, out: str) -> None:
        """Emit the writing of tagged fields: known ones that are not default, and unknown ones."""
        source = self.source
        if not plan.tagged:
            with source.block(f"if {target}._unknown:"):
                source.line(f"write_tags({out}, {target}._unknown)")
            with source.block("else:"):
                source.line(f"{out}.append(0)")
            return
        tags = source.fresh("t")
        source.line(f"{tags} = dict({target}._unknown) if {target}._unknown else {{}}")
        for step in plan.tagged:
            with source.block(f"if {self._set_test(step.field, target)}:"):
                self._refuse(f"{step.field.tag} in {tags}")
                block = source.fresh("g")
                source.line(f"{tags}[{step.field.tag}] = {block} = bytearray()")
                if step.code is not None:
                    self._run([step], target, block)
                else:
                    self._variable(step, f"{target}.{step.name}", block)
        with source.block(f"if {tags}:"):
            source.line(f"write_tags({out}, {tags})")
        with source.block("else:"):
            source.line(f"{out}.append(0)")

    def _set_test(self, field: Field, target: str) -> str:
        """Return an expression that is true when a field does not hold its default."""
        slot = f"{target}.{field.name}"
        if field.default is None:
            return f"{slot} is not None"
        if field.is_array or field.type in ("bytes", "records"):
            return f"({slot} is None or len({slot}))"
        if field.default is Fresh.STRUCT:
            return f"is_set({self.source.constant('F', id(field), field)}, {target})"
        return f"{slot} != {field.default!r}"


def _null_bytes(step: Step) -> bytes:
    """Return how a null is written."""
    if step.struct is not None and not step.is_array:
        return bytes((step.null_marker & 0xFF,))
    if step.compact:
        return b"\x00"
    return b"\xff\xff" if step.kind == "string" and not step.is_array else b"\xff\xff\xff\xff"
