"""What makes a broker of the embedded cluster speak as one release: its ranges and its behaviours.

Ranges, record format and features are measured ones (`versions`, releases.json). The behaviours are
the table below: each row begins at a release and changes some of them. It says what was measured on
real brokers, unless a row names its source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parley.devcluster.state.log.appending import MessageSetRules
from parley.devcluster.state.log.producers import ProducerRules
from parley.devcluster.state.rules import ElectionRules
from parley.errors.codes import (
    CORRUPT_MESSAGE,
    ILLEGAL_GENERATION,
    INVALID_CONFIG,
    INVALID_RECORD,
    INVALID_REQUEST,
    INVALID_TXN_STATE,
    LEADER_NOT_AVAILABLE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_ABORTABLE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.frames import EmptyFrames
from parley.schema import ApiKey, VersionRange
from parley.versions.releases import Release, release, release_number

MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -3, -4, -5, -6
"""ListOffsets' special times (KIP-734, KIP-405, KIP-1005, KIP-1023)."""

OPERATIONS_OF_GROUPS = 0b1_0100_1000  # read, delete, describe
NOT_ASKED = -(2**31)
"""Metadata's authorized operations where they are left out (KIP-430)."""


class InvalidRecords(enum.Enum):
    """What a record set that Produce v3+ does not allow does."""

    CLOSE = "close"  # it closes the connection
    # only one without a whole batch does, and in the versions below too
    CLOSE_IF_EMPTY = "close if empty"
    ANSWER = "answer"  # it is refused


RULES_0_11 = ProducerRules(OUT_OF_ORDER_SEQUENCE_NUMBER, 1)
"""0.11 remembers one batch of a producer, later releases five."""


