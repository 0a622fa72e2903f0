"""Values of records and the schemas they were written with; no I/O.

A framing finds out which schema a message names, and where its data begins:

>>> from parley.serdes import framing
>>> found = framing("confluent").read(b"\\x00\\x00\\x00\\x00\\x07data")
>>> found.schema, bytes(found.payload)
(SchemaId(number=7), b'data')

`Serializer` and `Deserializer` are for single values, `ColumnEncoder` and `ColumnDecoder` for
columns of Arrow.

Map: `framing` lists the framings, `frames` is what they have in common: `confluent`, `apicurio`,
`glue` and `single_object`, whose `fingerprint` is here too. `schemas` are texts and references;
`formats` says what one can do once it is parsed, as `avro`, `json_schema` and `protobuf` do;
`native` decodes columns by a compiled module, which has `scanned` their prefixes. `serializer`,
`encoder` and `decoder` are the calls: `writer_schema` finds what is written, `writers` what was,
and `faults` are what is wrong with values.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from parley.serdes.apicurio import ApicurioHeaders, ApicurioPrefix
from parley.serdes.confluent import Confluent, ConfluentHeader, ConfluentPrefix
from parley.serdes.frames import (
    Bare,
    ContentId,
    Fingerprint,
    Frame,
    Framed,
    Framing,
    GlobalId,
    GlueVersion,
    SchemaGuid,
    SchemaId,
    SchemaRef,
)
from parley.serdes.framing import FRAMINGS, framing
from parley.serdes.glue import Glue
from parley.serdes.schemas import (
    NamedSchema,
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistry,
    SchemaSource,
)
from parley.serdes.single_object import SingleObject

if TYPE_CHECKING:
    from parley.serdes.decoder import ColumnDecoder, DecodedValues, Fault
    from parley.serdes.encoder import ColumnEncoder, EncodedValues, derived_schema
    from parley.serdes.serializer import Deserializer, Serializer

__all__ = [
    "FRAMINGS",
    "ApicurioHeaders",
    "ApicurioPrefix",
    "Bare",
    "ColumnDecoder",
    "ColumnEncoder",
    "Confluent",
    "ConfluentHeader",
    "ConfluentPrefix",
    "ContentId",
    "DecodedValues",
    "Deserializer",
    "EncodedValues",
    "Fault",
    "Fingerprint",
    "Frame",
    "Framed",
    "Framing",
    "GlobalId",
    "Glue",
    "GlueVersion",
    "NamedSchema",
    "RegisteredSchema",
    "Schema",
    "SchemaGuid",
    "SchemaId",
    "SchemaRef",
    "SchemaReference",
    "SchemaRegistry",
    "SchemaSource",
    "Serializer",
    "SingleObject",
    "derived_schema",
    "framing",
]

_HOME = {
    "ColumnDecoder": "parley.serdes.decoder",
    "ColumnEncoder": "parley.serdes.encoder",
    "DecodedValues": "parley.serdes.decoder",
    "Deserializer": "parley.serdes.serializer",
    "EncodedValues": "parley.serdes.encoder",
    "Fault": "parley.serdes.decoder",
    "Serializer": "parley.serdes.serializer",
    "derived_schema": "parley.serdes.encoder",
}
"""What needs pyarrow: loaded when asked for, since the embedded cluster does without."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
