"""What becomes of a batch, given what the table remembers: pure.

the table's newest batch under the name is      the driver
--------------------------------------------    ------------------------------------------------
none, and this is the query's first batch       commits
none, and it is a later one                     refuses: the table is another one, or the name is
this query's, the one before                    commits
this query's, this one                          does nothing: it is there (Spark runs it again)
this query's, a later one                       refuses: the checkpoint was put back
this query's, an earlier one                    refuses: the table was put back
another query's                                 refuses: two queries under one name

Spark numbers a query's batches from 0, and each leaves its number in the table, also one without
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from parley.errors import DataLossError, LocalProtocolError
from parley.spark.lakes.messages import TaskFiles
from parley.spark.write.intent import BatchOfQuery

GO_ON = 'To go on without them, start the query once with option("lostBatches", "continue").'


class Step(Enum):
    """What the driver does with a batch."""

    COMMIT = "commit"
    PASS_OVER = "pass over"


@dataclass(frozen=True, slots=True)
class Marks:
    """The newest batches that a table remembers: under the name, and of the one query."""

    newest: int | None
    own: int | None


def own_mark(app: str, query: str) -> str:
    """Return the name under which a table remembers one query's batches, beside the name of all."""
    return f"{app}/{query}"


def step_for(what: BatchOfQuery, marks: Marks, app: str) -> Step:
    """Return what to do with a stream's batch. Raises LocalProtocolError or DataLossError where
    writing it would double or lose rows; the text says what to do.
    """
    newest = marks.newest
    if newest is None:
        if what.batch > 0:
            raise _nothing_is_left(what, app)
        return Step.COMMIT
    if marks.own != newest:
        raise LocalProtocolError(
            f'another query writes into this table under the name "{app}": it has written batch '
            f"{newest}, query {what.query} is about to write batch {what.batch}. Nothing was "
            "written. Stop one of them, or give this one a name of its own with the option "
            "txnAppId. (A query that begins again with an empty checkpoint is another one: its "
            "rows may be in the table already.)"
        )
    if what.batch == newest:
        return Step.PASS_OVER
    if what.batch < newest:
        raise LocalProtocolError(
            f"batch {what.batch} of query {what.query} is to be written, but the table has batch "
            f"{newest} of it: another driver of the query has gone on, or the checkpoint was put "
            "back from a copy. Nothing was written. To write these batches a second time, give "
            "the query another txnAppId and, for its first start, lostBatches=continue."
        )
    if what.batch > newest + 1:
        raise DataLossError(
            f"batch {what.batch} of query {what.query} is to be written, but the last one in the "
            f"table is batch {newest}: the rows of {_between(newest, what.batch)} are gone (was "
            f"the table restored to an earlier version?). Nothing was written. {GO_ON}"
        )
    return Step.COMMIT


def _nothing_is_left(what: BatchOfQuery, app: str) -> DataLossError:
    return DataLossError(
        f"batch {what.batch} of query {what.query} is to be written, but the table has no batch "
        f'under the name "{app}": the rows of {_between(-1, what.batch)} are not there. Was the '
        "table dropped, replaced or another one given? (A checkpoint folder that was moved and "
        "another txnAppId change the name, too: the rows may be there then.) Nothing was written. "
        "To write all rows again, start the query with a new checkpoint folder. "
        f"{GO_ON}"
    )


def joined(messages: Sequence[object]) -> TaskFiles:
    """Return what all tasks of a batch wrote as if one had written it.

    Raises LocalProtocolError where messages of several batches are mixed, or some tasks wrote and
    others passed over: a bug in Spark or here. Nothing is committed then.
    """
    found = [message for message in messages if isinstance(message, TaskFiles)]
    kinds = {replace(message, files=()) for message in found}
    if len(kinds) != 1 or len(found) != len(messages):
        raise LocalProtocolError(
            f"the messages of a batch do not belong together: {len(kinds)} kinds, "
            f"{len(found)} of {len(messages)} tasks; nothing was committed"
        )
    files = tuple(file for message in found for file in message.files)
    return replace(kinds.pop(), files=files)


def _between(newest: int, batch: int) -> str:
    first, last = newest + 1, batch - 1
    return f"batch {first}" if first == last else f"batches {first} to {last}"
