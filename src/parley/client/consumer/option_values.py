"""The options of a consumer by name, as type checkers and editors see
them: see `options.values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.client.options.values import ClientOptionValues, FetchOptionValues, Milliseconds

if TYPE_CHECKING:
    from parley.client.consumer.deserializing import Deserialize
    from parley.client.group.assignors import Assignor


class ConsumerOptionValues(FetchOptionValues, total=False):
    """The options of ConsumerOptions."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    session_timeout_ms: Milliseconds
    heartbeat_interval_ms: Milliseconds
    max_poll_interval_ms: Milliseconds
    partition_assignment_strategy: str | Sequence[str | Assignor]
    enable_auto_commit: bool
    auto_commit_interval_ms: Milliseconds
    exclude_internal_topics: bool
    auto_offset_reset: str
    key_deserializer: Deserialize | None
    value_deserializer: Deserialize | None


class ConsumerClientOptionValues(ClientOptionValues, ConsumerOptionValues, total=False):
    """What a consumer that makes its own client is given by name."""
