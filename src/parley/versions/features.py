"""Features by name: the API versions and finalized features that each needs (KIP-35, KIP-97).

One table, one row per thing that a release may lack. `otherwise` says what parley does without it:
takes an older path, leaves a field out, or refuses before a byte is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from parley.errors import ConfigError, nearest_hint
from parley.schema import ApiKey


class Feature(Enum):
    """A thing that some releases can do; the value is the name that people type."""

    RECORD_TIMESTAMPS = "record-timestamps"
    RECORD_HEADERS = "record-headers"
    CLUSTER_ID = "cluster-id"
    CONTROLLER_ID = "controller-id"
    NO_AUTO_TOPIC_CREATION = "no-auto-topic-creation"
    LARGE_FIRST_MESSAGE = "large-first-message"
    OFFSETS_BY_TIME = "offsets-by-time"
    READ_COMMITTED = "read-committed"
    LIST_OFFSETS_LEADER_EPOCH = "list-offsets-leader-epoch"
    MAX_TIMESTAMP_OFFSET = "max-timestamp-offset"
    EARLIEST_LOCAL_OFFSET = "earliest-local-offset"
    LATEST_TIERED_OFFSET = "latest-tiered-offset"
    CREATE_TOPICS = "create-topics"
    DELETE_TOPICS = "delete-topics"
    CREATE_TOPICS_VALIDATE_ONLY = "create-topics-validate-only"
    CREATE_TOPICS_DEFAULTS = "create-topics-defaults"
    CREATE_PARTITIONS = "create-partitions"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    CONFIG_SYNONYMS = "config-synonyms"
    CONFIG_DOCUMENTATION = "config-documentation"
    INCREMENTAL_ALTER_CONFIGS = "incremental-alter-configs"
    ACLS = "acls"
    PREFIXED_ACLS = "prefixed-acls"
    DELETE_RECORDS = "delete-records"
    IDEMPOTENT_PRODUCER = "idempotent-producer"
    PRODUCER_EPOCH_BUMP = "producer-epoch-bump"
    EXACTLY_ONCE = "exactly-once"
    TXN_GROUP_METADATA = "txn-group-metadata"
    TRANSACTIONS_V2 = "transactions-v2"
    LZ4 = "lz4-framing"
    ZSTD = "zstd"
    FETCH_SESSIONS = "fetch-sessions"
    FETCH_LEADER_EPOCH = "fetch-leader-epoch"
    METADATA_LEADER_EPOCH = "metadata-leader-epoch"
    RELIABLE_LEADER_EPOCHS = "reliable-leader-epochs"
    OFFSET_FOR_LEADER_EPOCH = "offset-for-leader-epoch"
    DIVERGING_EPOCH = "diverging-epoch"
    FETCH_FROM_FOLLOWER = "fetch-from-follower"
    STATIC_MEMBERSHIP = "static-membership"
    MEMBER_ID_REQUIRED = "member-id-required"
    JOIN_REASON = "join-reason"
    COMMITTED_LEADER_EPOCH = "committed-leader-epoch"
    REQUIRE_STABLE_OFFSETS = "require-stable-offsets"
    BATCHED_COORDINATORS = "batched-coordinators"
    BATCHED_OFFSET_FETCH = "batched-offset-fetch"
    TOPIC_IDS = "topic-ids"
    DELETE_TOPICS_BY_ID = "delete-topics-by-id"
    FETCH_TOPIC_IDS = "fetch-topic-ids"
    PRODUCE_TOPIC_IDS = "produce-topic-ids"
    OFFSETS_TOPIC_IDS = "offsets-topic-ids"
    LEADER_HINTS = "leader-hints"
    DELEGATION_TOKENS = "delegation-tokens"
    DESCRIBE_CLUSTER = "describe-cluster"
    CLIENT_QUOTAS = "client-quotas"
    SCRAM_USERS = "scram-users"
    OFFSET_DELETE = "offset-delete"
    ELECT_LEADERS = "elect-leaders"
    PARTITION_REASSIGNMENT = "partition-reassignment"
    DESCRIBE_PRODUCERS = "describe-producers"
    DESCRIBE_TRANSACTIONS = "describe-transactions"
    CONSUMER_GROUPS = "consumer-groups"
    SHARE_GROUPS = "share-groups"
    STREAMS_GROUPS = "streams-groups"
    SASL_AUTHENTICATE = "sasl-authenticate"
    SASL_REAUTHENTICATION = "sasl-reauthentication"
    CLIENT_SOFTWARE_NAME = "client-software-name"

    def first_version(self, api: ApiKey) -> int:
        """Return the first version of an API that has this feature.

        Raises KeyError for an API that the feature does not need.

        >>> Feature.ZSTD.first_version(ApiKey.FETCH)
        10
        """
        return dict(FEATURES[self].apis)[api]

    @classmethod
    def named(cls, name: str) -> Feature:
        """Return the feature that a person typed. Raises ConfigError that names the nearest one."""
        wanted = name.strip().lower().replace("_", "-")
        for feature in cls:
            if feature.value == wanted:
                return feature
        known = [feature.value for feature in cls]
        hint = nearest_hint(wanted, known) or " `parley features` lists them."
        raise ConfigError(f'no feature is called "{name}".{hint}')


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a feature needs: for each API at least a version, and for `finalized` a feature level.

    `first_release` is the first release of Kafka that can do it; `otherwise` what parley does on
    others.
    """

    apis: tuple[tuple[ApiKey, int], ...]
    first_release: str
    otherwise: str
    finalized: tuple[tuple[str, int], ...] = ()
    kip: str = ""


