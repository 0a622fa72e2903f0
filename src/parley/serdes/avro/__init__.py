"""Avro schemas: parsed, compared, and in their canonical form.

Map: `model` is what a schema is made of, `parse` makes it of text, with `defaults` checked;
`canonical` writes it back for fingerprints; `resolution` says whether a reader can read what a
writer wrote. `decoder` decodes messages: `columns` are Arrow's types, `reading` reads one datum, by
`conversions` and `unions`; `reference` fulfils the `contract` with them. These need pyarrow, and
are not imported here.
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
