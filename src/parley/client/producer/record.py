"""One record on its way in: interceptors, serializers, and whether it can be sent at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from parley.client.options import arguments
from parley.client.results import RecordMetadata
from parley.errors import ConfigError, KafkaError, broker_error
from parley.errors.codes import MESSAGE_TOO_LARGE
from parley.records import HEADER_BYTES, RECORD_BYTES
from parley.serdes import Serializer as SchemaSerializer
from parley.types import shown

log = logging.getLogger("parley.client")
BATCH_BYTES = 96
"""What one record and its batch take beside key, value and headers, at most."""
Serializer: TypeAlias = Callable[[Any], bytes | None]
"""Makes bytes of a value; an application's function takes what it sends."""
Partitioner: TypeAlias = Callable[[str, bytes | None, list[int], list[int]], int]
"""`partitioner(topic, key, partitions, available)` returns a record's partition, one of
`partitions`; those that have a leader now are `available`.
"""
RecordHeaders: TypeAlias = Iterable[tuple[str, bytes | None]]
Checked: TypeAlias = tuple[bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]], int]
"""Value, key and headers as bytes, and about how many bytes they take in a batch."""


class ProducerRecord(NamedTuple):
    """One record as it was given to a producer, for interceptors."""

    topic: str
    value: object = None
    key: object = None
    headers: RecordHeaders | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Sees each record of a producer, and what became of it (KIP-42).

    Both methods run in the thread, or in the loop, that sends. What they raise, or `on_send`
    returns that is no ProducerRecord, is logged, and changes nothing.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send instead, before it is serialized and given a partition."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        """Take note of what became of a record: called once for each, also where `send` raised."""


def intercepted(
    record: ProducerRecord, interceptors: Sequence[ProducerInterceptor]
) -> ProducerRecord:
    """Return what interceptors make of a record, each of what the one before made."""
    for interceptor in interceptors:
        try:
            changed = interceptor.on_send(record)
        except Exception:
            log.exception("an interceptor's on_send raised; its record is sent as it was")
            continue
        if isinstance(changed, ProducerRecord):
            record = changed
        else:
            log.error(
                "on_send of the interceptor %s returned %s, not a ProducerRecord; its record is "
                "sent as it was",
                type(interceptor).__name__,
                shown(changed),
            )
    return record


def acknowledged(
    interceptors: Sequence[ProducerInterceptor], error: KafkaError | None, metadata: RecordMetadata
) -> None:
    """Let interceptors know what became of a record."""
    for interceptor in interceptors:
        try:
            interceptor.on_acknowledgement(metadata, error)
        except Exception:
            log.exception("an interceptor's on_acknowledgement raised")


def checked(
    record: ProducerRecord,
    key_serializer: Serializer | None,
    value_serializer: Serializer | None,
    max_bytes: int,
) -> Checked:
    """Return a record's parts as they are sent. Raises ConfigError for what cannot be, the
    serializers' errors, and the broker's MESSAGE_TOO_LARGE beyond `max_bytes`, the smaller one of
    max_request_size and buffer_memory.
    """
    arguments.topic_name(record.topic)
    if record.partition is not None:
        arguments.number("partition", record.partition, 0, arguments.INT32)
    if record.timestamp_ms is not None:
        arguments.number("timestamp_ms", record.timestamp_ms, 0, arguments.INT64)
    value, of_value = _serialized("value", record.value, value_serializer)
    key, of_key = _serialized("key", record.key, key_serializer)
    headers = _headers(record.headers) if record.headers else ()
    if of_key or of_value:
        headers = (*headers, *_headers((*of_key, *of_value)))
    size = RECORD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key)
    for name, content in headers:
        size += HEADER_BYTES + len(name) + (0 if content is None else len(content))
    if size + BATCH_BYTES > max_bytes:
        text = (
            f"the record has {size - RECORD_BYTES} bytes and makes a batch of up to "
            f"{size + BATCH_BYTES}, more than this producer's limit of {max_bytes} (the smaller "
            "one of max_request_size and buffer_memory); it was not taken. A broker has "
            "message.max.bytes besides"
        )
        error = broker_error(MESSAGE_TOO_LARGE, text, topic=record.topic)
        raise error
    return value, key, headers, size


def _serialized(
    what: str, value: object, serializer: Serializer | None
) -> tuple[bytes | None, tuple[tuple[str, bytes], ...]]:
    """Return the bytes of a key or value, and headers to send with them."""
    if value is None or serializer is None:
        return _bytes(what, value), ()
    if isinstance(serializer, SchemaSerializer):
        found = serializer.frame(value)
        return found.value, found.headers
    return _bytes(f"{what}_serializer's result", serializer(value)), ()


def _bytes(what: str, value: object) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)  # a copy: the caller may change it, or reuse it
    raise ConfigError(
        f"{what}={shown(value)} is of type {type(value).__name__}; Kafka stores bytes: give bytes "
        f"or None{_remedy(what, value)}"
    )


def _remedy(what: str, value: object) -> str:
    if what not in ("key", "value"):
        return ", as by .encode()" if isinstance(value, str) and "serializer" not in what else ""
    how = "str.encode" if isinstance(value, str) else "a function that makes bytes of it"
    call = ", as by .encode()," if isinstance(value, str) else ","
    return f"{call} or set {what}_serializer={how}"


def _headers(headers: RecordHeaders) -> Sequence[tuple[bytes, bytes | None]]:
    if isinstance(headers, str | bytes | dict) or not isinstance(headers, Iterable):
        raise ConfigError(
            f"headers={shown(headers)} cannot be used: give pairs of text and bytes, "
            '[("name", b"value")]'
        )
    found = []
    for entry in headers:
        if not isinstance(entry, tuple) or len(entry) != 2 or not isinstance(entry[0], str):
            raise ConfigError(
                f"header {shown(entry)} cannot be used: give a pair of text and bytes, "
                '("name", b"value")'
            )
        try:
            name = entry[0].encode()
        except UnicodeEncodeError:
            raise ConfigError(f"header {shown(entry[0])} cannot be written as UTF-8") from None
        found.append((name, _bytes(f'header "{entry[0]}"', entry[1])))
    return tuple(found)
