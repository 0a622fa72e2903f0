"""Values of records and the schemas they were written with; no I/O.

A framing finds out which schema a message names, and where its data begins:

>>> from parley.serdes import framing
>>> found = framing("confluent").read(b"\\x00\\x00\\x00\\x00\\x07data")
>>> found.schema, bytes(found.payload)
(SchemaId(number=7), b'data')

Map: `framing` lists the framings, `frames` is what they have in common: `confluent`, `apicurio`,
`glue` and `single_object`, whose `fingerprint` is here too. `schemas` are texts and references,
`avro` parses and compares those of Avro.
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
from parley.serdes.schemas import NamedSchema, Schema, SchemaReference, SchemaSource
from parley.serdes.single_object import SingleObject

if TYPE_CHECKING:
    from parley.serdes.avro.decoder import AvroDecoder, DecodedValues, Fault

__all__ = [
    "FRAMINGS",
    "ApicurioHeaders",
    "ApicurioPrefix",
    "AvroDecoder",
    "Bare",
    "Confluent",
    "ConfluentHeader",
    "ConfluentPrefix",
    "ContentId",
    "DecodedValues",
    "Fault",
    "Fingerprint",
    "Frame",
    "Framed",
    "Framing",
    "GlobalId",
    "Glue",
    "GlueVersion",
    "NamedSchema",
    "Schema",
    "SchemaGuid",
    "SchemaId",
    "SchemaRef",
    "SchemaReference",
    "SchemaSource",
    "SingleObject",
    "framing",
]

_HOME = dict.fromkeys(("AvroDecoder", "DecodedValues", "Fault"), "parley.serdes.avro.decoder")
"""What needs pyarrow: loaded when asked for, since the embedded cluster does without."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
