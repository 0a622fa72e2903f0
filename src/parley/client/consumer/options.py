"""How a consumer reads: the fetch options, its group, and what to do without a position."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, Unpack

from parley.client.consumer.deserializing import Deserialize, Deserializers, deserializers
from parley.client.fetch.positions import Duration, Spec
from parley.client.group.assignors import by_name
from parley.client.group.assignors.base import Assignor
from parley.client.options.client_options import FetchOptions
from parley.client.options.fields import option
from parley.client.results import EARLIEST, LATEST
from parley.errors import ConfigError

if TYPE_CHECKING:
    from parley.client.consumer.option_values import ConsumerOptionValues

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_CLASSIC_ONLY = {
    "session_timeout_ms": "the brokers set it, by group.consumer.session.timeout.ms",
    "heartbeat_interval_ms": "the brokers set it, by group.consumer.heartbeat.interval.ms",
    "partition_assignment_strategy": "the coordinator assigns; take group_remote_assignor",
}
"""Options of classic members, and what takes their place in the consumer protocol."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerOptions(FetchOptions):
    """How a consumer reads."""

    group_id: str | None = option(
        None,
        "group to be a member of, and whose committed offsets are used; subscribe and commit "
        "need one",
        kind=str,
        sent=True,
    )
    group_instance_id: str | None = option(
        None,
        "name of this static member: it may be away for a session and keeps its partitions "
        "(Kafka 2.3)",
        kind=str,
        sent=True,
    )
    group_protocol: str = option(
        "classic",
        "how to be a member: classic, consumer (KIP-848, Kafka 4.0), or auto: consumer where "
        "the brokers have it",
        choices=("classic", "consumer", "auto"),
    )
    group_remote_assignor: str | None = option(
        None,
        "assignor of the coordinator, uniform or range, with the consumer protocol; None: "
        "its first",
        kind=str,
        sent=True,
    )
    session_timeout_ms: int = option(
        45_000, "after so long without a heartbeat the group goes on without this member", low=1
    )
    heartbeat_interval_ms: int = option(
        3_000, "time between two heartbeats; a third of session_timeout_ms at most is usual", low=1
    )
    max_poll_interval_ms: int = option(
        300_000, "after so long between two polls the member leaves its group", low=1
    )
    partition_assignment_strategy: str | Sequence[str | Assignor] = option(
        "range,cooperative-sticky",
        "assignors in the order of preference: range, roundrobin, sticky, "
        "cooperative-sticky, or an object of your own",
        kind=tuple,
    )
    enable_auto_commit: bool = option(
        True, "commit positions regularly, before partitions are given up, and at close"
    )
    auto_commit_interval_ms: int = option(5_000, "time between two automatic commits", low=0)
    exclude_internal_topics: bool = option(
        True, "leave internal topics out of what a pattern matches"
    )
    auto_offset_reset: str = option(
        "latest",
        "where to read without a position: earliest, latest, by_duration:<ISO 8601 "
        "duration>, or none",
    )

    key_deserializer: Deserialize | None = field(default=None)
    """Makes the key of a record of its bytes, where it has some: a function, or a
    `parley.serdes.Deserializer`. Arrow batches stay bytes."""
    value_deserializer: Deserialize | None = field(default=None)
    """The same for values."""

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[ConsumerOptionValues]) -> Self: ...  # type: ignore[override]

    def _check_together(self) -> None:
        self.reset_policy  # noqa: B018  # raises for a text that is no policy
        self.assignors  # noqa: B018  # raises for a name that is no assignor
        self.deserializers  # noqa: B018  # raises for what is no deserializer
        self._check_protocol()
        if self.group_instance_id == "":
            raise ConfigError("group_instance_id: '' is no name; None is a member without one")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} has to be smaller than "
                f"session_timeout_ms={self.session_timeout_ms}: take a third of it"
            )

    def _check_protocol(self) -> None:
        """Refuse options of the other protocol's members (G49)."""
        if self.group_protocol == "classic" and self.group_remote_assignor is not None:
            raise ConfigError(
                'group_remote_assignor is for group_protocol="consumer" or "auto"; classic '
                "members have partition_assignment_strategy"
            )
        if self.group_protocol != "consumer":
            return
        for one in dataclasses.fields(self):
            if one.name in _CLASSIC_ONLY and getattr(self, one.name) != one.default:
                raise ConfigError(
                    f'{one.name} is not for group_protocol="consumer": {_CLASSIC_ONLY[one.name]}'
                )

    @property
    def deserializers(self) -> Deserializers | None:
        """What makes keys and values, None where both stay bytes."""
        return deserializers(self.key_deserializer, self.value_deserializer)

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        """The assignors that `partition_assignment_strategy` means."""
        strategy = self.partition_assignment_strategy
        if isinstance(strategy, str):
            strategy = [name.strip() for name in strategy.split(",")]
        return by_name(strategy)

    @property
    def reset_policy(self) -> Spec | None:
        """The place that `auto_offset_reset` means, None for "none"."""
        text = self.auto_offset_reset.strip()
        if text.startswith("by_duration:"):
            return Duration(_milliseconds(text.removeprefix("by_duration:")))
        policies: dict[str, Spec | None] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
        if text not in policies:
            raise ConfigError(
                f'auto_offset_reset="{text}" is not one of earliest, latest, none or '
                "by_duration:PnDTnHnMnS"
            )
        return policies[text]


def _milliseconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ConfigError(
            f'auto_offset_reset: "{text}" is no ISO 8601 duration such as PT1H30M or P7D'
        )
    return round(
        sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True))
    )
