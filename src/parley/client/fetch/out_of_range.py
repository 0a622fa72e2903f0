"""OFFSET_OUT_OF_RANGE: is the position really gone, or was the broker that said so behind?"""

from __future__ import annotations

from parley.client.cluster.core import Cluster
from parley.client.offsets.list_offsets import list_offsets
from parley.client.options.client_options import READ_UNCOMMITTED
from parley.client.results import EARLIEST, LATEST
from parley.errors import DataLossError, KafkaError
from parley.types import TopicPartition

_ATTEMPTS = 3
"""How often a leader may contradict itself (in range, then out again) before it is believed."""


async def explain_out_of_range(
    cluster: Cluster, tp: TopicPartition, position: int, error: KafkaError, attempts: int = 1
) -> DataLossError | None:
    """Return a DataLossError that says what is there instead; None if the offset is in range.

    Asks the leader, after a refresh, where its log begins and ends. Raises what those questions
    raise.
    """
    deadline = cluster.deadline()
    await cluster.refresh_quietly(deadline)
    ends = {}
    for spec in (EARLIEST, LATEST):
        answer = await list_offsets(cluster, {tp: spec}, READ_UNCOMMITTED, deadline)
        ends[spec.name] = answer[tp].offset
    first, end = ends["earliest"], ends["latest"]
    if first <= position <= end and attempts < _ATTEMPTS:
        return None
    where = f"offset {position} of {tp} is not in the log, which holds offsets {first} to {end - 1}"
    if position < first:
        why = (
            f"retention or a deletion removed {first - position} offsets before they were read; "
            f"go on from {first}"
        )
    else:
        why = (
            "the log is shorter than it was (truncated or re-created), or the offset was never "
            f"there; it ends at {end}"
        )
    loss = DataLossError(
        f"{where}: {why}",
        topic=tp.topic,
        partition=tp.partition,
        expected_offset=position,
        available_offset=first if position < first else end,
    )
    loss.__cause__ = error
    return loss
