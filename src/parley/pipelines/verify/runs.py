"""The digests of one side of a partition, run by run, in bounded memory.

A run is so many records in the order of their offsets, whatever the offsets are: two sides whose
offsets differ, or have holes, still have the same runs. Where there are too many runs, each two
become one.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from parley.client import RunDigest, digest_runs

RUN_RECORDS = 1024
"""Records of a run at first; so many are compared one by one in the end."""

MOST_RUNS = 1024
"""Runs of one partition that are kept, at most: about 200 bytes each."""


class Run(NamedTuple):
    """A run of records: the offset of the first, and their digest."""

    start: int
    digest: RunDigest

    def joined(self, after: Run) -> Run:
        """Return this run and the one right after it as one."""
        return Run(self.start, self.digest.joined(after.digest))


class RunTable:
    """The runs of one range of offsets. All but the last have `run_records` records."""

    def __init__(self, most_runs: int = MOST_RUNS, run_records: int = RUN_RECORDS) -> None:
        self.run_records = run_records
        self.runs: list[Run] = []
        self._most_runs = max(4, most_runs)

    def add(self, hashes: memoryview, offsets: memoryview) -> None:
        """Append records: their hashes (uint64), and their offsets (int64)."""
        filled = self.runs[-1].digest.records % self.run_records if self.runs else 0
        at = 0
        for digest in digest_runs(hashes, self.run_records - filled, self.run_records):
            found = Run(offsets[at], digest)
            if filled:
                found, filled = self.runs.pop().joined(found), 0
            self.runs.append(found)
            at += digest.records
        while len(self.runs) > self._most_runs:
            self.runs = in_pairs(self.runs)
            self.run_records *= 2

    @property
    def digest(self) -> RunDigest:
        """The digest of all records."""
        whole = RunDigest()
        for run in self.runs:
            whole = whole.joined(run.digest)
        return whole

    def in_runs_of(self, records: int) -> list[Run]:
        """Return the runs joined to longer ones, of a number of records that these divide."""
        runs, size = self.runs, self.run_records
        while size < records:
            runs, size = in_pairs(runs), size * 2
        return runs


def in_pairs(runs: list[Run]) -> list[Run]:
    """Return each two runs as one; an odd last one stays."""
    found = [one.joined(other) for one, other in zip(runs[::2], runs[1::2], strict=False)]
    found.extend(islice(runs, 2 * len(found), None))
    return found
