"""What makes a broker of the embedded cluster speak as one release: its ranges and its behaviours.

Ranges, record format and features are measured ones (`versions`, releases.json). The behaviours are
the table below: a row for each release that changes some of them. It says what was measured on real
brokers, unless a comment names another source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from parley.devcluster.release.behaviour import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NOT_ASKED,
    Behaviour,
    InvalidRecords,
)
from parley.devcluster.state.groups.records import RecordRules
from parley.devcluster.state.log.appending import MessageSetRules
from parley.devcluster.state.log.producers import ProducerRules
from parley.devcluster.state.rules import ElectionRules
from parley.errors.codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_CONFIG,
    INVALID_RECORD,
    INVALID_REQUEST,
    TRANSACTION_ABORTABLE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.frames import EmptyFrames
from parley.schema import ApiKey, VersionRange
from parley.versions.releases import Release, release, release_number

Change = Callable[[Behaviour], Behaviour]
"""Returns a release's behaviours for those of the releases before it."""

BEHAVIOURS: tuple[tuple[str, Change], ...] = (
    (
        "0.10",
        lambda was: replace(
            was,
            silent_refusals=False,
            answers_any_version=False,
            longest_session_ms=300_000,
            lists_simple_groups=True,
        ),
    ),
    (
        "0.10.1",
        lambda was: replace(
            was,
            empty_groups_have_members=True,
            has_empty_groups=True,
            records=replace(was.records, group_version=1),
        ),
    ),
    (
        "0.11",
        lambda was: replace(
            was,
            message_sets=replace(was.message_sets, checks_wrappers=True),
            delays_first_rebalance=True,
            empty_protocols_code=None,
        ),
    ),
    (
        "1.0",
        lambda was: replace(
            was,
            empty_frames=EmptyFrames.REJECT,
            producer_rules=ProducerRules(UNKNOWN_PRODUCER_ID),
            adds_unknown_partitions=True,
            demands_protocol_type=True,
            empty_protocols_code=INCONSISTENT_GROUP_PROTOCOL,
        ),
    ),
    (
        "1.1",
        lambda was: replace(
            was,
            awaits_sync=False,  # by its own text
            alters_brokers=True,
            idle_sasl_mechanisms=(),
        ),
    ),
    (
        "2.0",
        lambda was: replace(
            was,
            describes_missing_topics=False,
            deletes_nameless_groups=True,
            offsets_retention_minutes=10_080,
            cuts_conversion=True,
            commits_unknown_partitions=False,
            adds_unknown_partitions=False,
            commits_for_nobody=False,
            # not seen in 1.1.1, seen in 2.4.1; since 2.0 by its own text
            loading_code=COORDINATOR_LOAD_IN_PROGRESS,
        ),
    ),
    (
        "2.1",
        lambda was: replace(
            was,
            knows_zstd=True,
            invalid_records=InvalidRecords.CLOSE_IF_EMPTY,
            returns_last_stable_offset=True,
            invalid_value_code=INVALID_CONFIG,
            demands_transactional_id=True,
            groups_keep_offsets=True,
            records=replace(was.records, offset_version=3, group_version=2),
        ),
    ),
    (
        "2.2",
        lambda was: replace(
            was,
            refused_generation=-1,
            returns_list_offsets_epoch=True,
            limits_group_size=True,
        ),
    ),
    (
        "2.3",
        lambda was: replace(
            was,
            longest_session_ms=1_800_000,
            coordinator_message="NONE",
            records=replace(was.records, group_version=3),
            unknown_key_type_code=UNKNOWN_SERVER_ERROR,
        ),
    ),
    (
        "2.4",
        lambda was: replace(
            was,
            names_range_in_error_35=True,  # this and the next: KIP-511
            checks_client_name=True,
            invalid_record_code=INVALID_RECORD,  # KIP-467
            message_sets=MessageSetRules(counts_inner=True),
            knows_loggers=True,  # KIP-412
            has_topic_defaults=True,  # KIP-464
            selects_replicas=True,  # by its own text
            fences_offsets=True,
        ),
    ),
    (
        "2.5",
        lambda was: replace(
            was,
            returns_epoch_without_leader=True,  # not seen in 2.4.1, seen in 3.9.1
            unasked_operations=NOT_ASKED,
            aborted_when_empty=False,
            producer_rules=ProducerRules(),  # KIP-360, by its own text
        ),
    ),
    (
        "2.6",
        lambda was: replace(
            was,
            heartbeats_while_completing=True,
            hides_loading=True,  # not seen in 2.4.1, seen in 4.3.0; since 2.6 by its own text
            names_unasked_topics=True,
            fragile_appends=False,
            fences_higher_epochs=True,
        ),
    ),
    (
        "2.7",
        lambda was: replace(
            was,
            alter_missing_topic_code=UNKNOWN_TOPIC_OR_PARTITION,
            checks_assignment_first=True,
            returns_defaults_in_v0=False,
            echoes_unknown_resources=True,
        ),
    ),
    (
        "2.8",  # seen in 2.8.2, not in 2.7.2
        lambda was: replace(
            was,
            removes_unsynced_members=True,  # by its own text
            invalid_records=InvalidRecords.ANSWER,
            unknown_key_type_code=INVALID_REQUEST,
            message_sets=MessageSetRules(),
            lists_invalid_records=True,
            describes_with_text=True,
        ),
    ),
    (
        "3.0",
        lambda was: replace(
            was,
            aborted_of_unknown=True,
            known_times={MAX_TIMESTAMP: 7},
            lone_generation_code=UNKNOWN_MEMBER_ID,
        ),
    ),
    (
        "3.1",  # KIP-534
        lambda was: replace(was, cleaner=replace(was.cleaner, dates_tombstones=True)),
    ),
    (
        "3.3",  # KRaft
        lambda was: replace(
            was,
            names_controller=False,
            auto_create_code=UNKNOWN_TOPIC_OR_PARTITION,
            deletion_details=True,
            invalid_altered_value_code=INVALID_CONFIG,
            checks_assignment_first=False,
            refuses_lone_members=False,
            # The epoch rises once, and from 3.6 on not for a follower. Seen in 3.9.1; the rest,
            # here and in 3.6 and 3.7, by the controller's text.
            election=ElectionRules(),
        ),
    ),
    (
        "3.5",
        lambda was: replace(was, known_times={**was.known_times, EARLIEST_LOCAL: 8}),
    ),
    (
        "3.6",
        lambda was: replace(
            was,
            verifies_transactions=True,
            explains_verification=True,
            election=replace(was.election, epoch_per_removal=False),
            names_unasked_topics=False,
        ),
    ),
    (
        "3.7",
        lambda was: replace(
            was,
            verifies_offsets=True,
            explains_verification=False,
            election=replace(was.election, watermark_needs_min_isr=True, caps_min_isr=True),
            knows_metrics_resources=True,
        ),
    ),
    (
        "3.8",
        lambda was: replace(was, unverified_code=TRANSACTION_ABORTABLE),
    ),
    (
        "3.9",
        lambda was: replace(
            was,
            known_times={**was.known_times, LATEST_TIERED: 9},
            checks_times=True,
        ),
    ),
    (
        "4.0",
        lambda was: replace(
            was,
            verifies_epochs=True,
            epochs_per_fence=2,
            loading_sync_code=COORDINATOR_LOAD_IN_PROGRESS,  # seen in 4.3.0; by its text since 4.0
            lists_while_loading=False,
            knows_group_resources=True,
            group_operations=0b1101_0100_1000,
            checks_sessions_first=True,
            cleaner=replace(was.cleaner, keeps_last_batch=True),  # KAFKA-17076
            # The Produce range is a lie for old librdkafka's sake (KAFKA-18659).
            closes={int(ApiKey.PRODUCE): VersionRange(0, 2)},
        ),
    ),
    (
        "4.1",
        lambda was: replace(
            was,
            forgets_start_time=True,
            epochs_per_fence=1,
            records=replace(was.records, offset_version=4, hashes_topics=True),
            names_eligible_leaders=True,  # seen in 4.3.0; in new clusters since 4.1 by its own text
        ),
    ),
    (
        "4.2",
        lambda was: replace(
            was,
            known_times={**was.known_times, EARLIEST_PENDING_UPLOAD: 11},
            records=replace(was.records, writes_topic_ids=True),
        ),
    ),
    (
        "4.3",  # seen in 4.3.0, not in 4.1.1
        lambda was: replace(
            was,
            first_group_epoch=1,
            assignment_interval_ms=1_000,
            commits_by_partition=True,
            records=replace(was.records, writes_assignment_times=True),
        ),
    ),
)
"""What changes with a release, oldest first; each release has one row."""


def behaviour_of(found: Release) -> Behaviour:
    """Return the behaviours of a release.

    >>> [behaviour_of(release(name)).names_controller for name in ("0.10.2.2", "4.3")]
    [True, False]
    """
    behaviour = Behaviour()
    for since, change in BEHAVIOURS:
        if found.number >= release_number(since):
            behaviour = change(behaviour)
    return behaviour


@dataclass(frozen=True, slots=True)
class Profile:
    """A release as one broker of the cluster speaks it: `ranges` is what it advertises."""

    release: Release
    ranges: Mapping[int, VersionRange]
    behaviour: Behaviour
    records: RecordRules
    """How it writes groups and offsets."""

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
    behaviour = behaviour_of(found)
    records = replace(behaviour.records, magic=found.record_magic)
    return Profile(found, found.ranges, behaviour, records)
