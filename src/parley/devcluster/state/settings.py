"""What a cluster is configured with: the settings that Kafka keeps in server.properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parley.devcluster.state.topics import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What Kafka keeps in server.properties; its defaults.

    `host` is where brokers listen and what they advertise: loopback, unless asked otherwise.
    `start_time_ms` is the time of day at which a manual clock begins. `racks` names the brokers'
    racks by id: consumers that name theirs are sent to a replica in it (KIP-392). A broker that is
    cut off is missed by the controller after `broker_session_timeout_ms`, a follower that is held
    back leaves the in-sync replicas after `replica_lag_time_max_ms`; records that topics keep no
    longer go every `log_retention_check_interval_ms`, compacted topics are looked at every
    `log_cleaner_backoff_ms`, connections on which nothing moves end after
    `connections_max_idle_ms`.
    """

    host: str = "127.0.0.1"
    start_time_ms: int | None = None
    auto_create_topics: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    racks: Mapping[int, str] = field(default_factory=dict)
    connections_max_idle_ms: int = 600_000
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_backoff_ms: int = 15_000
    broker_session_timeout_ms: int = 9_000
    replica_lag_time_max_ms: int = 30_000
    transaction_max_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    max_incremental_fetch_session_cache_slots: int = 1_000
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 0
    """0 as in Kafka's own test clusters: brokers have 3000 from 0.11 on."""
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int | None = None
    """None: what the broker's release has, 1000 from 4.3 on."""
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    """As far as there are brokers when the topic is made."""
    coordinator_topics_creation_ms: int = 0
    """How long the topics of coordinators take to be made, from the first FindCoordinator on, which
    answers COORDINATOR_NOT_AVAILABLE until then. Real brokers were seen to take 1400 to 3800.
    """
    coordinator_loading_ms: int = 0
    """How long a coordinator loads what it has taken over: COORDINATOR_LOAD_IN_PROGRESS."""
    offsets_retention_minutes: int | None = None
    """None: what the broker's release has, a day up to 1.1 and seven from 2.0 on."""
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_migration_policy: str = "bidirectional"
    """Whether live groups change between the classic and the consumer protocol: bidirectional,
    upgrade, downgrade or disabled.
    """
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int | None = None
    """None: what the broker's release has, 1000 from 4.3 on."""
    group_share_record_lock_duration_ms: int = 30_000
    group_share_delivery_count_limit: int = 5
    group_share_partition_max_record_locks: int = 2_000
    group_share_max_size: int = 200
    group_share_max_share_sessions: int = 2_000
