"""What a broker that is cut off from the others answers where it would have to ask them.

Partitions are not among it: of those it serves what it has, as leader of an epoch that is over
perhaps.
"""

from __future__ import annotations

from parley.devcluster.handlers import HANDLERS
from parley.errors.codes import COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT
from parley.messages import Message, MetadataRequest
from parley.schema import ApiKey

_OF_THE_CONTROLLER = (
    ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ELECT_LEADERS,
)  # fmt: skip
_OF_COORDINATORS = (
    ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)  # fmt: skip
CODES: dict[int, int] = {
    **{int(key): REQUEST_TIMED_OUT for key in _OF_THE_CONTROLLER},
    **{int(key): COORDINATOR_NOT_AVAILABLE for key in _OF_COORDINATORS},
}


def answer_alone(api_key: int, version: int, message: Message) -> Message | None:
    """Return what is answered to a request that needs the other brokers,
    None where it needs none.
    """
    if isinstance(message, MetadataRequest):
        message.allow_auto_topic_creation = False  # nobody is there who could
    code = CODES.get(api_key)
    return None if code is None else HANDLERS[api_key].refuse(message, version, code)
