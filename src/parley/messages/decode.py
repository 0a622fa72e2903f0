"""The reference decoder: walks a plan with a cursor, field by field.

Slower than the compiled decoders of `fast.py`, which must equal it; it is their oracle, and it is
run once more after they fail, because it knows in which field the bytes went wrong.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from parley.errors import RemoteProtocolError
from parley.messages.classes import Message, MessageStruct, default_value
from parley.messages.plan import FIXED_CODES, FIXED_SIZES, Step, StructPlan
from parley.wire import Cursor

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=MessageStruct)

_FIXED_READERS = {
    "bool": Cursor.read_bool,
    "int8": Cursor.read_int8,
    "int16": Cursor.read_int16,
    "uint16": Cursor.read_uint16,
    "int32": Cursor.read_int32,
    "uint32": Cursor.read_uint32,
    "int64": Cursor.read_int64,
    "float64": Cursor.read_float64,
    "uuid": Cursor.read_uuid,
}


class Decoder(Generic[M]):
    """Decodes one message. Raises RemoteProtocolError that names message, version and field."""

    def __init__(self, message: type[M], version: int, plan: StructPlan, cursor: Cursor) -> None:
        self._message = message
        self._version = version
        self._plan = plan
        self._cursor = cursor
        self._path: list[str] = []

    def decode(self) -> M:
        """Return the message that begins at the cursor, and leave the cursor behind it."""
        try:
            return self._struct(self._plan, self._message)
        except RemoteProtocolError as error:
            where = f"{self._message.__name__} v{self._version}"
            raise RemoteProtocolError(
                f"{where}, field {'.'.join(self._path)}: {error}"
                if self._path
                else f"{where}: {error}"
            ) from error

    def _struct(self, plan: StructPlan, made: type[S]) -> S:
        target = made.__new__(made)
        target._unknown = None
        for step in plan.steps:
            self._path.append(step.name)
            setattr(target, step.name, self._field(step))
            self._path.pop()
        for field in (*plan.absent, *(step.field for step in plan.tagged)):
            if field.name not in made._FRESH_STRUCTS:
                setattr(target, field.name, default_value(field, made._FRESH_STRUCTS))
        if plan.flexible:
            self._tagged(plan, target)
        return target

    def _tagged(self, plan: StructPlan, target: MessageStruct) -> None:
        known = {step.field.tag: step for step in plan.tagged}
        for tag, data in self._cursor.read_tagged_fields().items():
            step = known.get(tag)
            if step is None:
                target.unknown_tagged_fields[tag] = bytes(data)
                continue
            self._path.append(step.name)
            outer, self._cursor = self._cursor, Cursor(data)
            setattr(target, step.name, self._field(step))
            if self._cursor.remaining():
                raise RemoteProtocolError(
                    f"tag {tag} is {self._cursor.remaining()} bytes longer than its field"
                )
            self._cursor = outer
            self._path.pop()

    def _field(self, step: Step) -> object:
        if not step.is_array:
            return self._value(step)
        cursor = self._cursor
        least = step.least_element_bytes
        count = (
            cursor.read_compact_array_count(least)
            if step.compact
            else cursor.read_array_count(least)
        )
        if count < 0:
            if not step.nullable:
                raise RemoteProtocolError("a null array where null is not allowed")
            return None
        code = FIXED_CODES.get(step.kind)
        if code is not None and step.kind != "uuid":
            return cursor.read_numbers(count, code, FIXED_SIZES[code])
        values = []
        for index in range(count):
            self._path.append(f"[{index}]")
            values.append(self._element(step))
            self._path.pop()
        return values

    def _element(self, step: Step) -> object:
        """Read an array's element: `nullable` speaks of the array, an element is never null."""
        if step.struct is not None:
            return self._struct(step.struct, self._message.STRUCTS[step.struct.name])
        return self._primitive(step.kind, step.compact, False)

    def _value(self, step: Step) -> object:
        if step.struct is None:
            return self._primitive(step.kind, step.compact, step.nullable)
        if step.nullable:
            # A struct that may be null is led by one byte:
            # −1 null, anything else present (KIP-893).
            marker = self._cursor.read_int8()
            if marker <= step.null_marker:
                return None
        return self._struct(step.struct, self._message.STRUCTS[step.struct.name])

    def _primitive(self, kind: str, compact: bool, nullable: bool) -> object:
        cursor = self._cursor
        reader = _FIXED_READERS.get(kind)
        if reader is not None:
            return reader(cursor)
        prefix = "read_compact_" if compact else "read_"
        what = "string" if kind == "string" else "bytes"
        value = getattr(cursor, f"{prefix}{'nullable_' if nullable else ''}{what}")()
        # Records stay views of the frame; other byte sequences are small and may outlive it.
        return bytes(value) if kind == "bytes" and value is not None else value
