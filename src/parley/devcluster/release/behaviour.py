"""What may differ between releases, as far as it is not a matter of API versions.

Handlers and state ask for a behaviour by its name; `profile` says which release has which.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from parley.devcluster.state.groups.records import RecordRules
from parley.devcluster.state.log.appending import MessageSetRules
from parley.devcluster.state.log.compaction import CleanerRules
from parley.devcluster.state.log.producers import ProducerRules
from parley.devcluster.state.rules import ElectionRules
from parley.errors.codes import (
    CORRUPT_MESSAGE,
    ILLEGAL_GENERATION,
    INVALID_REQUEST,
    INVALID_TXN_STATE,
    LEADER_NOT_AVAILABLE,
    NOT_COORDINATOR,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_SERVER_ERROR,
)
from parley.frames import EmptyFrames
from parley.schema import VersionRange

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

CLEANER_0_9 = CleanerRules(dates_tombstones=False, keeps_last_batch=False)

RECORDS_0_9 = RecordRules(
    offset_version=1,
    group_version=0,
    writes_topic_ids=False,
    hashes_topics=False,
    writes_assignment_times=False,
)


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
    demands_protocol_type: bool = False
    """JoinGroup refuses a member without a protocol type."""
    empty_protocols_code: int | None = UNKNOWN_SERVER_ERROR
    """JoinGroup's answer to the first member of a group if it has no protocols; None gives none,
    and the connection is stuck.
    """
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
    cleaner: CleanerRules = CLEANER_0_9
    """What the log cleaner leaves of compacted topics."""
    records: RecordRules = RECORDS_0_9
    """How groups and offsets stand in `__consumer_offsets`."""
    checks_sessions_first: bool = False
    """JoinGroup refuses a session timeout before it says that another broker coordinates, or that
    this one loads: seen in 4.1.1 and 4.3.0, not in 3.9.1.
    """
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
    loading_code: int = NOT_COORDINATOR
    """What a coordinator says of a group that it still loads."""
    loading_sync_code: int = REBALANCE_IN_PROGRESS
    """SyncGroup's answer instead of COORDINATOR_LOAD_IN_PROGRESS."""
    lists_while_loading: bool = True
    """ListGroups has the groups that are loaded also while others are not."""
    hides_loading: bool = False
    """TxnOffsetCommit v0 and v1 call a coordinator that loads one that is not available."""
    removes_unsynced_members: bool = False
    """Who does not sync within the rebalance timeout is removed."""
    offsets_retention_minutes: int = 1_440
    """`offsets.retention.minutes`, where the cluster sets none."""
    groups_keep_offsets: bool = False
    """Offsets expire with their groups (KIP-211); before, each by its own time."""
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
