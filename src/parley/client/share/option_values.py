"""The options of a share consumer by name, as type checkers and editors see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from parley.client.options.values import ClientOptionValues, Milliseconds

if TYPE_CHECKING:
    from parley.client.consumer.deserializing import Deserialize


class ShareConsumerOptionValues(TypedDict, total=False):
    """The options of ShareConsumerOptions."""

    group_id: str | None
    share_acknowledgement_mode: str
    share_acquire_mode: str
    share_prefetch: bool
    max_poll_records: int
    max_poll_interval_ms: Milliseconds
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: Milliseconds
    check_crcs: bool
    client_rack: str
    max_decompressed_bytes: int
    key_deserializer: Deserialize | None
    value_deserializer: Deserialize | None


class ShareConsumerClientOptionValues(ClientOptionValues, ShareConsumerOptionValues, total=False):
    """What a share consumer that makes its own client is given by name."""
