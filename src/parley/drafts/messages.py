"""The messages of KIP-35's drafts: Metadata as it might have become."""

from __future__ import annotations

import struct
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, TypeVar

from parley.errors import RemoteProtocolError
from parley.messages import decode_at, encode_body
from parley.messages.classes import Message, make_message_class
from parley.schema import ApiKey, Parser
from parley.wire import Cursor

if TYPE_CHECKING:
    # What the two `.api` files say, as `parley.messages.types` has it for Kafka's own messages.
    from parley.messages import MessageStruct, Request, Response

    class DraftMetadataRequest(Request["DraftMetadataResponse"]):
        api_keys: list[int] | None
        topics: list[str] | None

    class DraftMetadataResponse(Response):
        class SingleApiVersions(MessageStruct):
            api_key: int
            min_version: int
            max_version: int

        class DraftBroker(MessageStruct):
            node_id: int
            host: str
            port: int

        class DraftPartition(MessageStruct):
            partition_error_code: int
            partition_id: int
            leader: int
            replicas: list[int]
            isr: list[int]

        class DraftTopic(MessageStruct):
            topic_error_code: int
            topic: str
            partition_metadata: list[DraftMetadataResponse.DraftPartition]

        api_versions: list[SingleApiVersions]
        brokers: list[DraftBroker]
        topic_metadata: list[DraftTopic]

    class DocumentedMetadataRequest(Request["DocumentedMetadataResponse"]):
        topics: list[str] | None

    class DocumentedMetadataResponse(Response):
        class DocumentedBroker(DraftMetadataResponse.DraftBroker): ...

        class DocumentedPartition(DraftMetadataResponse.DraftPartition): ...

        class DocumentedTopic(DraftMetadataResponse.DraftTopic): ...

        protocol_version: int
        build_description: str
        brokers: list[DocumentedBroker]
        topic_metadata: list[DocumentedTopic]


M = TypeVar("M", bound=Message)

METADATA = int(ApiKey.METADATA)
_HEAD = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


@cache
def draft_metadata() -> tuple[type[DraftMetadataRequest], type[DraftMetadataResponse]]:
    """Return the request and response classes of the draft's Metadata v1."""
    return _pair("draft_metadata.api")  # type: ignore[return-value]  # the fields are those of the file


@cache
def documented_metadata() -> tuple[
    type[DocumentedMetadataRequest], type[DocumentedMetadataResponse]
]:
    """Return the request and response classes of option 3's Metadata v2."""
    return _pair("documented_metadata.api")  # type: ignore[return-value]  # the fields are those of the file


def _pair(file_name: str) -> tuple[type[Message], type[Message]]:
    text = resources.files("parley.drafts").joinpath(file_name).read_text(encoding="utf-8")
    schema = Parser(file_name, text).api()
    request = make_message_class(schema.request, schema.key, __name__)
    return request, make_message_class(schema.response, schema.key, __name__)


def encode_draft_request(
    message: Message, version: int, correlation_id: int, client_id: str
) -> bytes:
    """Return a draft request with its header (v1, as all of that time), without the size."""
    name = client_id.encode()
    head = _HEAD.pack(METADATA, version, correlation_id) + struct.pack(">h", len(name)) + name
    return head + b"".join(encode_body(message, version))


def decode_draft_request(request_class: type[M], version: int, frame: memoryview) -> M:
    """Return the draft request in a frame. Raises RemoteProtocolError."""
    cursor = Cursor(frame, _HEAD.size)
    cursor.read_nullable_string()
    return decode_at(request_class, version, frame, cursor.pos)[0]


def encode_draft_response(
    message: Message, version: int, correlation_id: int
) -> list[bytes | memoryview]:
    """Return a draft response with its header, without the size."""
    return [_CORRELATION_ID.pack(correlation_id), *encode_body(message, version)]


def decode_draft_response(response_class: type[M], version: int, body: memoryview) -> M:
    """Return the draft response of a body (no correlation id), or raise RemoteProtocolError."""
    message, end = decode_at(response_class, version, body)
    if end != len(body):
        raise RemoteProtocolError(
            f"{len(body) - end} bytes stand behind a {response_class.__name__} v{version}"
        )
    return message
