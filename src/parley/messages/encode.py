"""The reference encoder: walks a plan with a write buffer, field by field, as `decode.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from parley.errors import LocalProtocolError
from parley.messages.classes import Message, MessageStruct, default_value
from parley.messages.plan import Step, StructPlan
from parley.schema import Field
from parley.wire import WriteBuffer

_FIXED_WRITERS: dict[str, Callable[[WriteBuffer, Any], None]] = {
    "bool": WriteBuffer.write_bool,
    "int8": WriteBuffer.write_int8,
    "int16": WriteBuffer.write_int16,
    "uint16": WriteBuffer.write_uint16,
    "int32": WriteBuffer.write_int32,
    "uint32": WriteBuffer.write_uint32,
    "int64": WriteBuffer.write_int64,
    "float64": WriteBuffer.write_float64,
    "uuid": WriteBuffer.write_uuid,
}


class Encoder:
    """Encodes one message. Raises LocalProtocolError that names message, version and field."""

    def __init__(
        self, message: Message, version: int, plan: StructPlan, buffer: WriteBuffer
    ) -> None:
        self._message = message
        self._version = version
        self._plan = plan
        self._buffer = buffer
        self._path: list[str] = []

    def encode(self) -> None:
        """Append the message to the buffer."""
        try:
            self._struct(self._plan, self._message)
        except (LocalProtocolError, TypeError, AttributeError, ValueError) as error:
            where = f"{type(self._message).__name__} v{self._version}"
            path = ".".join(self._path)
            raise LocalProtocolError(
                f"{where}, field {path}: {error}" if path else f"{where}: {error}"
            ) from error

    def _struct(self, plan: StructPlan, source: MessageStruct) -> None:
        for step in plan.steps:
            self._path.append(step.name)
            self._field(step, getattr(source, step.name))
            self._path.pop()
        for field in plan.absent:
            self._path.append(field.name)
            self._check_absent(field, source)
            self._path.pop()
        if plan.flexible:
            self._tagged(plan, source)
        elif source._unknown:
            raise LocalProtocolError(
                "unknown tagged fields are set, but this version has no tagged fields"
            )

    def _check_absent(self, field: Field, source: MessageStruct) -> None:
        """Raise if a value that the caller set and that must stay would be lost (Kafka's rule)."""
        if not field.ignorable and not is_default(field, getattr(source, field.name), source):
            raise LocalProtocolError(
                f"set to a value, but version {self._version} has no such field (it has it "
                f"in {field.versions})"
            )

    def _tagged(self, plan: StructPlan, source: MessageStruct) -> None:
        fields = dict(source._unknown or {})
        for step in plan.tagged:
            value = getattr(source, step.name)
            if is_default(step.field, value, source):
                continue
            tag = step.field.tag
            if tag is None or tag in fields:
                raise LocalProtocolError(
                    f"tag {tag} is both {step.name} and an unknown tagged field"
                )
            self._path.append(step.name)
            outer, self._buffer = self._buffer, WriteBuffer()
            self._field(step, value)
            fields[tag] = self._buffer.getvalue()
            self._buffer = outer
            self._path.pop()
        self._buffer.write_tagged_fields(fields)

    def _field(self, step: Step, value: Any) -> None:
        if value is None and not step.nullable:
            raise LocalProtocolError("null is not allowed in this version")
        if not step.is_array:
            self._value(step, value)
            return
        count = -1 if value is None else len(value)
        if step.compact:
            self._buffer.write_compact_array_count(count)
        else:
            self._buffer.write_array_count(count)
        self._elements(step, value or ())

    def _elements(self, step: Step, values: Sequence[Any]) -> None:
        for index, value in enumerate(values):
            self._path.append(f"[{index}]")
            if value is None:
                raise LocalProtocolError("null is not allowed inside an array")
            if step.struct is not None:
                self._struct(step.struct, value)
            else:
                self._primitive(step.kind, step.compact, False, value)
            self._path.pop()

    def _value(self, step: Step, value: Any) -> None:
        if step.struct is None:
            self._primitive(step.kind, step.compact, step.nullable, value)
            return
        if step.nullable:
            self._buffer.write_int8(step.null_marker if value is None else 1)
        if value is not None:
            self._struct(step.struct, value)

    def _primitive(self, kind: str, compact: bool, nullable: bool, value: Any) -> None:
        writer = _FIXED_WRITERS.get(kind)
        if writer is not None:
            writer(self._buffer, value)
            return
        prefix = "write_compact_" if compact else "write_"
        what = "string" if kind == "string" else "bytes"
        getattr(self._buffer, f"{prefix}{'nullable_' if nullable else ''}{what}")(value)


def is_default(field: Field, value: Any, owner: MessageStruct) -> bool:
    """Return whether a field holds its default, so that leaving it out loses nothing."""
    if value is None:
        return field.default is None
    if field.is_array or field.type in ("bytes", "records"):
        return field.default is not None and len(value) == 0
    return bool(value == default_value(field, owner._FRESH_STRUCTS))
