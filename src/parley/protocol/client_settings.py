"""What a client's end of a connection says about itself, and how it finds the broker's versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parley.frames import DEFAULT_MAX_FRAME_BYTES
from parley.versions import MustNotUse, VersionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What a client connection says about itself and how it finds the broker's versions.

    `pinned_release` ("0.9", "2.4.1") takes that release's versions and asks nothing.
    `probe_old_brokers` sends the canary that recognises brokers older than 0.10, which would
    otherwise stay silent until a deadline passes; for the first connection to an address only,
    since the probe makes such a broker forget other clients' requests. `version_limits` narrows, by
    API key, what parley would otherwise use, and `must_not_use` takes versions out of it. `broker`
    names the broker in errors.
    """

    client_id: str = "parley"
    software_name: str = "parley"
    software_version: str = "0"
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    pinned_release: str | None = None
    probe_old_brokers: bool = False
    version_limits: Mapping[int, VersionRange] = field(default_factory=dict)
    must_not_use: tuple[MustNotUse, ...] = ()
    broker: str = ""
