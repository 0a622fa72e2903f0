"""Brokers that speak KIP-35's drafts: what the embedded cluster answers when it is asked to.

A dialect is asked before the release's own policy; None leaves a request to the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from parley.drafts.messages import (
    METADATA,
    decode_draft_request,
    documented_metadata,
    draft_metadata,
    encode_draft_response,
)
from parley.drafts.numbering import build_description, protocol_version
from parley.messages import Message, MetadataRequest, MetadataResponse
from parley.protocol import Close, Decision, RespondBytes, Translate
from parley.schema import VersionRange
from parley.versions import release

if TYPE_CHECKING:
    from parley.drafts.messages import DraftMetadataResponse

T = TypeVar("T", bound="DraftMetadataResponse.DraftTopic")


class DraftDialect:
    """Metadata v1 of the draft (and of option 2): api versions, brokers and topics in one answer.

    `versions` are the draft versions that the broker has; a request for another one closes the
    connection, as the page says.
    """

    def __init__(self, release_name: str, versions: tuple[int, int] = (1, 1)) -> None:
        self._ranges = release(release_name).ranges
        self.versions = VersionRange(*versions)

    def decide(self, api_key: int, api_version: int) -> Decision | None:
        """Translate Metadata from v1 on; close on a version that this broker does not have."""
        if api_key != METADATA or api_version < 1:
            return None
        if api_version not in self.versions:
            return Close(f"this broker has Metadata {self.versions} of the draft")
        return Translate(
            _DraftTranslator(
                api_version, {**self._ranges, METADATA: VersionRange(0, self.versions.max)}
            )
        )


class DocumentedDialect:
    """Option 3: Metadata v2 answers the release's protocol page's number, not ranges."""

    def __init__(self, release_name: str) -> None:
        self._release_name = release_name

    def decide(self, api_key: int, api_version: int) -> Decision | None:
        """Translate Metadata v2; the versions above are closed upon."""
        if api_key != METADATA or api_version < 2:
            return None
        if api_version > 2:
            return Close("this broker has Metadata 0-2 of option 3")
        return Translate(_DocumentedTranslator(self._release_name))


class EmptyAnswerDialect:
    """The sub-proposal: an unknown request is answered with a correlation id and no body.

    The size field is 4 then, for flexible versions too: there is no tag section to be read.
    """

    def __init__(self, release_name: str) -> None:
        self._ranges = release(release_name).ranges

    def decide(self, api_key: int, api_version: int) -> Decision | None:
        """Answer emptily what the release does not advertise."""
        return None if api_version in self._ranges.get(api_key, ()) else RespondBytes(b"")


class _DraftTranslator:
    as_version = 0

    def __init__(self, version: int, ranges: Mapping[int, VersionRange]) -> None:
        self._version = version
        self._ranges = ranges
        self._keys: list[int] | None = None
        self._topics = True

    def request(self, frame: memoryview) -> MetadataRequest:
        """Return the Metadata request that the draft's one stands for."""
        asked = decode_draft_request(draft_metadata()[0], self._version, frame)
        self._keys, self._topics = asked.api_keys, asked.topics is not None
        return _real_request(asked.topics)

    def response(self, message: Message, correlation_id: int) -> list[bytes | memoryview]:
        """Return the draft's answer; topics stay away where they were not asked for."""
        assert isinstance(message, MetadataResponse)
        response = draft_metadata()[1]
        if self._keys is None:
            keys: list[int] = []
        else:
            keys = [key for key in (self._keys or sorted(self._ranges)) if key in self._ranges]
        answer = response(
            api_versions=[
                response.SingleApiVersions(
                    api_key=k, min_version=self._ranges[k].min, max_version=self._ranges[k].max
                )
                for k in keys
            ],
            brokers=[
                response.DraftBroker(node_id=b.node_id, host=b.host, port=b.port)
                for b in message.brokers
            ],
            topic_metadata=_topics(message, response.DraftTopic, response.DraftPartition)
            if self._topics
            else [],
        )
        return encode_draft_response(answer, self._version, correlation_id)


class _DocumentedTranslator:
    as_version = 0

    def __init__(self, release_name: str) -> None:
        self._release_name = release_name
        self._topics = True

    def request(self, frame: memoryview) -> MetadataRequest:
        """Return the Metadata request that option 3's one stands for."""
        asked = decode_draft_request(documented_metadata()[0], 2, frame)
        self._topics = asked.topics is not None
        return _real_request(asked.topics)

    def response(self, message: Message, correlation_id: int) -> list[bytes | memoryview]:
        """Return option 3's answer."""
        assert isinstance(message, MetadataResponse)
        response = documented_metadata()[1]
        answer = response(
            protocol_version=protocol_version(self._release_name),
            build_description=build_description(self._release_name),
            brokers=[
                response.DocumentedBroker(node_id=b.node_id, host=b.host, port=b.port)
                for b in message.brokers
            ],
            topic_metadata=(
                _topics(message, response.DocumentedTopic, response.DocumentedPartition)
                if self._topics
                else []
            ),
        )
        return encode_draft_response(answer, 2, correlation_id)


def _real_request(topics: list[str] | None) -> MetadataRequest:
    """Metadata v0 reads an empty list as "all"; null asks for no topic, and none can be named."""
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics or []]
    )


def _topics(
    message: MetadataResponse,
    topic_class: type[T],
    partition_class: type[DraftMetadataResponse.DraftPartition],
) -> list[T]:
    return [
        topic_class(
            topic_error_code=topic.error_code,
            topic=topic.name or "",  # which only newer versions may leave out
            partition_metadata=[
                partition_class(
                    partition_error_code=partition.error_code,
                    partition_id=partition.partition_index,
                    leader=partition.leader_id,
                    replicas=partition.replica_nodes,
                    isr=partition.isr_nodes,
                )
                for partition in topic.partitions
            ],
        )
        for topic in message.topics
    ]
