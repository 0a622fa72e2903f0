"""The exception classes that do not depend on the broker's table of codes."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from typing import TypeVar


class KafkaError(Exception):
    """The base of everything parley raises on purpose.

    `retriable` says whether the same call may succeed later; `refresh_metadata` whether the
    metadata it rested on must be asked for again first.
    """

    retriable: bool = False
    refresh_metadata: bool = False


Error = TypeVar("Error", bound=KafkaError)


def own_copy(error: Error) -> Error:
    """Return an error of the same class, text, fields; own notes, no traceback or cause."""
    made = copy.copy(error)
    if hasattr(error, "__notes__"):
        made.__notes__ = list(error.__notes__)
    return made


class LocalProtocolError(KafkaError):
    """This side broke the protocol's rules; nothing was sent. Correct the call."""


class RemoteProtocolError(KafkaError):
    """The peer's bytes break the protocol; its connection is dropped and must not be used again."""


class CorruptRecordError(RemoteProtocolError):
    """Stored records fail their checks (CRC, counts, lengths). The position does not advance.

    `offset` is the first offset that could not be read. Seek past it, or repair the log, to go on.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class UnsupportedVersionError(KafkaError):
    """The broker cannot do what was asked (KIP-97).

    `local` is true when parley found out from the negotiated ranges and sent no byte, false when
    the broker itself answered UNSUPPORTED_VERSION (35). Ranges are `(min, max)` or None where a
    side does not have the API at all. `first_release` is the first Kafka release that can do it.
    """

    def __init__(
        self,
        message: str,
        *,
        api: str | None = None,
        client_range: tuple[int, int] | None = None,
        broker_range: tuple[int, int] | None = None,
        broker: str | None = None,
        feature: str | None = None,
        first_release: str | None = None,
        local: bool = True,
    ) -> None:
        super().__init__(message)
        self.api = api
        self.client_range = client_range
        self.broker_range = broker_range
        self.broker = broker
        self.feature = feature
        self.first_release = first_release
        self.local = local


class NetworkError(KafkaError):
    """A connection could not be made or was lost; `stage` says where.

    Stages: "name lookup", "token", "connect", "tls", "versions", "authentication", "request".
    """

    retriable = True
    refresh_metadata = True

    def __init__(
        self, message: str, *, address: str | None = None, stage: str | None = None
    ) -> None:
        super().__init__(message)
        self.address = address
        self.stage = stage


class RequestTimedOut(NetworkError):
    """A deadline passed before the answer. Whether the broker acted on it is unknown."""


ADDRESSES_SHOWN = 5
"""By the text of BrokersUnreachable; its `failures` has all."""


class BrokersUnreachable(NetworkError):
    """None of the given addresses could be used; `failures` holds the error of each address.

    It is retriable when one of them is: a listener of another kind stays what it is.
    """

    def __init__(self, failures: dict[str, Exception]) -> None:
        shown = list(failures.items())[:ADDRESSES_SHOWN]
        lines = [
            f"{address}: {str(error).removeprefix(f'{address}: ')}" for address, error in shown
        ]
        if len(failures) > len(shown):
            lines.append(f"and {len(failures) - len(shown)} more")
        super().__init__(
            f"no broker could be reached ({'; '.join(lines)}). Check the addresses and the "
            "listeners."
        )
        self.failures = failures
        self.retriable = any(getattr(error, "retriable", True) for error in failures.values())

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.failures,)


class AuthenticationError(KafkaError):
    """The broker refused the credentials or the mechanism; the same ones will not do later."""


class ConfigError(KafkaError, ValueError):
    """An option or argument cannot be used; the text says which, what may be, the remedy."""


class NotInstalledError(ModuleNotFoundError, ConfigError):
    """A part of parley that an extra brings is not installed; the text says what to install."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f'{module} is not installed: pip install "kafka-parley[{extra}]"', name=module
        )
        self.extra = extra

    def __reduce__(self) -> tuple[type[NotInstalledError], tuple[str | None, str]]:
        return type(self), (self.name, self.extra)


class BufferExhaustedError(KafkaError):
    """A record found no room in `buffer_memory` within `max_block_ms`; it was not taken.

    Send it again later, wait for what was sent (`flush`), or give more buffer_memory. Where
    brokers do not answer, what is in the buffer fails after `delivery_timeout_ms`.
    """

    retriable = True

    def __init__(
        self, topic: str, size: int, used_bytes: int, buffer_memory: int, waited_ms: int
    ) -> None:
        self.topic, self.size, self.used_bytes = topic, size, used_bytes
        self.buffer_memory, self.waited_ms = buffer_memory, waited_ms
        super().__init__(
            f"no room for a record of {size} bytes for {topic}: {used_bytes} of "
            f"buffer_memory={buffer_memory} bytes wait for their acknowledgement, and "
            f"{waited_ms} ms of waiting (max_block_ms) changed nothing; the record was not taken"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (
            self.topic, self.size, self.used_bytes, self.buffer_memory, self.waited_ms,
        )  # fmt: skip


class DataLossError(KafkaError):
    """Records that should be there are gone (retention, truncation, a deleted topic)."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        expected_offset: int | None = None,
        available_offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.expected_offset = expected_offset
        self.available_offset = available_offset


class LogTruncationError(DataLossError):
    """The log was truncated below a position: what was read is another history (KIP-320).

    `position` and `position_epoch` are the next offset that was to be read and the leader epoch of
    the record before it. `divergent_offset` and `divergent_epoch` say where the leader's log leaves
    that history: everything before is still the same. They are None where the leader does not know.
    Seek to the divergent offset to go on; records from there to the position were read and exist no
    more.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        position: int | None = None,
        position_epoch: int = -1,
        divergent_offset: int | None = None,
        divergent_epoch: int | None = None,
    ) -> None:
        super().__init__(
            message,
            topic=topic,
            partition=partition,
            expected_offset=position,
            available_offset=divergent_offset,
        )
        self.position = position
        self.position_epoch = position_epoch
        self.divergent_offset = divergent_offset
        self.divergent_epoch = divergent_epoch


class TopicRecreatedError(DataLossError):
    """The topic was deleted and created again (KIP-516): the old one's offsets mean nothing now.

    `planned_id` and `found_id` are the topic ids (16 bytes; empty where the release has none).
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        expected_offset: int | None = None,
        planned_id: bytes = b"",
        found_id: bytes = b"",
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, expected_offset=expected_offset)
        self.planned_id = planned_id
        self.found_id = found_id


def printable(text: str, most_chars: int = 500) -> str:
    """Return foreign text as it may stand in an error or a log: one line, nothing that a terminal
    obeys, not too long.

    >>> printable("a\\x1b[31m\\nb")
    'a\\\\x1b[31m\\\\nb'
    """
    shown = text[:most_chars] + ("..." if len(text) > most_chars else "")
    if shown.isprintable():
        return shown
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown
    )


def nearest_hint(name: str, known: Iterable[str], likeness: float = 0.5) -> str:
    """Return ` Did you mean "x"?` for the known name closest to `name`, or an empty string."""
    found = difflib.get_close_matches(name[:200], list(known), n=1, cutoff=likeness)
    return f' Did you mean "{found[0]}"?' if found else ""
