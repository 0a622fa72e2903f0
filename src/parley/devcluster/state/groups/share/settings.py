"""The settings of a share group: its own `share.*` ones over those of the brokers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from parley.devcluster.state.groups.share.partition import RecordLimits

EARLIEST, LATEST = "earliest", "latest"
_DURATION = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3})\d*)?S)?)?"
)
RESET, RENEWS, ISOLATION = (
    "share.auto.offset.reset",
    "share.renew.acknowledge.enable",
    "share.isolation.level",
)
READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """What holds for one share group; Kafka's defaults. Milliseconds, and numbers of records."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    renews: bool = True
    """`share.renew.acknowledge.enable`: members may hold records longer (KIP-1222)."""
    read_committed: bool = False
    auto_offset_reset: str = LATEST
    first_epoch: int = 0
    max_size: int = 200

    def with_configs(self, configs: Mapping[str, str]) -> ShareSettings:
        """Return the settings with a group's own ones, which were checked when they were set."""

        def number(name: str, usual: int) -> int:
            return int(configs.get(name, usual))

        isolation, renews = configs.get(ISOLATION), configs.get(RENEWS)
        return replace(
            self,
            session_timeout_ms=number("share.session.timeout.ms", self.session_timeout_ms),
            heartbeat_interval_ms=number("share.heartbeat.interval.ms", self.heartbeat_interval_ms),
            assignment_interval_ms=number(
                "share.assignment.interval.ms", self.assignment_interval_ms
            ),
            record_lock_duration_ms=number(
                "share.record.lock.duration.ms", self.record_lock_duration_ms
            ),
            delivery_count_limit=number("share.delivery.count.limit", self.delivery_count_limit),
            partition_max_record_locks=number(
                "share.partition.max.record.locks", self.partition_max_record_locks
            ),
            read_committed=self.read_committed
            if isolation is None
            else isolation == READ_COMMITTED,
            renews=self.renews if renews is None else renews.lower() == "true",
            auto_offset_reset=configs.get(RESET, self.auto_offset_reset),
        )

    @property
    def limits(self) -> RecordLimits:
        """What holds for the records in flight."""
        return RecordLimits(
            self.record_lock_duration_ms,
            self.delivery_count_limit,
            self.partition_max_record_locks,
            self.renews,
        )


def reset_duration_ms(reset: str) -> int | None:
    """Return how far back `by_duration:PnDTnHnMn.nS` goes, None for anything else.

    >>> reset_duration_ms("by_duration:PT1H0.5S"), reset_duration_ms("by_duration:P")
    (3600500, None)
    """
    found = _DURATION.fullmatch(reset)
    if found is None or not any(found.groups()) or reset.endswith("T"):
        return None
    days, hours, minutes, seconds, millis = (part or "" for part in found.groups())
    whole_s = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60
    return (whole_s + int(seconds or 0)) * 1000 + int(millis.ljust(3, "0"))


def is_reset(reset: str) -> bool:
    """Whether a text says where a share group may begin."""
    return reset in (EARLIEST, LATEST) or reset_duration_ms(reset) is not None
