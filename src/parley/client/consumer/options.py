"""How a consumer reads: the fetch options, its group for commits, and what to do without a position."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack

from parley.client.fetch.positions import Duration, Spec
from parley.client.options.client_options import ClientOptions, FetchOptions
from parley.client.options.fields import option, unknown_option
from parley.client.results import EARLIEST, LATEST
from parley.errors import ConfigError

if TYPE_CHECKING:
    from parley.client.options.values import ConsumerOptionValues

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerOptions(FetchOptions):
    """How a consumer reads."""

    group_id: str | None = option(None, "group whose committed offsets are used; commits need one", kind=str)
    auto_offset_reset: str = option(
        "latest", "where to read without a position: earliest, latest, by_duration:<ISO 8601 duration>, or none"
    )

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[ConsumerOptionValues]) -> Self: ...  # type: ignore[override]

    def _check_together(self) -> None:
        self.reset_policy  # noqa: B018  # raises for a text that is no policy

    @property
    def reset_policy(self) -> Spec | None:
        """The place that `auto_offset_reset` means, None for "none"."""
        text = self.auto_offset_reset.strip()
        if text.startswith("by_duration:"):
            return Duration(_milliseconds(text.removeprefix("by_duration:")))
        policies: dict[str, Spec | None] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
        if text not in policies:
            raise ConfigError(
                f'auto_offset_reset="{text}" is not one of earliest, latest, none or by_duration:PnDTnHnMnS'
            )
        return policies[text]


def _milliseconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ConfigError(f'auto_offset_reset: "{text}" is no ISO 8601 duration such as PT1H30M or P7D')
    return round(sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True)))


def split_named(named: Mapping[str, Any]) -> tuple[ClientOptions, ConsumerOptions]:
    """Return the options of the client and of the consumer out of one set of keyword arguments.

    Raises ConfigError, with the nearest name, for one that neither has.
    """
    client = {field.name for field in dataclasses.fields(ClientOptions)}
    consumer = {field.name for field in dataclasses.fields(ConsumerOptions)}
    for name in named:
        if name not in client | consumer:
            raise unknown_option(name, client | consumer)
    return (
        ClientOptions.of({name: value for name, value in named.items() if name in client}),
        ConsumerOptions.of({name: value for name, value in named.items() if name in consumer}),
    )
