"""Where leader epochs end in the leaders' logs: OffsetForLeaderEpoch, grouped by leader (KIP-320).

1. Versions below 3 need a permission that clients do not have, and leaders whose Metadata is below
   v9 spread stale epochs: they are not asked, and the answer says that nothing can be known.
2. The current leader epoch goes along, so that a leader of yesterday, or one that is behind, says
   so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_leaders
from parley.client.options import arguments
from parley.client.results import EpochEndOffset
from parley.errors import BrokerError, ConfigError, KafkaError, RemoteProtocolError
from parley.errors.codes import FENCED_LEADER_EPOCH
from parley.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from parley.net import BrokerConnection, Reply
from parley.types import TopicPartition, shown
from parley.versions import BrokerVersions, Feature

NOT_AVAILABLE = EpochEndOffset(available=False)
"""The answer where the leader cannot be asked."""
CONSUMER = -1


class EpochQuestion(NamedTuple):
    """What is asked of a partition: the epoch whose end is wanted, and the leader's own epoch."""

    leader_epoch: int
    current_leader_epoch: int = -1


Answers = dict[TopicPartition, EpochEndOffset | KafkaError]
Asked = int | tuple[int] | tuple[int, int]


def knows_epochs(versions: BrokerVersions) -> bool:
    """Return whether a broker can be asked where an epoch ends, and be believed."""
    return versions.supports(Feature.OFFSET_FOR_LEADER_EPOCH) and versions.supports(
        Feature.RELIABLE_LEADER_EPOCHS
    )


async def ask_leader(
    cluster: Cluster,
    conn: BrokerConnection,
    questions: Mapping[TopicPartition, EpochQuestion],
    timeout_ms: int,
) -> Answers:
    """Ask one broker once; return an answer or an error per partition, or raise for all."""
    if not knows_epochs(conn.versions):
        return dict.fromkeys(questions, NOT_AVAILABLE)
    return read_answers(await cluster.ask(conn, epochs_request(questions), timeout_ms), questions)


def epochs_request(
    questions: Mapping[TopicPartition, EpochQuestion],
) -> OffsetForLeaderEpochRequest:
    """Return the request for these questions."""
    topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
    for tp, question in questions.items():
        if tp.topic not in topics:
            topics[tp.topic] = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=tp.topic, partitions=[]
            )
        topics[tp.topic].partitions.append(
            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=tp.partition,
                current_leader_epoch=question.current_leader_epoch,
                leader_epoch=question.leader_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))


def read_answers(
    reply: Reply[OffsetForLeaderEpochResponse], questions: Mapping[TopicPartition, EpochQuestion]
) -> Answers:
    """Return what came back, and an error that may pass for partitions left out (P11)."""
    found: Answers = {}
    for topic in reply.message.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.topic, part.partition)
            if tp not in questions:
                continue
            if part.error_code:
                found[tp] = refusal(reply, part.error_code, None, tp)
            else:
                found[tp] = EpochEndOffset(part.leader_epoch, part.end_offset)
    for tp in questions:
        if tp not in found:
            error = RemoteProtocolError(f"the broker's OffsetForLeaderEpoch answer leaves out {tp}")
            error.retriable = True
            found[tp] = error
    return found


async def offsets_for_leader_epochs(
    cluster: Cluster, asked: Mapping[TopicPartition, Asked], deadline: Deadline
) -> dict[TopicPartition, EpochEndOffset]:
    """Return where these epochs end, asking each leader once and again after errors that pass.

    An epoch is given alone, or with the current leader epoch to be sent (the cache's where it is
    not given; a wrong one is answered with FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH). Raises the
    broker's error for a missing topic or partition, ConfigError for a negative epoch,
    RequestTimedOut at the deadline.
    """
    wanted = {tp: _question(tp, value) for tp, value in asked.items()}

    async def ask(conn: BrokerConnection, group: Mapping[TopicPartition, EpochQuestion]) -> Answers:
        questions = {tp: _in_the_epoch_of(cluster, tp, question) for tp, question in group.items()}
        answers = await ask_leader(cluster, conn, questions, cluster.request_timeout_ms(deadline))
        return {tp: _final_if_given(answer, wanted[tp]) for tp, answer in answers.items()}

    return await at_leaders(cluster, "asking where leader epochs end", deadline, wanted, ask)


def _in_the_epoch_of(
    cluster: Cluster, tp: TopicPartition, question: EpochQuestion
) -> EpochQuestion:
    """Let the question carry the epoch in which the leader leads, where the caller gave none."""
    if question.current_leader_epoch >= 0:
        return question
    return question._replace(current_leader_epoch=cluster.leader(tp).epoch)


def _question(tp: TopicPartition, value: Asked) -> EpochQuestion:
    if not isinstance(value, int) and not (isinstance(value, tuple) and len(value) in (1, 2)):
        hint = "give epoch, (epoch,) or (epoch, current_leader_epoch)"
        raise ConfigError(f"{tp}: {shown(value)} is no leader epoch to ask for: {hint}")
    question = EpochQuestion(value) if isinstance(value, int) else EpochQuestion(*value)
    arguments.number(
        f"{tp}: current_leader_epoch", question.current_leader_epoch, -1, arguments.INT32
    )
    if (
        arguments.number(f"{tp}: leader_epoch", question.leader_epoch, -(2**31), arguments.INT32)
        < 0
    ):
        raise ConfigError(
            f"{tp}: {question.leader_epoch} is no leader epoch to ask for; epochs start at 0"
        )
    return question


def _final_if_given(
    answer: EpochEndOffset | KafkaError, question: EpochQuestion
) -> EpochEndOffset | KafkaError:
    """An epoch that the caller insists on does not get newer by asking again."""
    if (
        isinstance(answer, BrokerError)
        and answer.code == FENCED_LEADER_EPOCH
        and question.current_leader_epoch >= 0
    ):
        answer.retriable = False
    return answer
