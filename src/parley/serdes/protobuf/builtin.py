"""The files that any .proto text may import, without a reference: registries have them built in."""

from __future__ import annotations

import importlib
import re
from contextlib import suppress

from google.protobuf import descriptor_pb2 as pb

_INSTALLED = re.compile(r"google/(?:protobuf|type)/[a-z_]{1,60}\.proto")
_DECIMAL = (
    'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; '
    "uint32 precision = 2; int32 scale = 3; }"
)
_TEXTS = {
    "confluent/meta.proto": (
        'syntax = "proto3"; package confluent; message Meta { string doc = 1; '
        "map<string, string> params = 2; repeated string tags = 3; }"
    ),
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/types/decimal.proto": (
        'syntax = "proto3"; import public "confluent/type/decimal.proto";'
    ),
}
"""Options of fields are read over, so that of `meta.proto` its message is enough."""


def builtin_file(name: str) -> pb.FileDescriptorProto | str | None:
    """Return the descriptor or the text of a file; None for one that is not built in.

    Those of `google/type` are there where the package googleapis-common-protos is.
    """
    if name in _TEXTS:
        return _TEXTS[name]
    if not _INSTALLED.fullmatch(name):
        return None
    with suppress(ImportError):
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        made = pb.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(made)
        return made
    return None
