"""Share groups (KIP-932) request by request: what tests of brokers say to them, and read off."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from parley.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from parley_laboratory.wire import Wire

GROUP_RESOURCE, SET = 32, 0
HEARTBEAT_VERSION, CONFIGS_VERSION, SHARE_VERSION = 1, 1, 2
Ack = tuple[int, int, Sequence[int]]
"""First and last offset, and the types: one for all or one for each."""
Asked = tuple[bytes, int, Sequence[Ack]]
"""Topic id, partition, acknowledgements."""


def set_group(address: str, group: str, settings: Mapping[str, str]) -> None:
    """Change settings of a group. Raises ValueError when the broker refuses."""
    made = IncrementalAlterConfigsRequest
    configs = [
        made.AlterableConfig(name=name, config_operation=SET, value=value)
        for name, value in settings.items()
    ]
    resource = made.AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=configs
    )
    with Wire(address) as wire:
        answer: IncrementalAlterConfigsResponse = wire.ask(
            made(resources=[resource]), CONFIGS_VERSION
        )
    if answer.responses[0].error_code:
        raise ValueError(answer.responses[0].error_message)


def given(answer: ShareFetchResponse) -> list[tuple[int, int, int]]:
    """Return first and last offset and deliveries of what an answer gives."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]


class ShareMember:
    """One member of a share group on one connection to one broker; it
    counts its session's epochs.
    """

    def __init__(self, address: str, group: str, member: str = "") -> None:
        self.wire, self.group = Wire(address, timeout_s=40.0), group
        self.member = member or str(uuid.uuid4())
        self.epoch = self.session_epoch = 0

    def close(self) -> None:
        """Close the connection, which ends the session."""
        self.wire.close()

    def heartbeat(self, topics: Iterable[str] | None = None) -> ShareGroupHeartbeatResponse:
        """Say that it is there, and what it reads."""
        answer: ShareGroupHeartbeatResponse = self.wire.ask(
            ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member,
                member_epoch=self.epoch,
                subscribed_topic_names=None if topics is None else list(topics),
            ),
            HEARTBEAT_VERSION,
        )
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer

    def request(
        self,
        *asked: Asked,
        wait_ms: int = 30_000,
        records: int = 500,
        batch: int = 500,
        strict: bool = False,
    ) -> ShareFetchRequest:
        """Return a request to read from the partitions of its session, and more,
        with acknowledgements.
        """
        made = ShareFetchRequest
        request = made(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=records,
            batch_size=batch,
            share_acquire_mode=int(strict),
        )
        for topic_id, index, acks in asked:
            part = made.FetchPartition(partition_index=index)
            part.acknowledgement_batches = [
                made.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in acks
            ]
            request.topics.append(made.FetchTopic(topic_id=topic_id, partitions=[part]))
        return request

    def fetch(
        self, *asked: Asked, wait_ms: int = 0, version: int = SHARE_VERSION
    ) -> ShareFetchResponse:
        """Read what there is."""
        answer: ShareFetchResponse = self.wire.ask(self.request(*asked, wait_ms=wait_ms), version)
        self._next(answer.error_code)
        return answer

    def acknowledge(self, topic_id: bytes, index: int, *acks: Ack, renews: bool = False) -> int:
        """Acknowledge records of a partition; return the code that it gets,
        or that of the request.
        """
        made = ShareAcknowledgeRequest
        part = made.AcknowledgePartition(partition_index=index)
        part.acknowledgement_batches = [
            made.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types)
            )
            for first, last, types in acks
        ]
        request = made(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            is_renew_ack=renews,
            topics=[made.AcknowledgeTopic(topic_id=topic_id, partitions=[part])],
        )
        answer: ShareAcknowledgeResponse = self.wire.ask(request, SHARE_VERSION)
        self._next(answer.error_code)
        return answer.error_code or answer.responses[0].partitions[0].error_code

    def _next(self, code: int) -> None:
        if code == 0 and self.session_epoch >= 0:
            self.session_epoch += 1
