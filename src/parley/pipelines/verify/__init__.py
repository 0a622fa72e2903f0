"""Proof that two topics hold the same records, on one cluster or two of any releases.

Both sides are read and hashed where they are; what is compared are digests of runs of records
(`parley.records.digest`), and only where these differ a run is read again. Rank decides, not
offset: a topic that was copied has other offsets, and compaction and transactions leave holes.

Map: `calls` is what users call, `results` what they get. `planning` says what is held against what;
`reading` is one side's client; `comparing` reads both and looks differences up. Plain parts: `runs`
keeps digests in bounded memory, `bisection` narrows a difference down, `latest` is for compacted
topics. `beginnings` finds where both sides begin after retention.
"""

from parley.pipelines.verify.calls import VerifyOptions, async_verify_topics, verify_topics
from parley.pipelines.verify.planning import Alignment
from parley.pipelines.verify.results import (
    ComparedRecord,
    Difference,
    DifferenceKind,
    Verification,
    VerifiedPartition,
)

__all__ = [
    "Alignment",
    "ComparedRecord",
    "Difference",
    "DifferenceKind",
    "Verification",
    "VerifiedPartition",
    "VerifyOptions",
    "async_verify_topics",
    "verify_topics",
]
