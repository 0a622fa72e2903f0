"""How a share consumer reads: its group, how records are acknowledged, how many come at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, Unpack

from parley.client.consumer.deserializing import Deserialize, Deserializers, deserializers
from parley.client.group.share.wire import BATCH_OPTIMIZED, RECORD_LIMIT, Limits
from parley.client.options.client_options import FetchOptions
from parley.client.options.fields import OptionSet, option
from parley.errors import ConfigError

if TYPE_CHECKING:
    from parley.client.share.option_values import ShareConsumerOptionValues

IMPLICIT, EXPLICIT = "implicit", "explicit"
_INT32 = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareConsumerOptions(OptionSet):
    """How a share consumer reads. What the group has in common, such as where it begins, is the
    broker's configuration of the group (`share.auto.offset.reset`, `share.isolation.level`,
    `share.record.lock.duration.ms`)."""

    group_id: str | None = option(
        None, "share group to be a member of; it has to be given", kind=str, sent=True
    )
    share_acknowledgement_mode: str = option(
        IMPLICIT,
        "implicit: a poll accepts what the one before returned; explicit: each record is "
        "acknowledged",
        choices=(IMPLICIT, EXPLICIT),
    )
    share_acquire_mode: str = option(
        BATCH_OPTIMIZED,
        "whether a broker may give whole batches, or no more than max_poll_records "
        "(KIP-1206, Kafka 4.2)",
        choices=(BATCH_OPTIMIZED, RECORD_LIMIT),
    )
    share_prefetch: bool = option(
        False,
        "whether the next records are acquired while the application works on those of the last "
        "poll (parley's own)",
    )
    max_poll_records: int = option(
        500, "most records that a poll returns, and that a broker is asked for", low=1, high=_INT32
    )
    max_poll_interval_ms: int = option(
        300_000, "after so long between two polls the member leaves its group", low=1
    )
    fetch_min_bytes: int = option(1, "bytes of records that a broker waits for", low=0, high=_INT32)
    fetch_max_bytes: int = option(
        50 * 2**20, "most bytes of records in one answer", low=0, high=_INT32
    )
    fetch_max_wait_ms: int = option(
        500, "how long a broker waits for fetch_min_bytes", low=0, high=_INT32
    )
    check_crcs: bool = option(True, "whether the checksum of each batch is checked")
    client_rack: str = option("", "rack of this client", sent=True)
    max_decompressed_bytes: int = option(
        256 * 2**20,
        "largest size of one record batch when decompressed (parley's own)",
        low=1,
        high=_INT32,
    )

    key_deserializer: Deserialize | None = field(default=None)
    """Makes the key of a record of its bytes, where it has some: a function, or a
    `parley.serdes.Deserializer`. Arrow batches stay bytes."""
    value_deserializer: Deserialize | None = field(default=None)
    """The same for values."""

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[ShareConsumerOptionValues]) -> Self: ...  # type: ignore[override]

    def _check_together(self) -> None:
        self.deserializers  # noqa: B018  # raises for what is no deserializer
        if self.share_prefetch and self.share_acquire_mode == RECORD_LIMIT:
            raise ConfigError(
                f'share_prefetch=True contradicts share_acquire_mode="{RECORD_LIMIT}", by which '
                "a consumer has no more than max_poll_records at a time: leave one of them out"
            )

    @property
    def deserializers(self) -> Deserializers | None:
        """What makes keys and values, None where both stay bytes."""
        return deserializers(self.key_deserializer, self.value_deserializer)

    @property
    def explicit(self) -> bool:
        """Whether the application acknowledges each record."""
        return self.share_acknowledgement_mode == EXPLICIT

    @property
    def limits(self) -> Limits:
        """How much one request asks for."""
        return Limits(
            self.fetch_max_wait_ms,
            self.fetch_min_bytes,
            self.fetch_max_bytes,
            self.max_poll_records,
            self.share_acquire_mode,
        )

    @property
    def decoding(self) -> FetchOptions:
        """How record bytes are decoded."""
        return FetchOptions(
            check_crcs=self.check_crcs, max_decompressed_bytes=self.max_decompressed_bytes
        )
