"""How the cluster's metadata becomes journal entries, and comes back.

| kind | says |
|---|---|
| cluster | the cluster id and the layout's version |
| topic | everything about one topic; a later one replaces it |
| no-topic | the topic was deleted |
| no-group | a share group was deleted, and what it had in flight |
| start | records below an offset were deleted |
| cleaned | how far a broker has compacted a log |
| broker-configs | the dynamic settings of a broker, or of all ("") |
| group-configs | the settings of a group |
| producers | the next producer id |

Those of transactions are in `transactions.persistence`, those of the partitions of share groups in
`groups.share.persistence`. Groups and committed offsets are records of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from parley.devcluster.state.groups.share.persistence import KINDS as SHARE_KINDS
from parley.devcluster.state.groups.share.registry import ShareGroups
from parley.devcluster.state.image import ClusterImage, PartitionImage, TopicImage
from parley.devcluster.state.journal import Entry
from parley.devcluster.state.log.replica import Cleaned, ReplicaKey
from parley.devcluster.state.transactions.coordinator import Transactions
from parley.devcluster.state.transactions.persistence import (
    RestoredTransactions,
    transactions_snapshot,
)
from parley.devcluster.state.transactions.producer_ids import ProducerIds
from parley.errors import ConfigError
from parley.types import format_uuid, parse_uuid

LAYOUT = 3


@dataclass(slots=True)
class Administered:
    """What administrators changed besides topics and groups.

    `starts` is where logs begin after DeleteRecords, by topic id and partition; `cleaned` how far
    brokers have compacted theirs, by broker id, too. `broker_configs` are the dynamic settings by
    broker id as text, those of every broker under "", `group_configs` those of groups by name.
    """

    starts: dict[tuple[bytes, int], int] = field(default_factory=dict)
    cleaned: dict[tuple[int, bytes, int], Cleaned] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class Restored:
    """What an earlier life of the cluster left."""

    cluster_id: str | None = None
    topics: dict[str, TopicImage] = field(default_factory=dict)
    next_producer_id: int = 0
    transactions: RestoredTransactions = field(default_factory=RestoredTransactions)
    administered: Administered = field(default_factory=Administered)


def topic_entry(topic: TopicImage) -> Entry:
    """Return the entry that says everything about a topic."""
    partitions = [
        [list(p.replicas), list(p.isr), p.leader, p.leader_epoch, p.partition_epoch]
        for p in topic.partitions
    ]
    return {
        "kind": "topic",
        "name": topic.name,
        "id": format_uuid(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": partitions,
    }


def _topic_of(entry: Entry) -> TopicImage:
    partitions = tuple(
        PartitionImage(tuple(replicas), tuple(isr), leader, epoch, partition_epoch)
        for replicas, isr, leader, epoch, partition_epoch in entry["partitions"]
    )
    return TopicImage(entry["name"], parse_uuid(entry["id"]), partitions, entry["configs"])


def image_entries(old: ClusterImage, new: ClusterImage) -> Iterator[Entry]:
    """Yield the entries that lead from one image to the next."""
    if old.topics is new.topics:
        return
    for name in old.topics:
        if name not in new.topics:
            yield {"kind": "no-topic", "name": name}
    for name, topic in new.topics.items():
        if old.topics.get(name) is not topic:
            yield topic_entry(topic)


def producers_entry(ids: ProducerIds) -> Entry:
    """Return the entry of the next producer id."""
    return {"kind": "producers", "next": ids.next_id}


def start_entry(topic_id: bytes, partition: int, offset: int) -> Entry:
    """Return the entry of a log that begins later than it did."""
    return {"kind": "start", "id": format_uuid(topic_id), "partition": partition, "offset": offset}


def cleaned_entry(broker: int, key: ReplicaKey, cleaned: Cleaned) -> Entry:
    """Return the entry of a log that a broker has compacted."""
    place = {"id": format_uuid(key.topic_id), "partition": key.partition, "broker": broker}
    done = {"offset": cleaned.first_dirty, "below": cleaned.below, "round": cleaned.round}
    return {"kind": "cleaned", **place, **done}


def broker_configs_entry(broker: str, configs: Mapping[str, str]) -> Entry:
    """Return the entry of a broker's dynamic settings."""
    return {"kind": "broker-configs", "broker": broker, "configs": dict(configs)}


def group_configs_entry(group: str, configs: Mapping[str, str]) -> Entry:
    """Return the entry of a group's settings."""
    return {"kind": "group-configs", "group": group, "configs": dict(configs)}


def snapshot(
    image: ClusterImage,
    ids: ProducerIds,
    transactions: Transactions,
    administered: Administered | None = None,
) -> Iterator[Entry]:
    """Yield the shortest journal that says everything."""
    changed = administered or Administered()
    yield {"kind": "cluster", "id": image.cluster_id, "layout": LAYOUT}
    for topic in image.topics.values():
        yield topic_entry(topic)
    yield producers_entry(ids)
    yield from transactions_snapshot(transactions, transactions.coordinator_epoch)
    for (topic_id, index), start in changed.starts.items():
        if topic_id in image.names:
            yield start_entry(topic_id, index, start)
    for (broker_id, topic_id, index), cleaned in changed.cleaned.items():
        if topic_id in image.names:
            yield cleaned_entry(broker_id, ReplicaKey(topic_id, index), cleaned)
    for broker, configs in changed.broker_configs.items():
        yield broker_configs_entry(broker, configs)
    for group, configs in changed.group_configs.items():
        yield group_configs_entry(group, configs)


def restore(entries: Iterable[Entry], share_groups: ShareGroups) -> Restored:
    """Return the state that a journal describes; share groups take over what they had in flight.

    Raises ConfigError when the journal's layout is another one.
    """
    state = Restored()
    for entry in entries:
        if entry["kind"] in SHARE_KINDS:
            share_groups.restore(entry)
            continue
        if entry["kind"] == "no-group":
            share_groups.delete(entry["group"])
            continue
        if entry["kind"] == "no-topic" and entry["name"] in state.topics:
            share_groups.forget_topic(state.topics[entry["name"]].topic_id)
        _apply(state, entry)
    return state


def _apply(state: Restored, entry: Entry) -> None:
    kind = entry["kind"]
    if kind == "cluster":
        if entry["layout"] != LAYOUT:
            raise ConfigError(
                f"the data directory was written in layout {entry['layout']}, this release of "
                f"parley reads layout {LAYOUT}; use another directory, or the release that wrote it"
            )
        state.cluster_id = entry["id"]
    elif kind == "topic":
        state.topics[entry["name"]] = _topic_of(entry)
    elif kind == "no-topic":
        state.topics.pop(entry["name"], None)
    elif kind == "start":
        state.administered.starts[parse_uuid(entry["id"]), entry["partition"]] = entry["offset"]
    elif kind == "cleaned":
        place = entry["broker"], parse_uuid(entry["id"]), entry["partition"]
        done = Cleaned(entry["offset"], entry["below"], entry["round"])
        state.administered.cleaned[place] = done
    elif kind == "broker-configs":
        state.administered.broker_configs[entry["broker"]] = entry["configs"]
    elif kind == "group-configs":
        state.administered.group_configs[entry["group"]] = entry["configs"]
    elif kind == "producers":
        state.next_producer_id = entry["next"]
    else:
        state.transactions.apply(entry)
