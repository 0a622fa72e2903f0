"""What a connection reports to its owner: frozen, one per thing that happened, in order."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal

from parley.errors import KafkaError
from parley.messages import Message
from parley.protocol.policy import Translator
from parley.protocol.work import Work
from parley.versions import BrokerVersions


class _Nothing(enum.Enum):
    NEED_DATA = "NEED_DATA"
    PAUSED = "PAUSED"

    def __repr__(self) -> str:
        return self.value


NEED_DATA: Final = _Nothing.NEED_DATA
"""No event until more bytes arrive."""

PAUSED: Final = _Nothing.PAUSED
"""A broker has a request to answer first: Kafka serves one at a time per connection, in order.

Either end while a `Work` event is not finished."""

NoEvent = Literal[_Nothing.NEED_DATA, _Nothing.PAUSED]


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The connection may be used; `versions` is what the broker can do.

    `inferred` is true when the broker did not say so itself: it stayed silent and was recognised as
    older than 0.10, or a release was pinned and nothing was asked.
    """

    versions: BrokerVersions
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A login was accepted; repeat it within `session_lifetime_ms`, unless 0 (KIP-368)."""

    session_lifetime_ms: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ResponseReceived:
    """A request's answer.

    `message` may hold views of the receive buffer, which is not used again while they live.
    `throttle_ms` is the time in which the broker wants to hear nothing more on this connection.
    """

    correlation_id: int
    api_key: int
    version: int
    message: Message | None
    throttle_ms: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RequestReceived:
    """A client's request. `version` is the one to answer in; `api_version` the one it was sent in.

    `message` may hold views of the receive buffer: copy what is to be stored, or the buffer stays.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message
    api_version: int = -1
    translator: Translator | None = None
    """Of a request in a dialect: turns the answer back."""
    size_bytes: int = 0
    """How long its frame is, without the size in front."""


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """The connection is over; nothing more is received or sent on it.

    `error` is None when this side closed it, else the reason; `lost` are the correlation ids of
    requests that will never be answered. Whether the broker acted on those is unknown.
    """

    error: KafkaError | None
    lost: tuple[int, ...] = ()


Event = Authenticated | Negotiated | ResponseReceived | RequestReceived | Work | Closed
