"""Offsets of a stream: which position in which history of which partition, and their JSON.

    {"@parley": 1, "@ids": {topic: id}, "@epochs": {topic: {"0": 12}}, topic: {"0": 5}}

1. `@` cannot stand in a topic's name, so that the extra keys cannot be mistaken for topics. They
   are left out where nothing is known (brokers before 2.8 have no ids, before 2.4 no epochs to
   trust).
2. Spark compares offsets as *text*: the same state gives the same text. Extra keys first, then
   topics by name, partitions by number.
3. Plain `{topic: {"0": 5}}`, Spark's own form and that of users' options, is read as well.
4. An epoch belongs to the position beside it: it changes only when the position moves (`advance`).
   An idle stream whose leaders move therefore keeps its text, and no batch is run for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from parley.client import TopicPartition, rewound
from parley.errors import ConfigError

FORMAT = 1
FORMAT_KEY, IDS_KEY, EPOCHS_KEY = "@parley", "@ids", "@epochs"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Next offset of each partition and, where known, topic ids (text) and leader epochs."""

    positions: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the canonical form: equal states give dicts that print as equal text."""
        found: dict[str, object] = {FORMAT_KEY: FORMAT}
        topics = {tp.topic for tp in self.positions}
        ids = {topic: self.ids[topic] for topic in sorted(topics) if topic in self.ids}
        if ids:
            found[IDS_KEY] = ids
        epochs = by_topic(
            {tp: epoch for tp, epoch in self.epochs.items() if tp in self.positions and epoch >= 0}
        )
        if epochs:
            found[EPOCHS_KEY] = epochs
        return found | by_topic(self.positions)

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> Offsets:
        """Return the offsets that a checkpoint holds.

        Raises ConfigError for what is no such thing: a checkpoint of another source, or of a later
        parley.
        """
        version = found.get(FORMAT_KEY, FORMAT)
        if version != FORMAT:
            raise ConfigError(
                f"the checkpoint's offsets are of format {version}; this parley reads format "
                f"{FORMAT}. Resume the query with the parley that wrote them, or a later one."
            )
        try:
            positions = flatten(
                {key: value for key, value in found.items() if not key.startswith("@")}
            )
            epochs = flatten(_mapping(found.get(EPOCHS_KEY, {})))
            ids = {
                str(topic): str(text) for topic, text in _mapping(found.get(IDS_KEY, {})).items()
            }
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"these are not offsets of parley: {str(found)[:200]} ({error}). "
                f"Is the checkpoint location that of another query?"
            ) from error
        return cls(positions, ids, epochs)

    def topics(self) -> set[str]:
        """Return the topics that have a position."""
        return {tp.topic for tp in self.positions}

    def epoch(self, tp: TopicPartition) -> int:
        """Return the leader epoch that belongs to a position, -1 where it is unknown."""
        return self.epochs.get(tp, -1)


def recreated(start: Offsets, end: Offsets) -> dict[str, str]:
    """Return the topics that are others now, and what shows it.

    Another id does. Where one of the ids is unknown (brokers before 2.8), a leader epoch does that
    fell onto those of a new topic, or a log that ends early in the very leader epoch that its end
    was known of: no election came between, and without one nothing is cut off. Without ids and
    epochs (before 2.4) nothing does.
    """
    found = {}
    for topic, old in start.ids.items():
        if (new := end.ids.get(topic, old)) != old:
            found[topic] = f"id {old} became {new}"
    for tp, epoch in end.epochs.items():
        held = start.epochs.get(tp, -1)
        if epoch > held or tp.topic in found or not _may_be_another(tp.topic, start, end):
            continue
        if rewound(held, epoch):
            found[tp.topic] = f"the leader epoch of {tp} fell from {held} to {epoch}"
        elif epoch == held and end.positions[tp] < start.positions.get(tp, 0):
            found[tp.topic] = (
                f"{tp} ends at {end.positions[tp]} in leader epoch {epoch}, in which it ended at "
                + (f"{start.positions[tp]} before")
            )
    return found


def stepped_back(start: Offsets, end: Offsets) -> list[TopicPartition]:
    """Return the partitions whose leader epoch fell, but not so far as a new topic's."""
    back = (tp for tp, epoch in end.epochs.items() if epoch < start.epochs.get(tp, -1))
    found = [tp for tp in back if _may_be_another(tp.topic, start, end)]
    if not found:
        return found
    others = recreated(start, end)
    return sorted(tp for tp in found if tp.topic not in others)


def _may_be_another(topic: str, start: Offsets, end: Offsets) -> bool:
    return topic not in start.ids or topic not in end.ids


def advance(start: Offsets, end: Offsets, cuts: Collection[TopicPartition] = ()) -> Offsets:
    """Return `end`, with `start`'s epoch wherever nothing moved; `start` if nothing did.

    A topic that is another one now counts as moved even if its positions look the same, and so do
    partitions whose leader epoch fell, and those in `cuts`, whose log was truncated. An id once
    known is kept when nobody shows it: in a cluster of several releases older brokers cannot.
    """
    others = recreated(start, end)
    moved = {*cuts, *stepped_back(start, end)}
    kept = [
        tp
        for tp, offset in end.positions.items()
        if start.positions.get(tp) == offset and tp not in moved
    ]
    if len(kept) == len(end.positions) == len(start.positions) and not others:
        return start
    epochs = dict(end.epochs)
    for tp in kept:
        if tp.topic not in others and tp in start.epochs:
            epochs[tp] = start.epochs[tp]
    ids = {topic: text for topic, text in start.ids.items() if topic not in others}
    return Offsets(end.positions, {**ids, **end.ids}, epochs)


def by_topic(values: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return `{topic: {"partition": value}}`, topics by name, partitions by number."""
    found: dict[str, dict[str, int]] = {}
    for tp in sorted(values):
        found.setdefault(tp.topic, {})[str(tp.partition)] = values[tp]
    return found


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} instead of a mapping")
    return value


def flatten(found: Mapping[str, object]) -> dict[TopicPartition, int]:
    """Return the inverse of `by_topic`. Raises ValueError, TypeError or AttributeError."""
    values = {}
    for topic, partitions in found.items():
        for partition, value in _mapping(partitions).items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{topic}-{partition} has {value!r} instead of a number")
            values[TopicPartition(topic, int(partition))] = value
    return values


def show(partitions: Iterable[TopicPartition], limit: int = 20) -> str:
    """Return partitions as a text for errors, cut after `limit`."""
    names = [str(tp) for tp in sorted(partitions)]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
