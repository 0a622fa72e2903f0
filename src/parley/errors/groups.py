"""What can go wrong with a consumer's membership in a group, where no code of a broker says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from parley.errors.tree import KafkaError

Partition = TypeVar("Partition", bound=tuple[str, int])
SHOWN = 3
"""Of how many partitions the text speaks."""


class CommitFailedError(KafkaError):
    """Offsets were not committed, or records of a share group not acknowledged; `failures` says
    why, by partition.

    The keys are partitions; others of the call were committed. One that failed may be another
    member's by now: poll again, and what was read of it since its last commit is read again by
    whoever has it. Records of a share group are delivered again.
    """

    def __init__(self, message: str, failures: Mapping[Partition, KafkaError]) -> None:
        shown = "; ".join(f"{tp}: {error}" for tp, error in list(failures.items())[:SHOWN])
        more = f" and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
        super().__init__(f"{message}: {shown}{more}" if failures else message)
        self.failures: dict[tuple[str, int], KafkaError] = dict(failures.items())
