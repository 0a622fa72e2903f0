"""What a call about several groups does where some fail, and what an error says of a group.

1. Each key is asked about by itself and tried again by itself: the failure of one never ends the
   work for another.
2. When all are done, the first failure is raised with a note for each other one. What was changed
   stays changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import raise_first
from parley.errors import KafkaError
from parley.errors.codes import GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC, NON_EMPTY_GROUP
from parley.messages import Message
from parley.net import BrokerConnection, Reply
from parley.types import TopicPartition

T = TypeVar("T")
R = TypeVar("R", bound=Message)

_TEXTS = {
    GROUP_ID_NOT_FOUND: 'there is no group "{}"',
    NON_EMPTY_GROUP: 'group "{}" has members; stop them first, or take them out with '
    "remove_members",
    GROUP_SUBSCRIBED_TO_TOPIC: 'members of group "{}" subscribe to this topic; stop them, or let '
    "them unsubscribe",
}


async def for_each(
    keys: Iterable[str], work: Callable[[str], Awaitable[T]], *, changed: str | None = None
) -> dict[str, T]:
    """Return what `work` returns for each key, side by side. Raises one failure, noting the others.

    `changed` says what was done to the keys that did not fail, for a note on the failure.
    """
    wanted = list(dict.fromkeys(keys))
    outcomes = await asyncio.gather(*(work(key) for key in wanted), return_exceptions=True)
    found: dict[str, T] = {}
    errors: list[KafkaError] = []
    for key, outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            errors.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            found[key] = outcome
    try:
        raise_first(errors)
    except KafkaError as error:
        if changed is not None and found:
            error.add_note(f"{changed} all the same: {', '.join(found)}")
        raise
    return found


def group_error(
    code: int,
    group_id: str,
    conn: BrokerConnection,
    reply: Reply[R],
    said: str | None = None,
    tp: TopicPartition | None = None,
) -> KafkaError:
    """Return the error that a coordinator answered about a group, or about a partition in it.

    `said` is the broker's own text, where it has one.
    """
    text = said or _TEXTS.get(code, 'group "{}"').format(group_id)
    return refusal(reply, code, text, tp, conn=conn)
