"""From the old cluster to the new one: what has been done, and what is to be done next.

The steps come in an order, and one that is open keeps those behind it waiting: what is copied is
only final when nobody writes any more, and groups only when nobody reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple, Protocol

from parley.client import LATEST, AsyncClient, TopicPartition
from parley.errors import GroupIdNotFoundError
from parley.pipelines.replication.groups import BEHIND, MEMBERS, NOT_BACK, GroupOffset, groups_of
from parley.pipelines.replication.options import ReplicationOptions
from parley.pipelines.replication.plan import Plan
from parley.pipelines.replication.status import PartitionStatus
from parley.pipelines.verify import Verification
from parley.versions import Feature

DONE, OPEN, WAITS = "done", "open", "waits"
TOPICS, PRODUCERS, TRANSACTIONS = "topics", "producers", "transactions"
COPY, RECORDS, CONSUMERS, GROUPS = "copy", "records", "consumers", "groups"
STEPS = (TOPICS, PRODUCERS, TRANSACTIONS, COPY, RECORDS, CONSUMERS, GROUPS)
_NAMED = 5
"""So many partitions or groups are named in a line."""


class CutoverStep(NamedTuple):
    """A step: "done", "open", or "waits" for one before it. `what` says how it stands, and of an
    open one what to do.
    """

    step: str
    state: str
    what: str


class Moving(Protocol):
    """The replication that brings everything over."""

    options: ReplicationOptions
    source: AsyncClient
    target: AsyncClient

    async def plan(self) -> Plan:
        """Return what is missing in the target."""

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Copy."""

    async def status(self) -> list[PartitionStatus]:
        """Return how far it is."""

    async def verify(self) -> Verification:
        """Compare what is copied."""

    async def translate_groups(
        self, groups: Sequence[str] | None = None, *, write: bool = True
    ) -> list[GroupOffset]:
        """Translate what groups have committed."""


async def steps(moving: Moving, *, quiet_ms: int, execute: bool) -> list[CutoverStep]:
    """Go through the steps up to the first that is open. With `execute` what is left is copied and
    the groups' offsets are written; else nothing is changed.
    """
    found: list[CutoverStep] = []
    async for step in _steps(moving, quiet_ms, execute):
        found.append(step)
        if step.state == OPEN:
            break
    waiting = STEPS[len(found) :]
    return [*found, *(CutoverStep(name, WAITS, f"for {found[-1].step}") for name in waiting)]


async def _steps(moving: Moving, quiet_ms: int, execute: bool) -> AsyncIterator[CutoverStep]:
    plan = await moving.plan()
    yield _topics(plan, moving.options.accept, execute)
    partitions = [one.partition for one in await moving.status()]
    yield await _producers(moving.source, partitions, quiet_ms)
    yield await _transactions(moving.source, partitions)
    if execute:
        await moving.run(until_caught_up=True)
    yield _copy(await moving.status())
    yield _records(await moving.verify())
    groups = list(moving.options.groups) or await groups_of(moving.source)
    yield await _consumers(moving.source, groups)
    yield _groups(await moving.translate_groups(groups, write=execute), execute)


def _topics(plan: Plan, accepted: Iterable[str], execute: bool) -> CutoverStep:
    if stopping := plan.stopping(accepted):
        text = f"{len(stopping)} findings stand in the way: see `parley replicate plan`"
        return CutoverStep(TOPICS, OPEN, text)
    missing = [topic.name for topic in plan.create] + list(plan.add_partitions)
    if missing and not execute:
        text = f"the target lacks {_some(missing)}: begin with `parley replicate run`"
        return CutoverStep(TOPICS, OPEN, text)
    return CutoverStep(TOPICS, DONE, "the target has all topics and partitions")


async def _producers(
    source: AsyncClient, partitions: Sequence[TopicPartition], quiet_ms: int
) -> CutoverStep:
    before = await _ends(source, partitions, "read_uncommitted")
    await asyncio.sleep(quiet_ms / 1000)
    after = await _ends(source, partitions, "read_uncommitted")
    if moved := [f"{tp} (+{after[tp] - end})" for tp, end in before.items() if after[tp] != end]:
        text = f"somebody writes {_some(moved)}: stop the producers, or take their right to write"
        return CutoverStep(PRODUCERS, OPEN, text)
    return CutoverStep(PRODUCERS, DONE, f"nobody wrote to the source for {quiet_ms} ms")


async def _transactions(source: AsyncClient, partitions: Sequence[TopicPartition]) -> CutoverStep:
    if not await source.supports(Feature.READ_COMMITTED):
        return CutoverStep(TRANSACTIONS, DONE, "the source has none (Kafka 0.11)")
    stable = await _ends(source, partitions, "read_committed")
    ends = await _ends(source, partitions, "read_uncommitted")
    if held := [str(tp) for tp in partitions if stable[tp] < ends[tp]]:
        text = f"transactions are open in {_some(held)}: let their producers end them, or wait for "
        return CutoverStep(TRANSACTIONS, OPEN, text + "their timeout")
    return CutoverStep(TRANSACTIONS, DONE, "none is open in the source")


def _copy(statuses: Sequence[PartitionStatus]) -> CutoverStep:
    behind = sum(one.lag for one in statuses)
    if behind:
        text = f"{behind} offsets behind: let `parley replicate run` catch up, or give --execute"
        return CutoverStep(COPY, OPEN, text)
    return CutoverStep(COPY, DONE, f"all of {len(statuses)} partitions are copied")


def _records(found: Verification) -> CutoverStep:
    records = sum(one.left_records for one in found.partitions)
    if found.equal:
        return CutoverStep(RECORDS, DONE, f"{records} records are equal on both sides")
    different = sum(not one.equal for one in found.partitions)
    text = f"{different} partitions differ, the first: {found.first_difference}"
    return CutoverStep(RECORDS, OPEN, text)


async def _consumers(source: AsyncClient, groups: Sequence[str]) -> CutoverStep:
    used = []
    for group in groups:
        try:
            members = (await source.describe_groups([group]))[group].members
        except GroupIdNotFoundError:
            continue
        if members:
            hosts = sorted({member.host.lstrip("/") for member in members})
            used.append(f"{group} ({len(members)} from {_some(hosts)})")
    if used:
        return CutoverStep(CONSUMERS, OPEN, f"groups have members in the source: {_some(used)}")
    return CutoverStep(CONSUMERS, DONE, f"none of {len(groups)} groups has members in the source")


def _groups(found: Sequence[GroupOffset], execute: bool) -> CutoverStep:
    for outcome, why in (
        (BEHIND, "are further than the copy"),
        (MEMBERS, "have members in the target"),
        (NOT_BACK, "are further in the target already"),
    ):
        if which := sorted({one.group for one in found if one.outcome == outcome}):
            return CutoverStep(GROUPS, OPEN, f"groups {why}: {_some(which)}")
    changes = [one for one in found if one.changes]
    if changes and not execute:
        text = f"{len(changes)} offsets are to be written: give --execute"
        return CutoverStep(GROUPS, OPEN, text)
    text = f"{len(found)} offsets stand where their groups go on: point producers to the target"
    return CutoverStep(GROUPS, DONE, text + ", then consumers")


async def _ends(
    source: AsyncClient, partitions: Sequence[TopicPartition], isolation_level: str
) -> dict[TopicPartition, int]:
    found = await source.list_offsets(
        dict.fromkeys(partitions, LATEST), isolation_level=isolation_level
    )
    return {tp: one.offset for tp, one in found.items()}


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
