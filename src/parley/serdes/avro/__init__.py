"""Avro schemas: parsed, compared, and in their canonical form.

Map: `model` is what a schema is made of, `parse` makes it of text, with `defaults` and `unpaid`
values checked; `canonical` writes it back for fingerprints; `resolution` says whether a reader can
read what a writer wrote. `format` is all of it as a format of values: `columns` are Arrow's types
and `derive` the way back, `reading` and `writing` one datum, by `conversions`, `logical` types and
`unions`; `resolving` pairs a writer's schema with a reader's, units and scales by `rescaling`, for
`reading` and for the plans of `native`, as `native_writing` makes them of columns' types.
`reference` decodes groups of datums, `column_values` makes values of columns. These need pyarrow,
and are not imported here.
"""

from parley.serdes.avro.canonical import canonical_form, fingerprint
from parley.serdes.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
)
from parley.serdes.avro.parse import parse_schema
from parley.serdes.avro.resolution import Incompatibility, incompatibilities

__all__ = [
    "Array",
    "AvroType",
    "Enum",
    "Field",
    "Fixed",
    "Incompatibility",
    "Map",
    "Primitive",
    "Record",
    "Union",
    "canonical_form",
    "fingerprint",
    "incompatibilities",
    "parse_schema",
]
