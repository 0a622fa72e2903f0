"""Protobuf schemas at the registry: checked, compared, and shown as descriptors.

That needs the package `protobuf`. Without it texts are kept as they are.
"""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Sequence
from dataclasses import replace

from parley.devcluster.registry.refusals import RegistryRefused, invalid_schema
from parley.errors import SchemaError
from parley.serdes import NamedSchema, Schema


def is_there() -> bool:
    """Return whether the package `protobuf` is installed."""
    try:
        return importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def serialized(schema: Schema, references: Sequence[NamedSchema]) -> str:
    """Return the descriptor of a schema in base64, as `format=serialized` asks for it."""
    if not is_there():
        raise RegistryRefused(
            501, "this embedded registry has no descriptors: install the package protobuf beside it"
        )
    return base64.b64encode(_descriptor(schema, references)).decode()


def canonical(schema: Schema, references: Sequence[NamedSchema]) -> bytes | None:
    """Return what is equal for schemas that are; None where that cannot be said."""
    return _descriptor(schema, references) if is_there() else None


def check(schema: Schema, references: Sequence[NamedSchema]) -> None:
    """Raise RegistryRefused for a text that is no schema."""
    if not is_there():
        return
    from parley.serdes.protobuf.files import compile_schema

    try:
        compile_schema(schema, references)
    except SchemaError as error:
        raise invalid_schema(str(error)) from error


def as_text(schema: Schema) -> Schema:
    """Return a schema that was given as a descriptor in base64 with its text."""
    if not is_there():
        return schema
    from parley.serdes.protobuf.files import MAIN, file_proto, is_descriptor
    from parley.serdes.protobuf.printing import print_proto

    if not is_descriptor(schema.text):
        return schema
    try:
        return replace(schema, text=print_proto(file_proto(schema.text, MAIN)))
    except SchemaError as error:
        raise invalid_schema(str(error)) from error


def _descriptor(schema: Schema, references: Sequence[NamedSchema]) -> bytes:
    from parley.serdes.protobuf.files import file_protos

    try:
        made = list(file_protos(schema, references).values())[-1]
    except SchemaError as error:
        raise invalid_schema(str(error)) from error
    made.ClearField("name")
    return bytes(made.SerializeToString(deterministic=True))
