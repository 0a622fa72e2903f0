"""DeleteTopics (20), v0-6.

Behaviours:
- Done by the controller, as CreateTopics. Records and committed offsets go with the topic; fetches
  that wait on it are answered.

Version notes:
- v1+ throttle time, v5+ error message (KIP-599; empty before 3.3), v6+ by name or by id (KIP-516;
  the id of a topic named is returned since 3.3).

Not implemented: delete.topic.enable=false, `timeout_ms`.
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NOT_CONTROLLER,
    UNKNOWN_TOPIC_ID,
)
from parley.messages import DeleteTopicsRequest, DeleteTopicsResponse
from parley.schema import ApiKey, VersionRange
from parley.types import ZERO_UUID

FIRST_ID_VERSION = 6
Asked = tuple[str | None, bytes]


def _asked(request: DeleteTopicsRequest, version: int) -> list[Asked]:
    if version >= FIRST_ID_VERSION:
        return [(topic.name, topic.topic_id) for topic in request.topics]
    return [(name, ZERO_UUID) for name in request.topic_names]


def handle(call: Call, request: DeleteTopicsRequest) -> Answer:
    """Delete each topic, or say why not."""
    if call.profile.behaviour.names_controller and call.image.controller_id != call.broker.id:
        return refuse(request, call.version, NOT_CONTROLLER)
    response = DeleteTopicsResponse()
    for name, topic_id in _asked(request, call.version):
        result = response.DeletableTopicResult(name=name, topic_id=topic_id)
        response.responses.append(result)
        try:
            _delete(call, name, topic_id, result)
        except Refused as error:
            result.error_code = error.code
            if call.profile.behaviour.deletion_details:
                result.error_message = error.message
        except OSError as error:
            result.error_code, result.error_message = (
                KAFKA_STORAGE_ERROR,
                f"the disk refused: {error.strerror}",
            )
    return response


def _delete(
    call: Call, name: str | None, topic_id: bytes, result: DeleteTopicsResponse.DeletableTopicResult
) -> None:
    image = call.cluster.image
    if name is not None and topic_id != ZERO_UUID:
        raise Refused(INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None:
        found = image.topic_by_id(topic_id)
        if found is None:
            raise Refused(UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        name = found.name
    known = image.topics.get(name)
    call.cluster.delete_topic(name, now_ms=call.now_ms)
    result.name = name
    if known is not None and call.profile.behaviour.deletion_details:
        result.topic_id = known.topic_id


def refuse(request: DeleteTopicsRequest, version: int, code: int) -> DeleteTopicsResponse:
    """Answer `code` for each topic."""
    response = DeleteTopicsResponse()
    response.responses = [
        response.DeletableTopicResult(name=name, topic_id=topic_id, error_code=code)
        for name, topic_id in _asked(request, version)
    ]
    return response


API = Handler(ApiKey.DELETE_TOPICS, VersionRange(0, 6), handle, refuse)
