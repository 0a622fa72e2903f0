"""Message definitions of every Kafka API in every version, as data.

`load(ApiKey.FETCH)` reads `apis/01_fetch.api` once. The notation is described in `notation.py`.

Map: `apikeys`; `load` reads definitions in a `notation` into a `model`; `ranges` of versions.
"""

from parley.schema.apikeys import ApiKey
from parley.schema.load import (
    data_names,
    load,
    load_data,
    load_header,
    load_record,
    record_names,
)
from parley.schema.model import ApiSchema, Field, Fresh, MessageSchema, NotationError, Struct
from parley.schema.notation import Parser
from parley.schema.ranges import VersionRange

__all__ = [
    "ApiKey",
    "ApiSchema",
    "Field",
    "Fresh",
    "MessageSchema",
    "NotationError",
    "Parser",
    "Struct",
    "VersionRange",
    "data_names",
    "load",
    "load_data",
    "load_header",
    "load_record",
    "record_names",
]