def _needs(
    first_release: str,
    otherwise: str,
    *apis: tuple[ApiKey, int],
    kip: str = "",
    finalized: tuple[tuple[str, int], ...] = (),
) -> Requirement:
    return Requirement(apis, first_release, otherwise, finalized, kip)


_K = ApiKey
REFUSED = "refused before a byte is sent"
FEATURES: dict[Feature, Requirement] = {
    Feature.RECORD_TIMESTAMPS: _needs(
        "0.10.0", "timestamps are -1", (_K.PRODUCE, 2), (_K.FETCH, 2), kip="KIP-32"
    ),
    Feature.RECORD_HEADERS: _needs("0.11.0", REFUSED, (_K.PRODUCE, 3), (_K.FETCH, 4), kip="KIP-82"),
    Feature.CLUSTER_ID: _needs(
        "0.10.1", "the cluster's id is None", (_K.METADATA, 2), kip="KIP-78"
    ),
    Feature.CONTROLLER_ID: _needs(
        "0.10.0", "the controller's id is None", (_K.METADATA, 1), kip="KIP-4"
    ),
    Feature.NO_AUTO_TOPIC_CREATION: _needs("0.11.0", REFUSED, (_K.METADATA, 4), kip="KIP-204"),
    Feature.LARGE_FIRST_MESSAGE: _needs(
        "0.10.1", "asked for again with a larger limit", (_K.FETCH, 3), kip="KIP-74"
    ),
    Feature.OFFSETS_BY_TIME: _needs("0.10.1", REFUSED, (_K.LIST_OFFSETS, 1), kip="KIP-79"),
    Feature.READ_COMMITTED: _needs(
        "0.11.0", REFUSED, (_K.LIST_OFFSETS, 2), (_K.FETCH, 4), kip="KIP-98"
    ),
    Feature.LIST_OFFSETS_LEADER_EPOCH: _needs(
        "2.1", "epoch -1", (_K.LIST_OFFSETS, 4), kip="KIP-320"
    ),
    Feature.MAX_TIMESTAMP_OFFSET: _needs("3.0", REFUSED, (_K.LIST_OFFSETS, 7), kip="KIP-734"),
    Feature.EARLIEST_LOCAL_OFFSET: _needs("3.5", REFUSED, (_K.LIST_OFFSETS, 8), kip="KIP-405"),
    Feature.LATEST_TIERED_OFFSET: _needs("3.9", REFUSED, (_K.LIST_OFFSETS, 9), kip="KIP-1005"),
    Feature.CREATE_TOPICS: _needs("0.10.1", REFUSED, (_K.CREATE_TOPICS, 0), kip="KIP-4"),
    Feature.DELETE_TOPICS: _needs("0.10.1", REFUSED, (_K.DELETE_TOPICS, 0), kip="KIP-4"),
    Feature.CREATE_TOPICS_VALIDATE_ONLY: _needs(
        "0.10.2", REFUSED, (_K.CREATE_TOPICS, 1), kip="KIP-4"
    ),
    Feature.CREATE_TOPICS_DEFAULTS: _needs("2.4", REFUSED, (_K.CREATE_TOPICS, 4), kip="KIP-464"),
    Feature.CREATE_PARTITIONS: _needs("1.0", REFUSED, (_K.CREATE_PARTITIONS, 0), kip="KIP-195"),
    Feature.DESCRIBE_CONFIGS: _needs("0.11.0", REFUSED, (_K.DESCRIBE_CONFIGS, 0), kip="KIP-133"),
    Feature.ALTER_CONFIGS: _needs("0.11.0", REFUSED, (_K.ALTER_CONFIGS, 0), kip="KIP-133"),
    Feature.CONFIG_SYNONYMS: _needs("1.1", "left out", (_K.DESCRIBE_CONFIGS, 1), kip="KIP-226"),
    Feature.CONFIG_DOCUMENTATION: _needs(
        "2.6", "left out", (_K.DESCRIBE_CONFIGS, 3), kip="KIP-569"
    ),
    Feature.INCREMENTAL_ALTER_CONFIGS: _needs(
        "2.3",
        "refused: AlterConfigs would wipe the other settings",
        (_K.INCREMENTAL_ALTER_CONFIGS, 0),
        kip="KIP-339",
    ),
    Feature.ACLS: _needs(
        "0.11.0",
        REFUSED,
        (_K.DESCRIBE_ACLS, 0),
        (_K.CREATE_ACLS, 0),
        (_K.DELETE_ACLS, 0),
        kip="KIP-140",
    ),
    Feature.PREFIXED_ACLS: _needs(
        "2.0",
        REFUSED,
        (_K.DESCRIBE_ACLS, 1),
        (_K.CREATE_ACLS, 1),
        (_K.DELETE_ACLS, 1),
        kip="KIP-290",
    ),
    Feature.DELETE_RECORDS: _needs("0.11.0", REFUSED, (_K.DELETE_RECORDS, 0), kip="KIP-107"),
    Feature.IDEMPOTENT_PRODUCER: _needs(
        "0.11.0",
        "refused if asked for, off if by default",
        (_K.INIT_PRODUCER_ID, 0),
        (_K.PRODUCE, 3),
        kip="KIP-98",
    ),
    Feature.PRODUCER_EPOCH_BUMP: _needs(
        "2.5", "an unknown producer id is fatal", (_K.INIT_PRODUCER_ID, 3), kip="KIP-360"
    ),
    Feature.EXACTLY_ONCE: _needs(
        "0.11.0",
        REFUSED,
        (_K.INIT_PRODUCER_ID, 0),
        (_K.ADD_PARTITIONS_TO_TXN, 0),
        (_K.ADD_OFFSETS_TO_TXN, 0),
        (_K.END_TXN, 0),
        (_K.TXN_OFFSET_COMMIT, 0),
        kip="KIP-98",
    ),
    Feature.TXN_GROUP_METADATA: _needs(
        "2.5", "TxnOffsetCommit 0-2", (_K.TXN_OFFSET_COMMIT, 3), kip="KIP-447"
    ),
    Feature.TRANSACTIONS_V2: _needs(
        "4.0",
        "the first generation of the protocol",
        (_K.PRODUCE, 12),
        (_K.END_TXN, 5),
        (_K.TXN_OFFSET_COMMIT, 5),
        kip="KIP-890",
        finalized=(("transaction.version", 2),),
    ),
    Feature.LZ4: _needs(
        "0.10.0", "the old frame checksum is written", (_K.PRODUCE, 2), kip="KIP-57"
    ),
    Feature.ZSTD: _needs("2.1", REFUSED, (_K.PRODUCE, 7), (_K.FETCH, 10), kip="KIP-110"),
    Feature.FETCH_SESSIONS: _needs("1.1", "full fetches", (_K.FETCH, 7), kip="KIP-227"),
    Feature.FETCH_LEADER_EPOCH: _needs("2.1", "epoch -1", (_K.FETCH, 9), kip="KIP-320"),
    Feature.METADATA_LEADER_EPOCH: _needs("2.1", "epoch -1", (_K.METADATA, 7), kip="KIP-320"),
    Feature.RELIABLE_LEADER_EPOCHS: _needs(
        "2.4", "epochs are not believed", (_K.METADATA, 9), kip="KIP-320"
    ),
    Feature.OFFSET_FOR_LEADER_EPOCH: _needs(
        "2.3", "positions are not validated", (_K.OFFSET_FOR_LEADER_EPOCH, 3), kip="KIP-320"
    ),
    Feature.DIVERGING_EPOCH: _needs(
        "2.7", "OffsetForLeaderEpoch is asked", (_K.FETCH, 12), kip="KIP-595"
    ),
    Feature.FETCH_FROM_FOLLOWER: _needs("2.3", "the leader serves", (_K.FETCH, 11), kip="KIP-392"),
    Feature.STATIC_MEMBERSHIP: _needs("2.3", "left out", (_K.JOIN_GROUP, 5), kip="KIP-345"),
    Feature.MEMBER_ID_REQUIRED: _needs("2.2", "not asked for", (_K.JOIN_GROUP, 4), kip="KIP-394"),
    Feature.JOIN_REASON: _needs("3.2", "left out", (_K.JOIN_GROUP, 8), kip="KIP-800"),
    Feature.COMMITTED_LEADER_EPOCH: _needs(
        "2.1", "epoch -1", (_K.OFFSET_COMMIT, 6), (_K.OFFSET_FETCH, 5), kip="KIP-320"
    ),
    Feature.REQUIRE_STABLE_OFFSETS: _needs(
        "2.5", "the offset before an open transaction", (_K.OFFSET_FETCH, 7), kip="KIP-447"
    ),
    Feature.BATCHED_COORDINATORS: _needs(
        "3.0", "one at a time", (_K.FIND_COORDINATOR, 4), kip="KIP-699"
    ),
    Feature.BATCHED_OFFSET_FETCH: _needs(
        "3.0", "one at a time", (_K.OFFSET_FETCH, 8), kip="KIP-709"
    ),
    Feature.TOPIC_IDS: _needs("2.8", "no id", (_K.METADATA, 10), kip="KIP-516"),
    Feature.DELETE_TOPICS_BY_ID: _needs("2.8", REFUSED, (_K.DELETE_TOPICS, 6), kip="KIP-516"),
    Feature.FETCH_TOPIC_IDS: _needs("3.1", "names", (_K.FETCH, 13), kip="KIP-516"),
    Feature.PRODUCE_TOPIC_IDS: _needs("4.1", "names", (_K.PRODUCE, 13), kip="KIP-516"),
    Feature.OFFSETS_TOPIC_IDS: _needs(
        "4.2", "names", (_K.OFFSET_COMMIT, 10), (_K.OFFSET_FETCH, 10), kip="KIP-516"
    ),
    Feature.LEADER_HINTS: _needs(
        "3.7", "metadata is asked", (_K.PRODUCE, 10), (_K.FETCH, 16), kip="KIP-951"
    ),
    Feature.DELEGATION_TOKENS: _needs(
        "1.1", REFUSED, (_K.CREATE_DELEGATION_TOKEN, 0), kip="KIP-48"
    ),
    Feature.DESCRIBE_CLUSTER: _needs(
        "2.8", "Metadata is asked", (_K.DESCRIBE_CLUSTER, 0), kip="KIP-700"
    ),
    Feature.CLIENT_QUOTAS: _needs(
        "2.6", REFUSED, (_K.DESCRIBE_CLIENT_QUOTAS, 0), (_K.ALTER_CLIENT_QUOTAS, 0), kip="KIP-546"
    ),
    Feature.SCRAM_USERS: _needs(
        "2.7",
        REFUSED,
        (_K.DESCRIBE_USER_SCRAM_CREDENTIALS, 0),
        (_K.ALTER_USER_SCRAM_CREDENTIALS, 0),
        kip="KIP-554",
    ),
    Feature.OFFSET_DELETE: _needs("2.4", REFUSED, (_K.OFFSET_DELETE, 0), kip="KIP-496"),
    Feature.ELECT_LEADERS: _needs("2.4", REFUSED, (_K.ELECT_LEADERS, 1), kip="KIP-460"),
    Feature.PARTITION_REASSIGNMENT: _needs(
        "2.4",
        REFUSED,
        (_K.ALTER_PARTITION_REASSIGNMENTS, 0),
        (_K.LIST_PARTITION_REASSIGNMENTS, 0),
        kip="KIP-455",
    ),
    Feature.DESCRIBE_PRODUCERS: _needs("2.8", REFUSED, (_K.DESCRIBE_PRODUCERS, 0), kip="KIP-664"),
    Feature.DESCRIBE_TRANSACTIONS: _needs(
        "3.0", REFUSED, (_K.DESCRIBE_TRANSACTIONS, 0), (_K.LIST_TRANSACTIONS, 0), kip="KIP-664"
    ),
    Feature.CONSUMER_GROUPS: _needs(
        "4.0",
        "the classic group protocol",
        (_K.CONSUMER_GROUP_HEARTBEAT, 0),
        (_K.CONSUMER_GROUP_DESCRIBE, 0),
        kip="KIP-848",
        finalized=(("group.version", 1),),
    ),
    Feature.SHARE_GROUPS: _needs(
        "4.1",
        REFUSED,
        (_K.SHARE_GROUP_HEARTBEAT, 1),
        (_K.SHARE_FETCH, 1),
        (_K.SHARE_ACKNOWLEDGE, 1),
        kip="KIP-932",
    ),
    Feature.STREAMS_GROUPS: _needs("4.2", REFUSED, (_K.STREAMS_GROUP_HEARTBEAT, 0), kip="KIP-1071"),
    Feature.SASL_AUTHENTICATE: _needs(
        "1.0",
        "raw tokens after SaslHandshake v0",
        (_K.SASL_HANDSHAKE, 1),
        (_K.SASL_AUTHENTICATE, 0),
        kip="KIP-152",
    ),
    Feature.SASL_REAUTHENTICATION: _needs(
        "2.2", "no re-authentication", (_K.SASL_AUTHENTICATE, 1), kip="KIP-368"
    ),
    Feature.CLIENT_SOFTWARE_NAME: _needs("2.4", "left out", (_K.API_VERSIONS, 3), kip="KIP-511"),
}
"""What each feature needs. A test holds every row against the measured releases."""
