"""Checks of what callers give to calls: before anything is sent, remembered or waited for.

A wrong value would otherwise be found where it does harm to others: in the set of topics that every
refresh asks for, in the middle of an encoder. Each check raises ConfigError, which says what was
given and what to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from parley.client.options.client_options import ProduceOptions
from parley.errors import ConfigError
from parley.messages import Message
from parley.types import OffsetAndMetadata, TopicPartition, several, shown, text, texts

T = TypeVar("T")
INT32, INT64 = 2**31 - 1, 2**63 - 1
OffsetsToCommit = Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata]
"""Offsets to commit: numbers, (offset, metadata), or with a leader epoch OffsetAndMetadata."""


def topic_name(value: object) -> str:
    """Return a topic's name."""
    return text("topic", value)


def topic_names(what: str, values: object) -> tuple[str, ...]:
    """Return the names of topics."""
    return texts(what, values, "topics")


def partition(value: object) -> TopicPartition:
    """Return a partition that was given as TopicPartition; a plain tuple is refused."""
    if not isinstance(value, TopicPartition):
        hint = "TopicPartition(topic, partition)"
        if isinstance(value, tuple) and len(value) == 2:
            hint = f"TopicPartition({value[0]!r}, {value[1]!r})"
        raise ConfigError(f"{shown(value)} is no partition: give {hint}")
    text("topic", value.topic)
    index = value.partition
    if type(index) is not int or not 0 <= index <= INT32:  # thousands of partitions are checked
        number(f"{value.topic}: partition", index, 0, INT32)
    return value


def partitions(values: object, what: str = "partitions") -> tuple[TopicPartition, ...]:
    """Return several partitions."""
    if isinstance(values, TopicPartition):
        raise ConfigError(
            f"{what}: {values} is one partition where several are wanted: give [{values!r}]"
        )
    return tuple(partition(one) for one in several(what, values, "partitions"))


def by_partition(
    what: str, values: Mapping[TopicPartition, T], example: str
) -> dict[TopicPartition, T]:
    """Return a copy of a mapping of partitions. `example` says how one of its items looks."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{what}={shown(values)} cannot be used: give a mapping, {{{example}}}")
    return {partition(tp): value for tp, value in values.items()}


def number(what: str, value: object, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{what}={shown(value)} is no whole number; {low} to {high} is expected")
    if not low <= value <= high:
        raise ConfigError(f"{what}={value} is out of range: {low} to {high} is expected")
    return value


def timeout(value: object, what: str = "timeout_ms") -> None:
    """Check a time-out in milliseconds; None is the default's."""
    if value is not None:
        number(what, value, 0, INT32)


def broker_id(value: object, what: str = "node_id") -> None:
    """Check a broker's id; None is any broker."""
    if value is not None:
        number(what, value, -1, INT32)


def flag(what: str, value: object) -> None:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what}={shown(value)} cannot be used: give True or False")


def instance(what: str, value: object, *kinds: type, how: str | None = None) -> None:
    """Check that a value is of one of these types. `how` says what to give instead."""
    if not isinstance(value, kinds):
        wanted = (
            how
            or "give "
            f"{' or '.join('None' if kind is type(None) else kind.__name__ for kind in kinds)}"
        )
        raise ConfigError(f"{what}={shown(value)} cannot be used: {wanted}")


def optional(what: str, value: object, kind: type, how: str | None = None) -> None:
    """Check that a value is None or of a type."""
    if value is not None:
        instance(what, value, kind, how=how)


def listener(what: str, value: object) -> None:
    """Check that a value is None or can be called."""
    if value is not None and not callable(value):
        raise ConfigError(f"{what}={shown(value)} cannot be called: give a function")


def request(value: object) -> None:
    """Check that a value is a request, with a field for everything that Kafka has there."""
    if not isinstance(value, Message) or not value.IS_REQUEST:
        raise ConfigError(
            f"message={shown(value)} is no request: give one of parley.messages, as "
            "MetadataRequest()"
        )


_USUAL_PRODUCE = ProduceOptions()
"""Made once: to check all defaults again takes longer than the rest of what a call is given."""


def writing(topic: object, to: object, options: ProduceOptions | None) -> ProduceOptions:
    """Check what a produce call was given besides its rows; return its options."""
    if topic is not None:
        topic_name(topic)
    if to is not None:
        number("partition", to, 0, INT32)
    optional("options", options, ProduceOptions)
    return options if options is not None else _USUAL_PRODUCE


def offset_to_commit(tp: TopicPartition, value: object) -> OffsetAndMetadata:
    """Return an offset given as one, as a number, or as (offset, metadata).

    >>> offset_to_commit(TopicPartition("t", 0), 7)
    OffsetAndMetadata(offset=7, metadata='', leader_epoch=-1)
    """
    if isinstance(value, OffsetAndMetadata):
        found = value
    elif isinstance(value, tuple) and len(value) == 2:
        found = OffsetAndMetadata(*value)
    else:
        found = OffsetAndMetadata(value)  # type: ignore[arg-type]  # checked now
    if (
        isinstance(found.offset, bool)
        or not isinstance(found.offset, int)
        or not 0 <= found.offset <= INT64
    ):
        raise ConfigError(f"{tp}: {shown(value)} is no offset; offsets start at 0")
    if not isinstance(found.metadata, str):
        raise ConfigError(
            f"{tp}: metadata={shown(found.metadata)} cannot be committed: a text is wanted"
        )
    number(f"{tp}: leader_epoch", found.leader_epoch, -1, INT32)
    return found


def offsets_to_commit(offsets: OffsetsToCommit) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what is to be committed, by partition."""
    found = by_partition("offsets", offsets, 'TopicPartition("flights", 0): 7')
    return {tp: offset_to_commit(tp, value) for tp, value in found.items()}
