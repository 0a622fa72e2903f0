"""What is said to whoever waits when a connection ends: which error, and what it means for them.

The connection knows one reason for its end. Who was opening it, whose request was in flight and who
comes later each get an error of their own, with that reason as its cause.
"""

from __future__ import annotations

from typing import TypeVar

from parley.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    RemoteProtocolError,
    RequestTimedOut,
)
from parley.net.address import Address
from parley.net.failures import (
    AUTHENTICATION,
    NO_LOGIN_HINT,
    REQUEST,
    SILENCE_HINT,
    VERSIONS,
    lost_request,
)
from parley.protocol import State

E = TypeVar("E", bound=KafkaError)
CLOSED_HERE = "closed by this side"


def overdue(address: Address, state: State) -> RequestTimedOut:
    """Return the reason for an end where an answer did not come in time, by what it was for."""
    if state is State.NEGOTIATING:
        text = f"ApiVersions was not answered in time: {SILENCE_HINT}"
        return RequestTimedOut(text, address=str(address), stage=VERSIONS)
    if state is State.AUTHENTICATING:
        text = "the login was not answered in time"
        return RequestTimedOut(text, address=str(address), stage=AUTHENTICATION)
    return RequestTimedOut(
        "an earlier request was not answered in time", address=str(address), stage=REQUEST
    )


def failed_opening(address: Address, reason: KafkaError | None) -> KafkaError:
    """Return the error for who was opening the connection; no reason: this side closed it."""
    if reason is None or isinstance(reason, NetworkError):
        text = CLOSED_HERE if reason is None else str(reason)
        kind = RequestTimedOut if isinstance(reason, RequestTimedOut) else NetworkError
        stage = VERSIONS if reason is None else reason.stage
        return _caused(kind(f"{address}: {text}", address=str(address), stage=stage), reason)
    if isinstance(reason, AuthenticationError):
        return _caused(AuthenticationError(f"{address}: {reason}"), reason)
    if isinstance(reason, RemoteProtocolError):
        return _caused(RemoteProtocolError(f"{address}: {reason}"), reason)
    return reason


def failed_request(
    address: Address, reason: KafkaError | None, api_key: int, *, is_overdue: bool, hints: bool
) -> KafkaError:
    """Return the error for a request in flight; `is_overdue`: it is the one that was waited for.

    `hints` as in `is_over`.
    """
    if isinstance(reason, RemoteProtocolError):
        return _caused(RemoteProtocolError(f"{address}: {reason}"), reason)
    if is_overdue:
        return RequestTimedOut(
            f"{address} did not answer in time; whether it acted on the request is unknown",
            address=str(address),
            stage=REQUEST,
        )
    return is_over(address, reason, lost_request(api_key, reason), hints=hints)


def is_over(
    address: Address, reason: KafkaError | None, consequence: str, *, hints: bool
) -> NetworkError:
    """Return the error for what an ended connection cannot do any more.

    With `hints` (nothing was ever answered, and nobody logged in) it mentions that a lost
    connection may want a login.
    """
    why = CLOSED_HERE if reason is None else str(reason)
    text = f"the connection to {address} is over ({why}); {consequence}"
    if hints and isinstance(reason, NetworkError):
        text += f". {NO_LOGIN_HINT}"
    return _caused(NetworkError(text, address=str(address), stage=REQUEST), reason)


def _caused(error: E, cause: BaseException | None) -> E:
    error.__cause__ = cause
    return error
