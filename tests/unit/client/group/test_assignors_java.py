"""Java's assignors answered the same groups (C1): see `java_cases` for where the answers come from.

Equal where Java's choice is a rule. The sticky assignors choose among equals, Java's by the order
of a hash table: theirs are compared by balance and by how much moves.
"""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from parley.client.group.assignors import Assignment, Assignor, Member, by_name
from parley.client.group.assignors.claims import Claim, cooperative_claim, eager_claim
from parley.client.group.formats import Subscription
from parley.testing.realbroker import class_path
from parley.testing.realbroker.java import java_command
from parley.types import TopicPartition

from ....support import GENEROUS_S
from .groups import joined_again
from .java_cases import FILE, Case, cases, cases_with_racks

JAVA = Path(__file__).parents[4] / "tools" / "java" / "GoldenAssignments.java"
RANGE, ROUND_ROBIN, STICKY, COOPERATIVE = by_name(
    ["range", "roundrobin", "sticky", "cooperative-sticky"]
)


def as_sets(given: Assignment) -> dict[str, list[TopicPartition]]:
    return {name: sorted(partitions) for name, partitions in given.items()}


def unevenness(given: Assignment) -> int:
    """Return the sum of the squares of the members' loads."""
    return sum(len(partitions) ** 2 for partitions in given.values())


def holders(
    members: list[Member], claim: Callable[[Subscription], Claim]
) -> dict[TopicPartition, str]:
    """Return who claims each partition in the highest generation, where that is one member."""
    said = [(one.member_id, claim(one.subscription)) for one in members]
    claims = [(part, found.generation, name) for name, found in said for part in found.partitions]
    best: dict[TopicPartition, str] = {}
    for part, group in groupby(sorted(claims), key=lambda one: one[0]):
        latest = sorted(group, key=lambda one: one[1], reverse=True)
        if len(latest) == 1 or latest[0][1] > latest[1][1]:
            best[part] = latest[0][2]
    return best


def moved(given: Assignment, before: dict[TopicPartition, str]) -> int:
    return sum(
        before.get(part, name) != name for name, partitions in given.items() for part in partitions
    )


def kept(given: Assignment, before: dict[TopicPartition, str]) -> int:
    return sum(
        before.get(part) == name for name, partitions in given.items() for part in partitions
    )


@pytest.mark.parametrize(
    ("assignor", "count"), [(RANGE, 400), (ROUND_ROBIN, 200)], ids=["range", "roundrobin"]
)
def test_range_and_round_robin_are_javas(assignor: Assignor, count: int) -> None:  # G25, G26, G27
    found = cases(assignor.name)
    assert len(found) == count
    for case in found:
        assert as_sets(assignor.assign(case.topics, case.members)) == as_sets(case.given)


def test_sticky_is_as_even_as_javas_and_moves_no_more() -> None:  # G28, G29, G30
    assert len(cases("sticky")) >= 400
    for case in cases("sticky"):
        given = STICKY.assign(case.topics, case.members)
        before = holders(case.members, eager_claim)
        assert unevenness(given) <= unevenness(case.given)
        if unevenness(given) == unevenness(case.given):
            assert moved(given, before) <= moved(case.given, before)


def test_cooperative_sticky_is_as_even_as_javas_and_lets_keep_as_much() -> None:  # G28 to G31
    assert len(cases("cooperative-sticky")) >= 400
    for case in cases("cooperative-sticky"):
        given = COOPERATIVE.assign(case.topics, case.members)
        again = joined_again(case.members, given, 6, COOPERATIVE.name)
        then = COOPERATIVE.assign(case.topics, again)
        before = holders(case.members, cooperative_claim)
        assert unevenness(then) <= unevenness(case.then)
        if unevenness(then) == unevenness(case.then):
            assert kept(given, before) >= kept(case.given, before)


@pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE], ids=lambda one: one.name)
def test_sticky_with_racks_is_as_even_as_javas_leaves_no_more_far_and_moves_less(
    assignor: Assignor,
) -> None:  # KIP-881
    found = cases_with_racks(assignor.name)
    assert len(found) >= 300
    moves, javas_moves, nearer = 0, 0, 0
    for case in found:
        given = assignor.assign(case.topics, case.members)
        javas = case.then if assignor.cooperative else case.given
        if assignor.cooperative:
            given = joined_until_nothing_moves(case, given)
        assert unevenness(given) <= unevenness(javas)
        if unevenness(given) == unevenness(javas):
            before = holders(
                case.members, cooperative_claim if assignor.cooperative else eager_claim
            )
            assert far(case, given) <= far(case, javas)
            nearer += far(case, given) < far(case, javas)
            moves += moved(given, before)
            javas_moves += moved(javas, before)
    assert moves < javas_moves
    assert nearer > len(found) // 5


def joined_until_nothing_moves(case: Case, given: Assignment) -> Assignment:
    """Return what members have when all joined again with what was given, as Java's answer is."""
    for generation in range(6, 12):
        before, again = given, joined_again(case.members, given, generation, COOPERATIVE.name)
        given = COOPERATIVE.assign(case.topics, again)
        if given == before:
            return given
    raise AssertionError("partitions move without end")


def far(case: Case, given: Assignment) -> int:
    """Return how many partitions have no replica in the rack of their owner, who has one."""
    rack_of = {one.member_id: one.subscription.rack for one in case.members}
    return sum(
        rack_of[name] is not None and rack_of[name] not in case.topics[topic][index]
        for name, partitions in given.items()
        for topic, index in partitions
    )


@pytest.mark.jars
def test_the_stored_answers_are_javas() -> None:
    stored = gzip.decompress(FILE.read_bytes()).decode()
    asked: list[str] = []
    for line in stored.splitlines():
        kind = line.partition("\t")[0]
        if kind == "case" and asked:
            asked.append("end")
        if kind not in {"given", "then"}:
            asked.append(line)
    command = java_command(class_path(["org.apache.kafka:kafka-clients:4.3.0"]), [str(JAVA)])
    text = "\n".join([*asked, "end", ""])
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, timeout=GENEROUS_S
    )
    assert done.stdout == stored
