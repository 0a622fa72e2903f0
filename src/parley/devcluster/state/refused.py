"""What broker state raises where it refuses: an error code and a text. The codes are
those of `parley.errors.codes`.
"""

from __future__ import annotations

from collections.abc import Sequence


class Refused(Exception):
    """The broker refuses (part of) a request: `code` goes into the answer, the text as message.

    Raised in `state`, caught in `handlers`; it never reaches a user of parley.
    """

    def __init__(self, code: int, message: str | None = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RefusedRecords(Refused):
    """Single records are refused, and the batch: `records` are their positions (KIP-467)."""

    def __init__(self, code: int, message: str, records: Sequence[int]) -> None:
        super().__init__(code, message)
        self.records = records
