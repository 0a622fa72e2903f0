"""How far a group is behind: what it has committed, against where its partitions end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from parley.client.admin.calls import Begin
from parley.client.admin.described_groups import DEAD, MemberDescription, describe_group
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.offsets.committed import read_offsets
from parley.client.offsets.list_offsets import list_offsets
from parley.client.options import arguments
from parley.client.options.client_options import READ_UNCOMMITTED
from parley.client.results import LATEST
from parley.errors import broker_error
from parley.errors.codes import GROUP_ID_NOT_FOUND
from parley.types import OffsetAndMetadata, Several, TopicPartition, text


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in one partition.

    `committed` is None where the group has committed nothing, `end_offset` None where the partition
    is gone or has no leader now, `owner` None where no member has it. The end is the high
    watermark: records of open transactions count.
    """

    committed: OffsetAndMetadata | None
    end_offset: int | None
    owner: MemberDescription | None = None

    @property
    def lag(self) -> int | None:
        """Records from the committed offset to the end, gaps included; None where one is not known.

        Negative where the end lies before it: the log was truncated, or the topic was made again.
        """
        if self.committed is None or self.end_offset is None:
            return None
        return self.end_offset - self.committed.offset


async def group_lag(
    begin: Begin,
    group_id: str,
    partitions: Several[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, PartitionLag]:
    """Return how far a group is behind in the partitions that it has committed or owns, or in some.

    Raises GroupIdNotFoundError where there is no such group, and UnsupportedVersionError, before
    offsets are asked for, where a coordinator cannot list them all (before Kafka 0.10.2): name the
    partitions then.
    """
    text("group_id", group_id)
    named = None if partitions is None else list(dict.fromkeys(arguments.partitions(partitions)))
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    group = await describe_group(cluster, group_id, deadline)
    # before the ends, so that records written in between make no negative lag
    committed = (
        {} if named == [] else await read_offsets(cluster, group_id, named, deadline, stable=False)
    )
    # brokers before 4.0 have no error for it
    if named is None and group.state == DEAD and not committed:
        raise broker_error(GROUP_ID_NOT_FOUND, f'there is no group "{group_id}"')
    owners = group.owners()
    wanted = named if named is not None else sorted({*committed, *owners})
    ends = await _ends(cluster, wanted, deadline)
    return {tp: PartitionLag(committed.get(tp), ends.get(tp), owners.get(tp)) for tp in wanted}


async def _ends(
    cluster: Cluster, wanted: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int]:
    """Return where partitions end, without those that have no leader: they would be waited for."""
    view = await cluster.describe_all(deadline)
    known = {tp: view.partition(tp) for tp in wanted}
    led = {
        tp: LATEST
        for tp, partition in known.items()
        if partition is not None and partition.leader >= 0
    }
    found = await list_offsets(cluster, led, READ_UNCOMMITTED, deadline)
    return {tp: answer.offset for tp, answer in found.items()}
