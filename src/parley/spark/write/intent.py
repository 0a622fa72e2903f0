"""What a query's journal says, as versioned text: intents, what was carried out, and marks. Pure.

    {"parley":1,"kind":"intent","query":"…","batch":7,"by":[1000,3],
     "transactions":[[slot,turn id,turn epoch,name id,name epoch,producer id,epoch,rows],…],
     "idle":[[slot,turn id,turn epoch,name id,name epoch],…]}
    {"parley":1,"kind":"done","by":[1000,3]}
    {"parley":1,"kind":"mark"}

An intent is read only when its transaction is committed: from then on the batch is decided. `by` is
the identity of the driver that wrote it; no two intents have the same. The journal is read from its
end backwards until an intent turns up; with the mark that each planning writes at the end,
everything in front of the mark is there to be read (a new leader of an old release may report a
shorter log at first).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from parley.errors import RemoteProtocolError
from parley.spark.write.turns import Identity, Pool, Slot, Turn

if TYPE_CHECKING:
    from parley.types import Json

VERSION = 1


class BatchOfQuery(NamedTuple):
    """A micro-batch: its query's id, which stays over restarts, and its number."""

    query: str
    batch: int


class OpenTransaction(NamedTuple):
    """A task's transaction with all of its rows acknowledged, open until the driver ends it."""

    slot: int
    turn: Turn
    named_after: Turn
    identity: Identity
    rows: int


@dataclass(frozen=True, slots=True)
class Intent:
    """The decision to commit a batch: these transactions and no others."""

    what: BatchOfQuery
    by: Identity
    transactions: tuple[OpenTransaction, ...]
    idle: Pool = field(default_factory=dict)
    """Slots of the pool that the batch did not use."""

    @property
    def rows(self) -> int:
        """Number of rows that the batch writes."""
        return sum(one.rows for one in self.transactions)

    def pool(self) -> dict[int, Slot]:
        """Return the pool for the next batch: ids whose attempts have ended are spare."""
        return dict(self.idle) | {
            one.slot: Slot(one.turn, one.named_after) for one in self.transactions
        }


@dataclass(frozen=True, slots=True)
class Done:
    """Every transaction of the intent that `by` wrote is committed."""

    by: Identity


@dataclass(frozen=True, slots=True)
class Mark:
    """A planning has begun."""


Entry = Intent | Done | Mark


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest intent of a journal and whether it was carried out."""

    intent: Intent | None = None
    done: bool = True

    def pool(self) -> dict[int, Slot]:
        """Return the pool that the newest intent left."""
        return self.intent.pool() if self.intent is not None else {}


def newest(entries: Iterable[Entry]) -> Newest:
    """Return the newest intent of entries in their order. One that is done may be
    followed by another's late Done.
    """
    intent: Intent | None = None
    done: set[Identity] = set()
    for entry in entries:
        if isinstance(entry, Intent):
            intent = entry
        elif isinstance(entry, Done):
            done.add(entry.by)
    return Newest(intent, intent is None or intent.by in done)


def encode(entry: Entry) -> str:
    """Return an entry as text."""
    body: dict[str, object] = {"parley": VERSION}
    if isinstance(entry, Intent):
        body |= {
            "kind": "intent",
            "query": entry.what.query,
            "batch": entry.what.batch,
            "by": list(entry.by),
        }
        body["transactions"] = [
            [t.slot, *t.turn, *t.named_after, *t.identity, t.rows] for t in entry.transactions
        ]
        body["idle"] = [
            [slot, *found.turn, *(found.spare or ())] for slot, found in sorted(entry.idle.items())
        ]
    elif isinstance(entry, Done):
        body |= {"kind": "done", "by": list(entry.by)}
    else:
        body["kind"] = "mark"
    return json.dumps(body, separators=(",", ":"))


def decode(text: str | bytes) -> Entry:
    """Return the entry that a text stands for.

    Raises RemoteProtocolError for a text that is none, and for one of a later version of parley.
    """
    try:
        body = _object(json.loads(text))
        version = body["parley"]
        if version != VERSION:
            raise RemoteProtocolError(
                f"the journal has an entry of version {version}; this parley knows "
                f"version {VERSION}. Resume the query with the parley that wrote it."
            )
        return _entry(body)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RemoteProtocolError(
            f"the journal has a record that is no entry of parley's: {str(text)[:80]!r}. "
            "Nobody else may write to the journal's topic."
        ) from error


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _entry(body: dict[str, Json]) -> Entry:
    kind = body["kind"]
    if kind == "intent":
        return Intent(
            BatchOfQuery(_text(body["query"]), _number(body["batch"])),
            _identity(body["by"]),
            tuple(_transactions(body["transactions"])),
            dict(_idle(body["idle"])),
        )
    if kind == "done":
        return Done(_identity(body["by"]))
    if kind == "mark":
        return Mark()
    raise ValueError(kind)


def _transactions(rows: Json) -> Iterator[OpenTransaction]:
    for row in _list(rows):
        slot, *numbers = map(_number, _list(row))
        turn, after, identity, (rows_written,) = (
            numbers[0:2],
            numbers[2:4],
            numbers[4:6],
            numbers[6:],
        )
        yield OpenTransaction(slot, Turn(*turn), Turn(*after), Identity(*identity), rows_written)


def _idle(rows: Json) -> Iterator[tuple[int, Slot]]:
    for row in _list(rows):
        slot, *numbers = map(_number, _list(row))
        spare = Turn(*numbers[2:]) if numbers[2:] else None
        yield slot, Slot(Turn(*numbers[0:2]), spare)


def _identity(pair: Json) -> Identity:
    return Identity(*map(_number, _list(pair)))


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _number(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