RULES_0_10 = MessageSetRules(checks_wrappers=False, alone=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a release acts, as far as it is not a matter of API versions. The defaults are 0.9's."""

    silent_refusals: bool = True
    """Unknown keys and undecodable bodies get no answer and the socket stays open (0.9 only)."""
    answers_any_version: bool = True
    """A version above the range is read and answered as the highest one (0.9 only)."""
    empty_frames: EmptyFrames = EmptyFrames.IGNORE
    names_range_in_error_35: bool = False
    checks_client_name: bool = False
    names_controller: bool = True
    """Only the controller creates topics; others answer NOT_CONTROLLER
    (ZooKeeper; KRaft forwards).
    """
    has_topic_defaults: bool = False
    """CreateTopics takes -1 partitions or replicas for the broker's default
    (KIP-464), in every version.
    """
    auto_create_code: int = LEADER_NOT_AVAILABLE
    invalid_record_code: int = CORRUPT_MESSAGE
    lists_invalid_records: bool = False
    """Produce v8+ names each record that is refused, with a text; before, the first one without."""
    invalid_records: InvalidRecords = InvalidRecords.CLOSE
    message_sets: MessageSetRules = RULES_0_10
    """What is demanded of sets of magic 0 and 1."""
    knows_zstd: bool = False
    producer_rules: ProducerRules = RULES_0_11
    cuts_conversion: bool = False
    """What grows when it is converted for an old reader is cut at the size it had."""
    returns_last_stable_offset: bool = False
    """To read_uncommitted fetches too; before, they are sent -1."""
    selects_replicas: bool = False
    """Fetch sends a consumer to a replica in its own rack (KIP-392)."""
    aborted_of_unknown: bool = False
    """Fetch answers an empty list of aborted transactions, not null, for a
    partition that it does not know.
    """
    returns_list_offsets_epoch: bool = False
    known_times: Mapping[int, int] = field(default_factory=dict)
    """ListOffsets' special times beyond -1 and -2, and the version that brought
    each; others are plain times.
    """
    checks_times: bool = False
    """A special time is refused below its version; before, it was understood in every version."""
    commits_unknown_partitions: bool = True
    empty_groups_have_members: bool = False
    """A commit with membership to a group that has only offsets is
    UNKNOWN_MEMBER_ID, not ILLEGAL_GENERATION.
    """
    coordinator_message: str | None = None
    """What FindCoordinator v1-3 says when nothing is wrong."""
    unknown_key_type_code: int | None = None
    """FindCoordinator's answer to a key type that does not exist; None closes."""
    invalid_value_code: int = UNKNOWN_SERVER_ERROR
    """CreateTopics' answer to a setting whose value cannot be."""
    deletion_details: bool = False
    """DeleteTopics v5+ gives error messages, and topic ids for names."""
    unasked_operations: int = 0
    """Metadata's authorized operations where nobody asked for them."""
    group_operations: int = OPERATIONS_OF_GROUPS
    """DescribeGroups v3+: what may be done with a group where nothing is forbidden."""
    idle_sasl_mechanisms: tuple[str, ...] = ("GSSAPI",)
    """What SaslHandshake names on a listener without SASL."""
    refused_generation: int = 0
    """The generation in an answer that refuses JoinGroup."""
    checks_assignment_first: bool = False
    """CreateTopics looks at the assignment before the settings."""
    deletes_nameless_groups: bool = False
    """DeleteGroups looks for a group without a name; before, that is INVALID_GROUP_ID."""
    names_unasked_topics: bool = False
    """DescribeLogDirs names every topic, those not asked for without partitions."""
    describes_with_text: bool = False
    """DescribeConfigs says an empty text where nothing is wrong; before, null."""
    returns_defaults_in_v0: bool = True
    """DescribeConfigs v0 marks defaults."""
    echoes_unknown_resources: bool = False
    """DescribeConfigs repeats the number of a resource type that it does not
    know; before, it says 0.
    """
    invalid_altered_value_code: int = INVALID_REQUEST
    fragile_appends: bool = True
    """IncrementalAlterConfigs fails on lists that are not set at the topic itself, and on null."""
    describes_missing_topics: bool = True
    """DescribeConfigs gives the defaults for a topic that does not exist."""
    alter_missing_topic_code: int = UNKNOWN_SERVER_ERROR
    alters_brokers: bool = False
    """Dynamic settings of brokers (KIP-226)."""
    knows_loggers: bool = False
    knows_metrics_resources: bool = False
    knows_group_resources: bool = False
    fences_higher_epochs: bool = False
    """EndTxn refuses an epoch above the producer's also where no transaction is open."""
    demands_transactional_id: bool = False
    """Produce refuses transactional records without a transactional id."""
    verifies_transactions: bool = False
    """A transactional batch is taken only when its partition is part of the
    transaction (KIP-890).
    """
    verifies_epochs: bool = False
    """And when the open transaction on the partition is of another epoch."""
    verifies_offsets: bool = False
    """TxnOffsetCommit likewise."""
    unverified_code: int = INVALID_TXN_STATE
    """The coordinator's word for a partition that is not part of the transaction."""
    explains_verification: bool = False
    """Produce gives a text with each error of the coordinator; later ones do with
    INVALID_TXN_STATE alone.
    """
    epochs_per_fence: int = 1
    """How far the epoch rises when an open transaction is aborted, its producer fenced."""
    adds_unknown_partitions: bool = False
    """AddPartitionsToTxn takes any partition of a topic that exists."""
    refuses_lone_members: bool = True
    """TxnOffsetCommit v3+ refuses a member without a generation."""
    lone_generation_code: int = ILLEGAL_GENERATION
    """TxnOffsetCommit's answer to a generation without a member."""
    commits_for_nobody: bool = True
    """TxnOffsetCommit takes a group without a name."""
    fences_offsets: bool = False
    """TxnOffsetCommit refuses an epoch older than the one that its log has seen."""
    forgets_start_time: bool = False
    """DescribeTransactions has no start time between transactions; before, that of the last one."""
    aborted_when_empty: bool = True
    """Fetch lists aborted transactions beyond the last stable offset where
    no record can be read.
    """
    returns_epoch_without_leader: bool = False
    """Metadata gives the leader epoch of a partition that has no leader; before, -1."""
    names_eligible_leaders: bool = False
    """The last in-sync replica that died is no longer reported as in sync, but as an
    eligible leader (KIP-966).
    """
    election: ElectionRules = field(default_factory=lambda: ElectionRules(epoch_per_failover=True))
    """What the death of brokers does to leader epochs and high watermarks."""
    longest_session_ms: int = 30_000
    """`group.max.session.timeout.ms`."""
    has_empty_groups: bool = False
    """A group that lost its last member is Empty; before, Dead."""
    lists_simple_groups: bool = False
    """ListGroups has groups without members too."""
    awaits_sync: bool = True
    """CompletingRebalance is called AwaitingSync."""
    delays_first_rebalance: bool = False
    """The first generation of a group waits for more members (KIP-134)."""
    limits_group_size: bool = False
    """`group.max.size` (KIP-389)."""
    heartbeats_while_completing: bool = False
    """A heartbeat between join and sync is fine; before, REBALANCE_IN_PROGRESS."""
    removes_unsynced_members: bool = False
    """Who does not sync within the rebalance timeout is removed."""
    first_group_epoch: int = 0
    """The epoch of a group of the consumer protocol before its first member subscribes."""
    assignment_interval_ms: int = 0
    """How long such a group waits after an assignment before it computes the next."""
    commits_by_partition: bool = False
    """An older member epoch may commit for partitions that the member has
    had since then (KIP-1251).
    """
    closes: Mapping[int, VersionRange] = field(default_factory=dict)
    """Versions that are advertised and closed on all the same."""


BEHAVIOURS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.10", {"silent_refusals": False, "answers_any_version": False}),
    ("0.10", {"longest_session_ms": 300_000, "lists_simple_groups": True}),
    ("0.10.1", {"empty_groups_have_members": True, "has_empty_groups": True}),
    ("0.11", {"message_sets": MessageSetRules(alone=False), "delays_first_rebalance": True}),
    ("1.1", {"awaits_sync": False}),  # by its own text
    (
        "1.0",
        {"empty_frames": EmptyFrames.REJECT, "producer_rules": ProducerRules(UNKNOWN_PRODUCER_ID)},
    ),
    ("1.1", {"alters_brokers": True, "idle_sasl_mechanisms": ()}),
    ("2.0", {"describes_missing_topics": False, "deletes_nameless_groups": True}),
    ("2.0", {"cuts_conversion": True, "commits_unknown_partitions": False}),
    (
        "2.1",
        {
            "knows_zstd": True,
            "invalid_records": InvalidRecords.CLOSE_IF_EMPTY,
            "returns_last_stable_offset": True,
            "invalid_value_code": INVALID_CONFIG,
        },
    ),
    ("2.2", {"refused_generation": -1}),
    ("2.2", {"returns_list_offsets_epoch": True, "limits_group_size": True}),
    ("2.3", {"longest_session_ms": 1_800_000}),
    ("2.6", {"heartbeats_while_completing": True}),
    ("2.8", {"removes_unsynced_members": True}),  # by its own text
    ("2.3", {"coordinator_message": "NONE", "unknown_key_type_code": UNKNOWN_SERVER_ERROR}),
    (
        "2.4",  # KIP-511; INVALID_RECORD by KIP-467
        {
            "names_range_in_error_35": True,
            "checks_client_name": True,
            "invalid_record_code": INVALID_RECORD,
        },
    ),
    ("2.4", {"message_sets": MessageSetRules(counts_inner=True)}),
    ("2.4", {"knows_loggers": True, "has_topic_defaults": True}),  # KIP-412, KIP-464
    ("2.4", {"selects_replicas": True}),  # by its own text
    ("2.5", {"returns_epoch_without_leader": True}),  # not seen in 2.4.1, seen in 3.9.1
    ("2.5", {"unasked_operations": NOT_ASKED, "aborted_when_empty": False}),
    ("2.5", {"producer_rules": ProducerRules()}),  # KIP-360, by its own text
    (
        "2.8",  # seen in 2.8.2, not in 2.7.2
        {"invalid_records": InvalidRecords.ANSWER, "unknown_key_type_code": INVALID_REQUEST},
    ),
    ("3.0", {"aborted_of_unknown": True, "known_times": {MAX_TIMESTAMP: 7}}),
    (
        "3.3",  # KRaft
        {
            "names_controller": False,
            "auto_create_code": UNKNOWN_TOPIC_OR_PARTITION,
            "deletion_details": True,
        },
    ),
    ("3.5", {"known_times": {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}}),
    (
        "3.9",
        {
            "known_times": {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9},
            "checks_times": True,
        },
    ),
    (
        "2.7",
        {"alter_missing_topic_code": UNKNOWN_TOPIC_OR_PARTITION, "checks_assignment_first": True},
    ),
    ("2.8", {"message_sets": MessageSetRules()}),  # seen in 2.8.2
    ("2.6", {"names_unasked_topics": True}),
    ("2.6", {"fragile_appends": False}),
    ("2.7", {"returns_defaults_in_v0": False, "echoes_unknown_resources": True}),
    ("2.8", {"lists_invalid_records": True, "describes_with_text": True}),
    ("3.3", {"invalid_altered_value_code": INVALID_CONFIG, "checks_assignment_first": False}),
    ("3.6", {"verifies_transactions": True, "explains_verification": True}),
    ("3.7", {"verifies_offsets": True, "explains_verification": False}),
    ("2.6", {"fences_higher_epochs": True}),
    ("3.8", {"unverified_code": TRANSACTION_ABORTABLE}),
    ("4.0", {"verifies_epochs": True, "epochs_per_fence": 2}),
    ("4.1", {"forgets_start_time": True, "epochs_per_fence": 1}),
    # seen in 4.3.0; on in new clusters since 4.1 by its own text
    ("4.1", {"names_eligible_leaders": True}),
    ("1.0", {"adds_unknown_partitions": True}),
    ("2.0", {"adds_unknown_partitions": False, "commits_for_nobody": False}),
    ("2.1", {"demands_transactional_id": True}),
    ("2.4", {"fences_offsets": True}),
    ("3.0", {"lone_generation_code": UNKNOWN_MEMBER_ID}),
    ("3.3", {"refuses_lone_members": False}),
    # KRaft raises the epoch once, and from 3.6 on not for a follower; seen in 3.9.1, the rest by
    # the controller's text.
    ("3.3", {"election": ElectionRules()}),
    ("3.6", {"election": ElectionRules(epoch_per_removal=False)}),
    ("3.7", {"election": ElectionRules(epoch_per_removal=False, watermark_needs_min_isr=True)}),
    ("3.6", {"names_unasked_topics": False}),
    ("3.7", {"knows_metrics_resources": True}),
    ("4.0", {"knows_group_resources": True, "group_operations": 0b1101_0100_1000}),
    # The Produce range is a lie for old librdkafka's sake (KAFKA-18659).
    ("4.0", {"closes": {int(ApiKey.PRODUCE): VersionRange(0, 2)}}),
    (
        "4.2",
        {
            "known_times": {
                MAX_TIMESTAMP: 7,
                EARLIEST_LOCAL: 8,
                LATEST_TIERED: 9,
                EARLIEST_PENDING_UPLOAD: 11,
            }
        },
    ),
    # Seen in 4.3.0, not in 4.1.1.
    (
        "4.3",
        {"first_group_epoch": 1, "assignment_interval_ms": 1_000, "commits_by_partition": True},
    ),
)
"""From which release on a behaviour holds; later rows override earlier ones."""


