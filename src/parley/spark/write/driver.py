"""The driver's side of exactly-once: plan a batch, commit it, or abort it.

1. Planning takes the query over (InitProducerId of its own transactional id): from then on no other
   driver can decide anything. Only then the journal is read, what is decided is carried out, and
   what earlier attempts left open is aborted.
2. Committing first writes the intent, in a transaction under the identity that planning got. When
   that transaction is committed, the batch is decided, whatever dies next.
3. Planning and committing may run in different processes, and a process that ran both may die
   between any two calls: what must be known stands in the journal or comes with the tasks'
   messages. What the planning process remembers only saves requests.
4. Nothing is aborted unless it is certain that no intent names it, now or later: at planning, ids
   of turns older than one that this driver took while the query was its own; at commit, ids of
   turns older than those which the intent names; at abort, this batch's own transactions, once the
   journal shows that no intent of this driver exists.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from parley.errors import ProducerFencedError
from parley.spark.write.decisions import another_driver, lost, to_decide
from parley.spark.write.intent import Done, Intent, Newest, OpenTransaction
from parley.spark.write.interfaces import Coordination, Journal, Outcome, ToEnd
from parley.spark.write.messages import NothingToCommit, Plan, Prepared
from parley.spark.write.turns import (
    Identity,
    Slot,
    after_sweep,
    earlier,
    id_name,
    query_id_name,
    turn_id_name,
)

log = logging.getLogger("parley.spark")


@dataclass(slots=True)
class Driver:
    """One query's driver. Keep it as long as the process lives; nothing is lost with it."""

    prefix: str
    coordination: Coordination
    journal: Journal
    go_on_after_loss: bool = False
    _planned: Plan | None = field(default=None, repr=False)
    """What this process planned last. Where its batch is written and nobody planned
    since, nothing is left open.
    """

    def plan(self) -> Plan:
        """Take the query over and return the plan for its next batch.

        Raises DataLossError where a decided batch cannot be carried out, unless the user said to go
        on.
        """
        (fence,) = self.coordination.init([query_id_name(self.prefix)])
        newest = self.journal.read()
        if newest.intent is not None and not newest.done:
            self._carry_out(newest.intent, fence)
        pool = newest.pool()
        if not self._went_well(newest, fence):
            pool = self._sweep(pool, fence)
        what = newest.intent.what if newest.intent is not None else None
        self._planned = Plan(self.prefix, fence, what, pool)
        return self._planned

    def commit(self, messages: Sequence[object]) -> None:
        """Decide a batch and commit its transactions. Raises DataLossError as `plan`,
        or another driver's error.
        """
        found = to_decide(messages)
        if found is None:
            return
        fence, what, prepared = found
        pool = self._pool(messages)
        used = {message.transaction.slot for message in prepared}
        idle = {slot: kept for slot, kept in pool.items() if slot not in used}
        intent = Intent(what, fence, tuple(message.transaction for message in prepared), idle)
        try:
            self.journal.decide(intent, query_id_name(self.prefix))
        except ProducerFencedError as error:
            raise another_driver(self.prefix) from error
        self._carry_out(intent, fence)
        self._abort_leftovers(prepared)

    def abort(self, messages: Sequence[object]) -> None:
        """Abort a batch's transactions unless it is decided or another driver took over."""
        fence = next(
            (message.plan_fence for message in messages if isinstance(message, Prepared)), None
        )
        if fence is None or not self._holds(fence):
            return
        newest = self.journal.read()
        if newest.intent is not None and newest.intent.by == fence:
            return  # the next planning carries it out
        self.abort_at_once(messages)

    def commit_at_once(self, messages: Sequence[object]) -> None:
        """Commit the transactions of a batch write, which Spark never repeats: no intent.

        Raises DataLossError naming the tasks whose transactions ended before; the others are
        committed.
        """
        found = to_decide(messages)
        if found is None:
            return
        fence, what, prepared = found
        intent = Intent(what, fence, tuple(message.transaction for message in prepared))
        failed = self._end_all(intent)
        if failed:
            raise lost(intent, failed)
        self._abort_leftovers(prepared)

    def abort_at_once(self, messages: Sequence[object]) -> None:
        """Abort what a batch write left open. What is committed stays."""
        self.coordination.end(_to_end(self.prefix, messages), commit=False)

    # -- inside ------------------------------------------------------------------------------------

    def _went_well(self, newest: Newest, fence: Identity) -> bool:
        """Return whether the batch planned here last is written, and nobody planned since."""
        before = self._planned
        if before is None or newest.intent is None or not newest.done:
            return False
        return newest.intent.by == before.fence and fence.follows(before.fence)

    def _pool(self, messages: Sequence[object]) -> dict[int, Slot]:
        for message in messages:
            if isinstance(message, Prepared | NothingToCommit) and message.pool is not None:
                return dict(message.pool)
        return self.journal.read().pool()

    def _carry_out(self, intent: Intent, fence: Identity) -> None:
        """Commit what an intent names, and note it down. What is committed already stays so."""
        failed = self._end_all(intent)
        if failed:
            if not self._holds(fence):  # another driver carried it out, and uses the ids again
                raise another_driver(self.prefix)
            if not self.go_on_after_loss:
                raise lost(intent, failed)
            log.error("%s The query goes on (lostTransactions=continue).", lost(intent, failed))
        self.journal.write(Done(intent.by))

    def _end_all(self, intent: Intent) -> list[tuple[OpenTransaction, Outcome]]:
        """Commit every transaction of an intent; return those that cannot be committed, and why."""
        ends = [_named(self.prefix, one) for one in intent.transactions]
        outcomes = self.coordination.end(ends, commit=True)
        pairs = zip(intent.transactions, outcomes, strict=True)
        return [(one, outcome) for one, outcome in pairs if outcome is not Outcome.ENDED]

    def _holds(self, fence: Identity) -> bool:
        """Return whether no other driver has planned since. Aborts an intent of this
        driver that is under way.
        """
        (outcome,) = self.coordination.end([ToEnd(query_id_name(self.prefix), fence)], commit=False)
        return outcome not in (Outcome.FENCED, Outcome.FORGOTTEN)

    def _sweep(self, pool: dict[int, Slot], fence: Identity) -> dict[int, Slot]:
        """Abort what earlier drivers' attempts left open; return the pool as it is then."""
        slots = sorted(pool)
        turns = self.coordination.init([turn_id_name(self.prefix, slot) for slot in slots])
        # later attempts may be another driver's, and named in an intent of its
        if not self._holds(fence):
            raise another_driver(self.prefix)
        left = []
        for slot, turn in zip(slots, turns, strict=True):
            left += [id_name(self.prefix, slot, name) for name in earlier(pool[slot], turn)]
        self.coordination.init(left)
        return {
            slot: after_sweep(pool[slot], turn) for slot, turn in zip(slots, turns, strict=True)
        }

    def _abort_leftovers(self, prepared: Sequence[Prepared]) -> None:
        """Abort what other attempts of these tasks left open, before those that count."""
        left = []
        for message in prepared:
            one = message.transaction
            left += [
                id_name(self.prefix, one.slot, name) for name in earlier(message.recorded, one.turn)
            ]
        self.coordination.init(left)


def _named(prefix: str, one: OpenTransaction) -> ToEnd:
    return ToEnd(id_name(prefix, one.slot, one.named_after), one.identity)


def _to_end(prefix: str, messages: Sequence[object]) -> list[ToEnd]:
    return [
        _named(prefix, message.transaction) for message in messages if isinstance(message, Prepared)
    ]
