"""Whether a Delta table was restored to a version before a batch: pure.

A restore is a version like others: what applications wrote last stays as it was, though their rows
are gone. So the log's own account of its versions is read, from the newest one back to the batch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from parley.spark.write.intent import BatchOfQuery

QUERY, BATCH = "parley.query", "parley.batch"
"""What a commit says of its batch, beside what Delta has writers say."""
History = Callable[[int], Sequence[Mapping[str, object]]]
"""Returns what is known of so many versions, the newest first."""
_MORE = 16
"""How many times as many versions are read where the batch is not among the newest ones."""


@dataclass(frozen=True, slots=True)
class _Back:
    """To where a restore went: a version, or a time as the log has it."""

    version: int | None
    time: str

    def holds(self, version: int, time_ms: object) -> bool:
        """Return whether rows of a version can be in the restored table. A time of which the log
        does not say the zone holds none.
        """
        if self.version is not None:
            return version <= self.version
        return self.time.isdecimal() and isinstance(time_ms, int) and time_ms <= int(self.time)

    def __str__(self) -> str:
        return f"the time {self.time}" if self.version is None else f"version {self.version}"


def taken_back(history: History, versions: int, what: BatchOfQuery) -> str | None:
    """Return which version was restored that is older than a batch, as a text; None where the
    batch's rows were not taken back, or the log does not go back to it any more. `versions` is how
    many the table has: of some of them the log may say nothing.

    >>> wrote = {"version": 7, "operation": "WRITE", QUERY: "q", BATCH: "3"}
    >>> restored = {"version": 8, "operation": "RESTORE", "operationParameters": {"version": "5"}}
    >>> taken_back(lambda most: [restored, wrote][:most], 9, BatchOfQuery("q", 3))
    'version 5'
    """
    most = 1
    while True:
        found, back = _found(history(most), what)
        if found or most >= versions:
            return None if back is None or not found else str(back)
        most *= _MORE


def _found(known: Sequence[Mapping[str, object]], what: BatchOfQuery) -> tuple[bool, _Back | None]:
    """Return whether the batch is among the versions, and what took it back."""
    back: _Back | None = None
    for entry in known:
        version = entry["version"]
        assert isinstance(version, int)
        # What the restored table does not have of later versions took nothing back either.
        is_held = back is None or back.holds(version, entry.get("timestamp"))
        if entry.get(QUERY) == what.query and entry.get(BATCH) == str(what.batch):
            return True, None if is_held else back
        if is_held and entry.get("operation") == "RESTORE":
            back = _back(entry)
    return False, back


def _back(entry: Mapping[str, object]) -> _Back:
    given = entry.get("operationParameters")
    parameters = given if isinstance(given, Mapping) else {}
    version = str(parameters.get("version") or "").strip('"')
    time = parameters.get("datetime") or parameters.get("timestamp") or "unknown"
    return _Back(int(version) if version.isdecimal() else None, str(time).strip('"'))
