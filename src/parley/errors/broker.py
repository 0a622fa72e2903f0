"""Errors that a broker answers with: one class per code, built from `codes.txt`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple, TypedDict

from parley.errors.rights import missing_right
from parley.errors.tree import KafkaError, UnsupportedVersionError, printable

_MAX_MESSAGE_CHARS = 2_000


class ErrorCode(NamedTuple):
    """One line of `codes.txt`."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool


class BrokerError(KafkaError):
    """The broker refused a request, or a part of it, with an error code.

    `code` and `name` are Kafka's. `topic`, `partition`, `api`, `version`, `broker` and `resource`
    ("group g") say where, as far as it is known. Subclasses are named after the code
    (`NotLeaderOrFollowerError`, ...) and imported from `parley.errors`; `broker_error` makes the
    right one.
    """

    code: int = -1
    name: str = "UNKNOWN_SERVER_ERROR"
    by_code: ClassVar[dict[int, type[BrokerError]]] = {}

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        api: str | None = None,
        version: int | None = None,
        broker: str | None = None,
        resource: str | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.api = api
        self.version = version
        self.broker = broker
        self.resource = resource
        self.broker_message = message
        super().__init__(self._text())

    def __reduce__(self) -> tuple[object, ...]:
        # The classes are made of a table and cannot be
        # found by name: Spark's workers pickle errors.
        facts = _Facts(
            topic=self.topic,
            partition=self.partition,
            api=self.api,
            version=self.version,
            broker=self.broker,
            resource=self.resource,
        )
        return _restored, (self.code, self.broker_message, facts)

    def _text(self) -> str:
        where = []
        if self.api is not None:
            where.append(f"{self.api} v{self.version}" if self.version is not None else self.api)
        if self.topic is not None:
            where.append(self.topic if self.partition is None else f"{self.topic}-{self.partition}")
        if self.resource is not None:
            where.append(printable(self.resource))
        if self.broker is not None:
            where.append(f"broker {self.broker}")
        text = f"{self.name} ({self.code})"
        if where:
            text += f" [{', '.join(where)}]"
        said = printable(self.broker_message, _MAX_MESSAGE_CHARS) if self.broker_message else None
        right = missing_right(self.code, self.api)
        if said and right:
            said = f"{said.rstrip('.')}; {right}"
        why = said or right
        return text if why is None else f"{text}: {why}"


class UnknownBrokerError(BrokerError):
    """The broker answered with a code that no release up to 4.3.0 defines; `code` keeps it."""

    def __init__(self, message: str | None = None, *, code: int, **where: object) -> None:
        self.code = code
        self.name = f"UNKNOWN_CODE_{code}"
        super().__init__(message, **where)  # type: ignore[arg-type]  # the same keywords as the base


class _Facts(TypedDict):
    """Where an error came from, as far as it is known."""

    topic: str | None
    partition: int | None
    api: str | None
    version: int | None
    broker: str | None
    resource: str | None


def _restored(code: int, message: str | None, facts: _Facts) -> KafkaError:
    return broker_error(code, message, **facts)


@cache
def error_codes() -> dict[int, ErrorCode]:
    """Return the table of Kafka's error codes, by code."""
    table = {}
    text = Path(__file__).with_name("codes.txt").read_text(encoding="ascii")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            code, name, retriable, refresh = line.split()
            table[int(code)] = ErrorCode(
                int(code), name, retriable == "retriable", refresh == "refresh"
            )
    return table


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, `UNKNOWN_CODE_n` for one without a name.

    >>> error_name(6)
    'NOT_LEADER_OR_FOLLOWER'
    """
    known = error_codes().get(code)
    return known.name if known is not None else f"UNKNOWN_CODE_{code}"


_OTHER_NAMES = {
    13: "BrokerNetworkError",
    90: "BrokerProducerFencedError",
    120: "BrokerTransactionAbortableError",
}
"""Where an error that is no answer of a broker has the name already."""
_NO_ERRORS = (0, 35)
"""NONE; and UNSUPPORTED_VERSION, which is UnsupportedVersionError whoever says it."""


@cache
def error_names() -> dict[str, int]:
    """Return the names of the errors that brokers answer with, and their codes.

    They are those of Kafka's exceptions, with Error for Exception.

    >>> error_names()["NotLeaderOrFollowerError"], error_names()["KafkaStorageError"]
    (6, 56)
    """
    return {
        _error_class_name(entry): entry.code
        for entry in error_codes().values()
        if entry.code not in _NO_ERRORS
    }


def _error_class_name(entry: ErrorCode) -> str:
    words = entry.name.removesuffix("_ERROR").removesuffix("_EXCEPTION").split("_")
    return _OTHER_NAMES.get(entry.code) or "".join(word.capitalize() for word in words) + "Error"


@cache
def _codes_by_name() -> dict[str, int]:
    return {entry.name: entry.code for entry in error_codes().values()}


def named(module: str, name: str) -> int | type[BrokerError]:
    """Return a name's code or error: a module's attribute. Raises AttributeError without one."""
    code = (_codes_by_name() if name.isupper() else error_names()).get(name)
    if code is None:
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}: no error code of Kafka has that name"
        )
    return code if name.isupper() else _class_for(error_codes()[code])


def _class_for(entry: ErrorCode) -> type[BrokerError]:
    found = BrokerError.by_code.get(entry.code)
    if found is None:
        found = type(
            _error_class_name(entry),
            (BrokerError,),
            {
                "__doc__": f"Kafka's error {entry.code}, {entry.name}.",
                "__module__": "parley.errors",
                "code": entry.code,
                "name": entry.name,
                "retriable": entry.retriable,
                "refresh_metadata": entry.refresh_metadata,
            },
        )
        # two threads must leave with the same class
        found = BrokerError.by_code.setdefault(entry.code, found)
    return found


def broker_error(
    code: int,
    message: str | None = None,
    *,
    topic: str | None = None,
    partition: int | None = None,
    api: str | None = None,
    version: int | None = None,
    broker: str | None = None,
    resource: str | None = None,
) -> KafkaError:
    """Return (not raise) the exception for a broker's error code.

    Code 35 gives `UnsupportedVersionError(local=False)`; an unnamed code `UnknownBrokerError`.
    """
    if code == 35:
        text = (
            printable(message or "", _MAX_MESSAGE_CHARS)
            or f"broker {broker or '?'} does not support {api or 'this request'} v{version}"
        )
        return UnsupportedVersionError(text, api=api, broker=broker, local=False)
    entry = error_codes().get(code)
    if entry is None:
        return UnknownBrokerError(
            message,
            code=code,
            topic=topic,
            partition=partition,
            api=api,
            version=version,
            broker=broker,
            resource=resource,
        )
    return _class_for(entry)(
        message,
        topic=topic,
        partition=partition,
        api=api,
        version=version,
        broker=broker,
        resource=resource,
    )