def behaviour_of(found: Release) -> Behaviour:
    """Return the behaviours of a release.

    >>> behaviour_of(release("0.10.2.2")).names_controller, behaviour_of(release("4.3")).names_controller
    (True, False)
    """
    behaviour = Behaviour()
    for since, changes in BEHAVIOURS:
        if found.number >= release_number(since):
            behaviour = replace(behaviour, **changes)
    return behaviour


@dataclass(frozen=True, slots=True)
class Profile:
    """A release as one broker of the cluster speaks it: `ranges` is what it advertises."""

    release: Release
    ranges: Mapping[int, VersionRange]
    behaviour: Behaviour

    @property
    def name(self) -> str:
        """The full number of the release."""
        return self.release.name

    def serves(self, api_key: int, version: int) -> bool:
        """Whether a request of that version is answered."""
        served = self.ranges.get(api_key)
        lie = self.behaviour.closes.get(api_key)
        return served is not None and version in served and (lie is None or version not in lie)


def make_profile(name: str, served: Mapping[int, VersionRange]) -> Profile:
    """Return the profile of a release. It advertises exactly what the release does.

    Raises ConfigError for a release that is not known, naming the nearest one, and ValueError when
    `served`, the versions that can be answered, lacks one (a bug: every advertised version is
    served).
    """
    found = release(name)
    for key, advertised in found.ranges.items():
        own = served.get(key)
        if own is None or advertised.min < own.min or advertised.max > own.max:
            raise ValueError(f"API {key}: {name} advertises {advertised}, only {own} is served")
    return Profile(found, found.ranges, behaviour_of(found))
