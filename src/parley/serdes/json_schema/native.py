"""Plans for the compiled decoder of JSON. `decoder_of` decides between it and the reference.

The compiled decoder takes what is as it usually is. Every row that is damaged, or doubtful, or rare
(a property twice, a date in another form) it leaves to the reference, which has the last word.
"""

from __future__ import annotations

import pyarrow as pa

from parley.serdes import native
from parley.serdes.formats import CompiledColumns, GroupDecoder
from parley.serdes.json_schema.reading import JsonGroupDecoder
from parley.serdes.json_schema.shapes import Kind, Shape
from parley.serdes.native import Plan

_NAMES = {
    Kind.TEXT: "text",
    Kind.BYTES: "bytes",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.NULL: "null",
    Kind.ANY: "any",
}


def decoder_of(shape: Shape, kind: pa.DataType) -> tuple[GroupDecoder, CompiledColumns | None]:
    """Return what decodes texts of a shape, and the compiled columns that it fills, if any."""
    reference = JsonGroupDecoder(shape)
    columns = native.columns_of(kind)
    if columns is None:
        return reference, None
    try:
        return columns.decoder(("json", _plan(shape)), reference), columns
    except native.Unsupported:
        return reference, None


def _plan(shape: Shape) -> Plan:
    if shape.kind is Kind.OBJECT:
        return ("object", [(name, _plan(one)) for name, one in shape.fields.items()])
    if shape.items is not None:
        return ("array" if shape.kind is Kind.ARRAY else "map", _plan(shape.items))
    return (_NAMES[shape.kind],)
