"""Which right a user lacks where a broker answers that it is not authorized: Kafka's ACLs by API.

A right on a resource is an ACL of that operation. Who may read or write something may describe it,
so of two rights the one is named with which the work goes on afterwards.
"""

from __future__ import annotations

from typing import NamedTuple


class _Needed(NamedTuple):
    resource: str
    by_api: dict[str, str]
    otherwise: str | None
    """What all other APIs need; None where they differ."""


_FIRST_QUESTION = "Read, or Describe to look at it only,"
_TOPIC, _GROUP, _TRANSACTIONAL_ID = 29, 30, 53
"""..._AUTHORIZATION_FAILED."""
_NEEDED = {
    _TOPIC: _Needed(
        "the topic",
        {
            "PRODUCE": "Write",
            "ADD_PARTITIONS_TO_TXN": "Write",
            "FETCH": "Read",
            "SHARE_FETCH": "Read",
            "SHARE_ACKNOWLEDGE": "Read",
            "OFFSET_COMMIT": "Read",
            "TXN_OFFSET_COMMIT": "Read",
            "OFFSET_DELETE": "Read",
            "OFFSET_FETCH": "Read",
            "OFFSET_FOR_LEADER_EPOCH": "Read",
            "CONSUMER_GROUP_HEARTBEAT": "Read",
            "SHARE_GROUP_HEARTBEAT": "Read",
            "DESCRIBE_PRODUCERS": "Read",
            "METADATA": "Describe, which Read and Write include,",
            "LIST_OFFSETS": _FIRST_QUESTION,
            "DESCRIBE_TOPIC_PARTITIONS": "Describe",
            "CREATE_TOPICS": "Create",
            "CREATE_PARTITIONS": "Alter",
            "DELETE_TOPICS": "Delete",
            "DELETE_RECORDS": "Delete",
            "DESCRIBE_CONFIGS": "DescribeConfigs",
            "ALTER_CONFIGS": "AlterConfigs",
            "INCREMENTAL_ALTER_CONFIGS": "AlterConfigs",
        },
        None,
    ),
    _GROUP: _Needed(
        "the group",
        {
            "FIND_COORDINATOR": _FIRST_QUESTION,
            "DESCRIBE_GROUPS": "Describe",
            "CONSUMER_GROUP_DESCRIBE": "Describe",
            "SHARE_GROUP_DESCRIBE": "Describe",
            "OFFSET_FETCH": "Describe",
            "DELETE_GROUPS": "Delete",
            "OFFSET_DELETE": "Delete",
        },
        "Read",
    ),
    _TRANSACTIONAL_ID: _Needed(
        "the transactional id", {"DESCRIBE_TRANSACTIONS": "Describe"}, "Write"
    ),
}


def missing_right(code: int, api: str | None) -> str | None:
    """Return what a user lacks, by the code and the API that a broker refused; None where the code
    says nothing about rights, or not which.

    >>> missing_right(30, "JOIN_GROUP")
    'the user needs the right Read on the group'
    """
    needed = _NEEDED.get(code)
    if needed is None:
        return None
    right = needed.by_api.get(api or "", needed.otherwise)
    return None if right is None else f"the user needs the right {right} on {needed.resource}"
