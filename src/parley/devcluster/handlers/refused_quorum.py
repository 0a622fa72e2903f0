"""The controllers' quorum: it is inside the cluster, and does not change."""

from __future__ import annotations

from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.mirror import Chain
from parley.devcluster.handlers.refusing import Refusal
from parley.errors.codes import INCONSISTENT_CLUSTER_ID, UNSUPPORTED_VERSION
from parley.schema import ApiKey

CODES = (UNSUPPORTED_VERSION, INCONSISTENT_CLUSTER_ID)
WHY = "the controllers are inside the cluster; their quorum cannot be changed"


def voter(call: Call, chain: Chain) -> int:
    """Refuse another cluster's voters, and this one's because its quorum is fixed."""
    asked = chain[0].cluster_id
    return (
        UNSUPPORTED_VERSION
        if asked is None or asked == call.image.cluster_id
        else INCONSISTENT_CLUSTER_ID
    )


REFUSALS = (
    Refusal(ApiKey.ADD_RAFT_VOTER, CODES, WHY, voter),
    Refusal(ApiKey.REMOVE_RAFT_VOTER, CODES, WHY, voter),
)
