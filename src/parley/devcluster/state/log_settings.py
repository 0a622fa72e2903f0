"""The settings of a topic that decide when a log begins a segment, and what its cleaner leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_CONFIG

NO_LIMIT: Final = 2**63 - 1
DAY_MS: Final = 24 * 3_600_000
POLICY: Final = "cleanup.policy"


SEGMENT_MS: Final = 7 * DAY_MS
DIRTY_RATIO: Final = 0.5


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What a topic sets, or its brokers for it; Kafka's defaults.

    `compacts` and `deletes` are the cleanup.policy: one of them, or both.
    """

    compacts: bool = False
    deletes: bool = True
    segment_ms: int = SEGMENT_MS
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = DIRTY_RATIO
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT

    @classmethod
    def of(cls, configs: Mapping[str, str], *, compacts: bool = False) -> LogSettings:
        """Return what configs say, or Refused (INVALID_CONFIG); `compacts` where they say nothing
        of the cleanup.policy.
        """
        policy = configs.get(POLICY, "compact" if compacts else "delete")
        return cls(
            "compact" in policy,
            "delete" in policy,
            _number(configs, "segment.ms", SEGMENT_MS, 0),
            _number(configs, "delete.retention.ms", DAY_MS, 0),
            _ratio(configs, "min.cleanable.dirty.ratio", DIRTY_RATIO),
            _number(configs, "min.compaction.lag.ms", 0, 0),
            _number(configs, "max.compaction.lag.ms", NO_LIMIT, 1),
        )

    @property
    def roll_ms(self) -> int:
        """After how long a segment is followed by another one: a compacted topic's is then no
        longer spared by the cleaner.
        """
        return (
            min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        )


def _number(configs: Mapping[str, str], name: str, default: int, least: int) -> int:
    return int(_value(configs, name, default, least, NO_LIMIT))


def _ratio(configs: Mapping[str, str], name: str, default: float) -> float:
    return float(_value(configs, name, default, 0, 1))


def _value(
    configs: Mapping[str, str], name: str, default: float, least: int, most: int
) -> float | int:
    text = configs.get(name)
    if text is None:
        return default
    kind = float if isinstance(default, float) else int
    try:
        number = kind(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:  # also what is no number
        raise Refused(
            INVALID_CONFIG, f"Invalid value {text} for configuration {name}: {least} to {most}"
        )
    return number
