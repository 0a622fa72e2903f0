"""What broker state raises where it refuses: an error code and a text. The codes are
those of `parley.errors.codes`.
"""

from __future__ import annotations

from collections.abc import Sequence


class Refused(Exception):
    """The broker refuses (a part of) a request: `code` goes into the answer, the text into its
    message field.

    Raised in `state`, caught in `handlers`; it never reaches a user of parley.
    """

    def __init__(self, code: int, message: str | None = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RefusedRecords(Refused):
    """Single records are refused, and the batch with them: `records` are their
    positions in it (KIP-467).
    """

    def __init__(self, code: int, message: str, records: Sequence[int]) -> None:
        super().__init__(code, message)
        self.records = records
