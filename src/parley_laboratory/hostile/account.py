"""What hostile inputs led to, counted, and what may never happen."""

from __future__ import annotations

import resource
from collections import Counter
from dataclasses import dataclass, field

MEMORY_SLACK_MIB = 164
"""What a process may grow by while it is attacked: the largest frame, 100 MiB, and 64 MiB."""


def peak_memory_mib() -> float:
    """Return the most memory that this process ever had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(slots=True)
class HostileAccount:
    """Outcomes by name (`decoded`, `refused:
    RemoteProtocolError`, `closed`, `answered`, …) and breaches.

    A breach is what no input may cause: an exception that is not parley's, a broker that stops
    serving, an altered record. Each names seed and number of the input, which make it again.
    """

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)
    memory_before_mib: float = field(default_factory=peak_memory_mib)
    memory_after_mib: float = 0.0

    @property
    def inputs(self) -> int:
        """How many inputs there were."""
        return self.outcomes.total()

    def breach(self, number: int, what: str) -> None:
        """Take note of what should have been impossible."""
        self.breaches.append(f"seed {self.seed}, input {number}: {what}")

    def close(self) -> HostileAccount:
        """Measure the memory, and return the account."""
        self.memory_after_mib = peak_memory_mib()
        grown = self.memory_after_mib - self.memory_before_mib
        if grown > MEMORY_SLACK_MIB:
            self.breaches.append(f"seed {self.seed}: the process grew by {grown:.0f} MiB")
        return self

    def text(self, title: str) -> str:
        """Return the account as lines."""
        grown = self.memory_after_mib - self.memory_before_mib
        lines = [
            f"{title}: {self.inputs:,} inputs, {len(self.breaches)} breaches, memory "
            f"+{grown:.0f} MiB"
        ]
        lines += [f"  {count:>9,}  {name}" for name, count in self.outcomes.most_common()]
        return "\n".join([*lines, *(f"  BREACH {text}" for text in self.breaches[:20])])
