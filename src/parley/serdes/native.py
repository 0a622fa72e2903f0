"""Whether the compiled module is here that decodes columns: kafka-parley-schemas brings it.

Without it, or with PARLEY_PURE=1 in the environment, the decoders in Python do the same work. The
formats make plans of what they know of schemas (`avro.native`, `json_schema.native`), which the
module carries out. It leaves some rows to the reference: they cost what they cost without it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from parley.serdes.formats import DecodedGroup, GroupDecoder
from parley.serdes.frames import Buffer, Prefix, view_of
from parley.serdes.scanned import Scanned

Plan: TypeAlias = tuple[object, ...]
"""A name and what belongs to it; native-schemas/src/plan.rs reads it."""

CONTRACT = 3
"""Counts what the module and this file agree upon."""
REMEDY = 'pip install --upgrade "kafka-parley[schemas]"'
PURE_COST = "typed values take 50 to 100 times the processor time to decode"
"""What the decoders in Python cost; by benchmarks/schemas.py."""


def _why_reference() -> str | None:
    if os.environ.get("PARLEY_PURE", "") not in ("", "0"):
        return "PARLEY_PURE is set"
    try:
        found = importlib.import_module("parley.serdes._native").CONTRACT
    except ModuleNotFoundError as error:
        if error.name != "parley.serdes._native":
            raise
        return "kafka-parley-schemas is not installed"
    except ImportError as error:
        return f"the compiled one does not load ({error})"
    if found != CONTRACT:
        return "kafka-parley-schemas is of another release"
    return None


why_reference: str | None = _why_reference()
"""Why the reference runs, or None where the compiled module does."""

if TYPE_CHECKING or why_reference is None:
    from parley.serdes import _native

    Unsupported = _native.Unsupported


def scan(messages: pa.Array, prefix: Prefix) -> Scanned | None:
    """Return what messages say about their schemas; None where only Python can read them."""
    if why_reference is not None or messages.type != pa.binary():
        return None
    _, capsule = messages.__arrow_c_array__()
    groups, numbers, bad = _native.scan(capsule, prefix.marker, prefix.width, prefix.little)
    return Scanned(messages, prefix, groups, numbers, bad)


def columns_of(kind: pa.DataType) -> NativeColumns | None:
    """Return what fills columns of a type; None where only the reference can."""
    if why_reference is not None:
        return None
    try:
        return NativeColumns(kind)
    except Unsupported:
        return None


class NativeColumns:
    """Columns of a type, which plans fill. Raises Unsupported for a type of very many parts."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._columns = _native.Columns(_layout(kind))

    def decoder(self, plan: Plan, reference: GroupDecoder) -> NativeDecoder:
        """Return what carries out a plan. Raises Unsupported for one of very many parts."""
        return NativeDecoder(self, _native.Plan(self._columns, plan), reference)

    def decode(self, scanned: Scanned, decoders: Sequence[GroupDecoder | None]) -> DecodedGroup:
        """Return columns of all messages, and why some could not be read, by their rows.

        `decoders` are those of the numbers that messages have; rows without one are null.
        """
        groups = memoryview(scanned.groups).cast("i")
        plans = [one.plan if isinstance(one, NativeDecoder) else None for one in decoders]
        try:
            found, odd = self.carry_out(plans, scanned)
        except OverflowError:  # more than offsets of 32 bits reach
            plans, odd = [None] * len(decoders), []
            found = DecodedGroup(pa.nulls(len(groups), self._type), {})
        left: dict[int, list[int]] = {}
        for row in odd:
            left.setdefault(groups[row], []).append(row)
        slow = {at for at, plan in enumerate(plans) if plan is None and decoders[at] is not None}
        if slow:
            for row, group in enumerate(groups):
                if group in slow:
                    left.setdefault(group, []).append(row)
        for group, rows in left.items():
            decoder = decoders[group]
            assert decoder is not None
            reference = decoder.reference if isinstance(decoder, NativeDecoder) else decoder
            found = _with_rows(found, rows, reference.decode(scanned.payloads(rows)))
        return found

    def carry_out(
        self, plans: Sequence[_native.Plan | None], scanned: Scanned
    ) -> tuple[DecodedGroup, list[int]]:
        """Return columns of messages and their faults, and the rows that the reference reads."""
        _, capsule = scanned.messages.__arrow_c_array__()
        start = len(scanned.prefix)
        made, faults, odd = _native.decode(self._columns, plans, capsule, scanned.groups, start)
        return DecodedGroup(pa.array(_Exported(self._type, made)), dict(faults)), odd


