"""What the brokers of the embedded cluster answer: one module per API that they act on, one table for the rest."""

from typing import Any

from parley.devcluster.handlers import (
    h00_produce,
    h01_fetch,
    h02_list_offsets,
    h03_metadata,
    h08_offset_commit,
    h09_offset_fetch,
    h10_find_coordinator,
    h15_describe_groups,
    h16_list_groups,
    h17_sasl_handshake,
    h18_api_versions,
    h19_create_topics,
    h20_delete_topics,
    h21_delete_records,
    h22_init_producer_id,
    h23_offset_for_leader_epoch,
    h24_add_partitions_to_txn,
    h25_add_offsets_to_txn,
    h26_end_txn,
    h28_txn_offset_commit,
    h32_describe_configs,
    h33_alter_configs,
    h35_describe_log_dirs,
    h36_sasl_authenticate,
    h37_create_partitions,
    h42_delete_groups,
    h44_incremental_alter_configs,
    h47_offset_delete,
    h55_describe_quorum,
    h60_describe_cluster,
    h61_describe_producers,
    h65_describe_transactions,
    h66_list_transactions,
    h75_describe_topic_partitions,
)
from parley.devcluster.handlers.base import Answer, Call, Handler, NoAnswer, Wait
from parley.devcluster.handlers.refusing import REFUSALS, Refusal, handler_of
from parley.messages import Message
from parley.schema import VersionRange

MODULES = (
    h00_produce,
    h01_fetch,
    h02_list_offsets,
    h03_metadata,
    h08_offset_commit,
    h09_offset_fetch,
    h10_find_coordinator,
    h15_describe_groups,
    h16_list_groups,
    h17_sasl_handshake,
    h18_api_versions,
    h19_create_topics,
    h20_delete_topics,
    h21_delete_records,
    h22_init_producer_id,
    h23_offset_for_leader_epoch,
    h24_add_partitions_to_txn,
    h25_add_offsets_to_txn,
    h26_end_txn,
    h28_txn_offset_commit,
    h32_describe_configs,
    h33_alter_configs,
    h35_describe_log_dirs,
    h36_sasl_authenticate,
    h37_create_partitions,
    h42_delete_groups,
    h44_incremental_alter_configs,
    h47_offset_delete,
    h55_describe_quorum,
    h60_describe_cluster,
    h61_describe_producers,
    h65_describe_transactions,
    h66_list_transactions,
    h75_describe_topic_partitions,
)

SERVED_APIS: frozenset[int] = frozenset(int(module.API.key) for module in MODULES)
"""The APIs that are acted on; the others are refused by the table of `refusing`."""

HANDLERS: dict[int, Handler[Any]] = {
    **{key: handler_of(refusal) for key, refusal in REFUSALS.items()},
    **{int(module.API.key): module.API for module in MODULES},
}
"""Every API that some release advertises, by key."""

SERVED: dict[int, VersionRange] = {key: handler.versions for key, handler in HANDLERS.items()}
"""The versions that can be answered of each of them."""

__all__ = [
    "HANDLERS",
    "MODULES",
    "REFUSALS",
    "SERVED",
    "SERVED_APIS",
    "Answer",
    "Call",
    "Handler",
    "Message",
    "NoAnswer",
    "Refusal",
    "Wait",
]
