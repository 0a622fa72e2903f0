"""What a plan says of rights."""

from __future__ import annotations

from collections.abc import Iterable

from parley.client import AclOperation
from parley.pipelines.replication.plan import Finding
from parley.pipelines.rights import GROWING, READING, WRITING, compared

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


def said(found: Iterable[Finding]) -> list[tuple[str | None, bool, str]]:
    return [(one.topic, one.stops, one.text) for one in found]


def test_topics_on_which_nothing_is_missing_are_said_in_one_line() -> None:
    allowed = {name: frozenset({READ, DESCRIBE}) for name in ("a", "b")}
    needed = dict.fromkeys(("a", "b"), READING)
    assert said(compared("source", needed, allowed)) == [
        (None, False, "the source's user may Read and Describe 2 topics")
    ]


def test_what_is_missing_stops_and_names_the_topic() -> None:
    allowed = {"a": frozenset({WRITE, DESCRIBE}), "b": frozenset({DESCRIBE}), "c": frozenset()}
    found = compared("target", {"a": GROWING, "b": WRITING, "c": READING}, allowed)
    assert said(found) == [
        ("a", True, "the target's user may not Alter it, and needs Write, Describe and Alter: "
         "add ACLs"),
        ("b", True, "the target's user may not Write it, and needs Write and Describe: add ACLs"),
        ("c", True, "the target's user may not Read and Describe it, and needs Read and Describe: "
         "add ACLs"),
    ]  # fmt: skip


def test_what_no_broker_says_is_no_reason_to_stop() -> None:
    assert said(compared("source", {"a": READING}, {"a": None})) == [
        ("a", False, "the source's user needs to Read and Describe it; its brokers do not say who "
         "may (Kafka 2.3)")
    ]  # fmt: skip


def test_a_topic_that_is_not_there_is_left_out() -> None:
    assert compared("source", {"a": READING}, {}) == ()
