"""Plans for the compiled decoder, for the pairs of schemas that it can do.

`AvroPlans.decoder_for` is the one place that decides between it and the reference. The compiled
decoder does not do what a plan of bounded size cannot say: a writer's record that contains itself,
a schema of very many parts, a default that cannot be written. To the reference it leaves, row by
row, maps that have a key twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parley.serdes import native
from parley.serdes.avro.conversions import enum_symbols
from parley.serdes.avro.model import AvroType, Enum, Field, Fixed, Primitive, Record, Union
from parley.serdes.avro.reference import ReferenceDecoder
from parley.serdes.avro.rescaling import decimal_shift, time_factor
from parley.serdes.avro.resolving import resolve
from parley.serdes.avro.unions import member_name
from parley.serdes.avro.writing import default_bytes
from parley.serdes.faults import ValueFault
from parley.serdes.formats import GroupDecoder
from parley.serdes.native import Plan


class AvroPlans:
    """Decoders for the columns of one reader's schema."""

    def __init__(self, reader: AvroType, kind: pa.DataType) -> None:
        self._reader = reader
        self.compiled = native.columns_of(kind)
        """Of all writers together; None where only the reference can."""

    def decoder_for(self, writer: AvroType) -> GroupDecoder:
        """Return the compiled decoder of a writer's data, or the reference.

        Raises SchemaError where nothing can read them.
        """
        reference = ReferenceDecoder(writer, self._reader)
        if self.compiled is None:
            return reference
        try:
            plan = resolve(writer, reference.reader, _Plans())
            return self.compiled.decoder(plan, reference)
        except (native.Unsupported, ValueFault, RecursionError, OverflowError):
            return reference


class _Plans:
    """Makes plans of what `resolving` finds."""

    def primitive(self, writer: Primitive, reader: Primitive) -> Plan:
        kind, logical = writer.kind, reader.logical
        if reader.kind == "string":
            return ("text",)
        if logical is not None and logical.name == "decimal":
            return ("decimal", logical.precision, None, decimal_shift(writer, reader))
        if kind in ("int", "long"):
            return (kind, time_factor(writer, reader))
        return ("bytes",) if kind == "string" else (kind,)

    def fixed(self, writer: Fixed, reader: Fixed) -> Plan:
        logical = reader.logical
        if logical is None:
            return ("fixed", writer.size)
        if logical.name == "decimal":
            return ("decimal", logical.precision, writer.size, decimal_shift(writer, reader))
        return (logical.name,)

    def enum(self, writer: Enum, reader: Enum) -> Plan:
        return ("enum", writer.name, enum_symbols(writer, reader))

    def array(self, item: Plan) -> Plan:
        return ("list", item)

    def map(self, value: Plan) -> Plan:
        return ("map", value)

    def branches(self, branches: Sequence[Plan]) -> Plan:
        return ("branches", branches)

    def unreadable(self, why: str) -> Plan:
        return ("unreadable", why)

    def member(self, inner: Plan, reader: Union, index: int) -> Plan:
        name = member_name(reader, index)
        return inner if name is None else ("member", int(name.removeprefix("member")), inner)

    def record(
        self, reader: Record, steps: Sequence[tuple[Field | None, Plan]], absent: Sequence[Field]
    ) -> Plan:
        places = {id(one): place for place, one in enumerate(reader.fields)}
        read = [(None if field is None else places[id(field)], step) for field, step in steps]
        defaults = [
            (
                places[id(one)],
                default_bytes(one.type, one.default),
                resolve(one.type, one.type, self),
            )
            for one in absent
        ]
        return ("record", read, defaults)

    def later(self, made: Sequence[Plan]) -> Plan:
        raise ValueFault("a plan has no place for a record that contains itself")

    def skip_primitive(self, kind: str) -> Plan:
        return ("bytes",) if kind == "string" else (kind,)

    def skip_fixed(self, size: int) -> Plan:
        return ("fixed", size)

    def skip_enum(self) -> Plan:
        return ("int",)

    def skip_array(self, item: Plan) -> Plan:
        return ("list", item)

    def skip_map(self, value: Plan) -> Plan:
        return ("map", value)

    def skip_record(self, fields: Sequence[Plan]) -> Plan:
        return ("record", fields)
