"""What the brokers of the embedded cluster answer: one module per API, listed here."""

from parley.devcluster.handlers import (
    h00_produce,
    h01_fetch,
    h02_list_offsets,
    h03_metadata,
    h08_offset_commit,
    h09_offset_fetch,
    h10_find_coordinator,
    h16_list_groups,
    h18_api_versions,
    h19_create_topics,
    h20_delete_topics,
    h22_init_producer_id,
    h23_offset_for_leader_epoch,
)
from parley.devcluster.handlers.base import Answer, Call, Handler, Message, NoAnswer, Wait
from parley.schema import VersionRange

MODULES = (
    h00_produce,
    h01_fetch,
    h02_list_offsets,
    h03_metadata,
    h08_offset_commit,
    h09_offset_fetch,
    h10_find_coordinator,
    h16_list_groups,
    h18_api_versions,
    h19_create_topics,
    h20_delete_topics,
    h22_init_producer_id,
    h23_offset_for_leader_epoch,
)

HANDLERS: dict[int, Handler] = {int(module.API.key): module.API for module in MODULES}
"""The APIs that are served, by key."""

SERVED: dict[int, VersionRange] = {key: handler.versions for key, handler in HANDLERS.items()}
"""The versions written for each of them."""

__all__ = ["HANDLERS", "MODULES", "SERVED", "Answer", "Call", "Handler", "Message", "NoAnswer", "Wait"]