class NativeDecoder:
    """A `GroupDecoder` that carries out a plan; the reference reads what it leaves over."""

    def __init__(self, columns: NativeColumns, plan: _native.Plan, reference: GroupDecoder) -> None:
        self._columns = columns
        self.plan = plan
        self.reference = reference

    def decode(self, datums: Sequence[Buffer]) -> DecodedGroup:
        """Return columns of all datums."""
        messages = pa.array([view_of(one) for one in datums], pa.binary())
        groups = bytes(4 * len(datums))
        return self._columns.decode(Scanned(messages, Prefix(), groups, [0], []), [self])


class NativeWriting:
    """Writes columns of one type by a plan of a format. Raises Unsupported for one that is nested
    too deep.
    """

    def __init__(self, value_format: str, plan: Plan) -> None:
        self._writing = _native.Writing((value_format, plan))

    def encode(self, column: pa.Array, prefix: bytes) -> pa.Array | None:
        """Return the messages of a column; None where a value does not fit."""
        _, capsule = column.__arrow_c_array__()
        made = _native.encode(self._writing, capsule, prefix)
        return None if made is None else pa.array(_Exported(pa.binary(), made))


class OnlyReference(Exception):
    """Only the reference writes this."""


WIDTHS = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.int64(): 8}
"""Bytes of the whole numbers that plans of writing know."""


def writing(value_format: str, plan: Callable[[], Plan]) -> NativeWriting | None:
    """Return what writes columns by a plan; None where only the reference can: there is no compiled
    module, or making the plan raises OnlyReference.
    """
    if why_reference is not None:
        return None
    try:
        return NativeWriting(value_format, plan())
    except (OnlyReference, Unsupported):
        return None


class _Exported:
    """An array of the C data interface, with the type that it has."""

    def __init__(self, kind: pa.DataType, array: object) -> None:
        self._kind = kind
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._kind.__arrow_c_schema__(), self._array


def _with_rows(found: DecodedGroup, rows: Sequence[int], more: DecodedGroup) -> DecodedGroup:
    """Return columns with some of the rows put in."""
    at = list(range(len(found.array)))
    for place, row in enumerate(rows, start=len(at)):
        at[row] = place
    whole = pa.concat_arrays([found.array, more.array])
    faults = {rows[index]: why for index, why in more.faults.items()}
    return DecodedGroup(whole.take(pa.array(at, pa.int64())), {**found.faults, **faults})


_LAYOUTS = {
    pa.null(): "null",
    pa.bool_(): "bool",
    pa.int8(): "i8",
    pa.int16(): "i16",
    pa.int32(): "i32",
    pa.date32(): "i32",
    pa.int64(): "i64",
    pa.time64("us"): "i64",
    pa.float32(): "f32",
    pa.float64(): "f64",
    pa.string(): "var",
    pa.binary(): "var",
    pa.month_day_nano_interval(): "interval",
}


def _layout(kind: pa.DataType) -> Plan:
    """Return how the values of a type lie in memory."""
    if pa.types.is_struct(kind):
        return ("struct", [_layout(one.type) for one in kind])
    if pa.types.is_list(kind):
        return ("list", _layout(kind.value_type))
    if pa.types.is_map(kind):
        return ("map", _layout(kind.item_type))
    if pa.types.is_decimal(kind):
        return (f"decimal{kind.bit_width}",)
    if pa.types.is_timestamp(kind):
        return ("i64",)
    return (_LAYOUTS[kind],)
