"""Which topics and partitions a request asks about, for every API alike; and requests and answers
in parts.

Rules of this file:
1. It knows no API: topics are recognised by how Kafka's definitions name them.
2. Topic ids become names by the names that are given; an id without a name stays its own text.
3. A request is only split where its topics are at its top level, as in all that clients send to
   leaders.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from parley.messages import Message, MessageStruct
from parley.types import ZERO_UUID, format_uuid

S = TypeVar("S", bound=MessageStruct)

Topic = MessageStruct | str
"""Some requests name topics as texts."""
Asked = dict[str, tuple[int, ...]]
"""Topic → the partitions asked about; none where topics are asked about as a whole."""

_TOPICS = ("topics", "topic_data", "topic_partitions", "v3_and_below_topics")
_ENCLOSING = ("groups", "transactions")
_ANSWERED_TOPICS = ("responses", "topics", "results_by_topic_v3_and_below")
_NAMES = ("name", "topic", "topic_name")
_INDEXES = ("partition_index", "partition", "index", "partition_id")


def asked_about(request: MessageStruct, names: Mapping[bytes, str]) -> Asked:
    """Return the topics and partitions of a request.

    >>> from parley.messages import ProduceRequest as P
    >>> one = P.TopicProduceData(name="t", partition_data=[P.PartitionProduceData(index=3)])
    >>> asked_about(P(topic_data=[one]), {})
    {'t': (3,)}
    """
    found: dict[str, list[int]] = {}
    for topic in _topics_of(request):
        partitions = found.setdefault(_name_of(topic, names), [])
        place = _partitions_field(topic)
        partitions += [_index_of(part) for part in getattr(topic, place) or ()] if place else ()
    return {name: tuple(indexes) for name, indexes in found.items()}


def _topics_of(source: MessageStruct) -> Iterator[Topic]:
    for field in source.FIELDS:
        if field.is_array and field.name in _TOPICS:
            yield from getattr(source, field.name) or ()
        elif field.is_array and field.name in _ENCLOSING and field.struct is not None:
            for part in getattr(source, field.name) or ():
                yield from _topics_of(part)


def _name_of(topic: Topic, names: Mapping[bytes, str]) -> str:
    if isinstance(topic, str):
        return topic
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    for name in _NAMES:
        found = (
            getattr(topic, name, None)
            if any(field.name == name for field in topic.FIELDS)
            else None
        )
        if isinstance(found, str) and (found or topic_id == ZERO_UUID):
            return found
    return names.get(topic_id) or format_uuid(topic_id)


def _partitions_field(topic: Topic) -> str | None:
    fields = getattr(topic, "FIELDS", ())
    return next(
        (field.name for field in fields if field.is_array and "partition" in field.name), None
    )


def _index_of(partition: MessageStruct | int) -> int:
    if isinstance(partition, int):
        return partition
    names = {field.name for field in partition.FIELDS}
    return int(getattr(partition, next(name for name in _INDEXES if name in names)))


Wanted = Callable[[str, int | None], bool]
"""Whether a part is wanted: a topic's name, and a partition or None for a topic as a whole."""


def split(
    request: Message, names: Mapping[bytes, str], wanted: Wanted
) -> tuple[Message | None, Message | None]:
    """Return the part of a request that is not wanted, and the part that is; None for an empty one.

    A request whose topics are not at its top level is wanted whole if any of it is.
    """
    place = next(
        (field.name for field in request.FIELDS if field.is_array and field.name in _TOPICS), None
    )
    if place is None or not getattr(request, place):
        asked = asked_about(request, names)
        hit = any(
            wanted(topic, index) for topic, indexes in asked.items() for index in indexes or (None,)
        )
        return (None, request) if hit else (request, None)
    kept: list[Topic] = []
    taken: list[Topic] = []
    for topic in getattr(request, place):
        for piece, into in zip(_split_topic(topic, names, wanted), (kept, taken), strict=True):
            if piece is not None:
                into.append(piece)
    return _with(request, place, kept), _with(request, place, taken)


def _split_topic(
    topic: Topic, names: Mapping[bytes, str], wanted: Wanted
) -> tuple[Topic | None, Topic | None]:
    name, place = _name_of(topic, names), _partitions_field(topic)
    if place is None or isinstance(topic, str):
        return (None, topic) if wanted(name, None) else (topic, None)
    parts = getattr(topic, place) or ()
    taken = [part for part in parts if wanted(name, _index_of(part))]
    kept = [part for part in parts if not wanted(name, _index_of(part))]
    return _with(topic, place, kept), _with(topic, place, taken)


def _with(whole: S, place: str, parts: Sequence[object]) -> S | None:
    if not parts:
        return None
    made = copy.copy(whole)
    setattr(made, place, parts)
    return made


def joined(answer: Message, other: Message, names: Mapping[bytes, str]) -> Message:
    """Return `answer` with the topics and partitions of `other` in it, which
    replace those of the same name.
    """
    place = next(
        (
            field.name
            for field in answer.FIELDS
            if field.is_array and field.name in _ANSWERED_TOPICS
        ),
        None,
    )
    if place is None:
        return other
    topics = list(getattr(answer, place) or ())
    for added in getattr(other, place) or ():
        name, partitions = _name_of(added, names), _partitions_field(added)
        at = next((i for i, topic in enumerate(topics) if _name_of(topic, names) == name), None)
        if at is None:
            topics.append(added)
        elif partitions is None or not getattr(added, partitions):
            topics[at] = added
        else:
            new = {_index_of(part) for part in getattr(added, partitions)}
            old = [
                part for part in getattr(topics[at], partitions) or () if _index_of(part) not in new
            ]
            topics[at] = _with(topics[at], partitions, [*old, *getattr(added, partitions)])
    return _with(answer, place, topics) or other
