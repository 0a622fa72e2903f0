"""Kafka's messages: one class each for all versions, with compiled encoders and decoders.

>>> from parley.messages import MetadataRequest, encode_body
>>> request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="flights")])
>>> b"".join(encode_body(request, version=1))
b'\\x00\\x00\\x00\\x01\\x00\\x07flights'

Classes are made when first named: `from parley.messages import AnyKafkaNameRequest` works for
every API in `parley.schema.ApiKey`, for the data messages (`ConsumerProtocolSubscription`, …) and
for records of `__consumer_offsets` (`OffsetCommitValue`, …). Type checkers and editors see them in
`types.pyi`, which `tools/write_stubs.py` writes.

Map: `catalog` finds `classes`, which are made of the schema; `plan` says what is on the wire,
`decode` and `encode` walk it, `fast_decode` and `fast_encode` compile it (`source`), `codec`
chooses. `headers` makes whole frames, `costs` bounds what decoding may take, `types` is for type
checkers.
"""

from typing import TYPE_CHECKING

from parley.messages.catalog import (
    class_by_name,
    class_names,
    data_class,
    record_class,
    request_class,
    response_class,
)
from parley.messages.classes import Message, MessageStruct, Request, Response
from parley.messages.codec import (
    QUICK_BYTES,
    decode_at,
    decode_body,
    decode_quickly,
    encode_body,
    encode_to,
)
from parley.messages.headers import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_request_quickly,
    decode_response,
    decode_response_header,
    encode_request,
    encode_response,
    peek_request_header,
    request_header_version,
    response_header_version,
)

__all__ = [
    "QUICK_BYTES",
    "Message",
    "MessageStruct",
    "Request",
    "RequestHeader",
    "Response",
    "class_names",
    "data_class",
    "decode_at",
    "decode_body",
    "decode_quickly",
    "decode_request",
    "decode_request_header",
    "decode_request_quickly",
    "decode_response",
    "decode_response_header",
    "encode_body",
    "encode_request",
    "encode_response",
    "encode_to",
    "peek_request_header",
    "record_class",
    "request_class",
    "request_header_version",
    "response_class",
    "response_header_version",
]

if TYPE_CHECKING:
    from parley.messages.types import *
else:

    def __getattr__(name: str) -> type[Message]:
        found = None if name.startswith("_") else class_by_name(name)
        if found is None:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}: no Kafka message has that name"
            )
        globals()[name] = found
        return found
