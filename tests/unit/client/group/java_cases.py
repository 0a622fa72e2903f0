"""What Java's assignors (kafka-clients 4.3.0) gave to the members of 2,200 random groups.

Written by `python tools/golden_assignments.py`; the lines are described in
tools/java/GoldenAssignments.java.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from parley.client.group.assignors import Assignment, Member, Racks
from parley.client.group.formats import Subscription
from parley.types import TopicPartition

FILE = Path(__file__).with_name("java_assignments.txt.gz")


@dataclass
class Case:
    """A group, what Java's assignor gave to its members, and what it gave when all
    had joined again with that.
    """

    assignor: str
    topics: dict[str, list[Racks]] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    given: Assignment = field(default_factory=dict)
    then: Assignment = field(default_factory=dict)


@cache
def cases(assignor: str) -> tuple[Case, ...]:
    """Return the cases of an assignor; of the sticky ones those in which racks are unknown."""
    sticky = "sticky" in assignor
    return tuple(case for case in _of(assignor) if not (sticky and _has_racks(case)))


@cache
def cases_with_racks(assignor: str) -> tuple[Case, ...]:
    """Return the cases of an assignor in which partitions are near to some and not to all."""
    return tuple(case for case in _of(assignor) if _has_racks(case) and _matter(case))


@cache
def _of(assignor: str) -> tuple[Case, ...]:
    return tuple(case for case in _read() if case.assignor == assignor)


def _has_racks(case: Case) -> bool:
    return any(member.subscription.rack for member in case.members)


def _matter(case: Case) -> bool:
    of_members = {member.subscription.rack for member in case.members}
    wanted = {topic for member in case.members for topic in member.subscription.topics}
    racks = [found for topic in wanted & case.topics.keys() for found in case.topics[topic]]
    everywhere = frozenset[str]().union(*racks)
    return not everywhere.isdisjoint(of_members) and any(found != everywhere for found in racks)


def _read() -> Iterator[Case]:
    case: Case | None = None
    for line in gzip.decompress(FILE.read_bytes()).decode().splitlines():
        kind, name, *rest = line.split("\t")
        if kind == "case":
            if case is not None:
                yield case
            case = Case(name)
            continue
        assert case is not None
        if kind == "topic":
            case.topics[name] = [frozenset(_texts(racks)) for racks in rest]
        elif kind == "member":
            case.members.append(_member(name, *rest))
        else:
            answers = {"given": case.given, "then": case.then}[kind]
            answers[name] = _partitions(rest[0])
    assert case is not None
    yield case


def _member(
    name: str, instance: str, rack: str, generation: str, topics: str, owned: str, data: str
) -> Member:
    subscription = Subscription(
        topics=tuple(_texts(topics)),
        user_data=None if data == "-" else bytes.fromhex(data),
        owned=tuple(_partitions(owned)),
        generation=int(generation),
        rack=None if rack == "-" else rack,
    )
    return Member(name, subscription, None if instance == "-" else instance)


def _partitions(text: str) -> list[TopicPartition]:
    return [
        TopicPartition(topic, int(index))
        for topic, _, index in (one.rpartition("-") for one in _texts(text))
    ]


def _texts(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")
