"""What a query's failure is about: Spark says it in pages."""

from __future__ import annotations

import re

_FULL = ("No space left on device", "Disk quota exceeded")
_LOST = re.compile(r"parley\.errors[\w.]*\.(?:DataLoss|LogTruncation|TopicRecreated)Error")
_OTHER_STATE = re.compile(r"STATE_STORE_\w*SCHEMA_NOT_COMPATIBLE")
_LONGEST = 500


def failure_text(error: BaseException) -> str:
    """Return all that an exception of the JVM says: text, and the traces of its causes."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 20:
        parts += [str(getattr(cause, name, "") or "") for name in ("_desc", "_stackTrace")]
        cause = getattr(cause, "_cause", None)
    return "\n".join(parts) if any(parts) else str(error)


def is_data_loss(text: str) -> bool:
    """Return whether a failure is for records that are gone: parley's own errors say it."""
    return _LOST.search(text) is not None


def is_disk_full(text: str) -> bool:
    """Return whether a failure is for want of room."""
    return any(sign in text for sign in _FULL)


def clearest_line(text: str) -> str:
    """Return the line of a long Java or Python error that says most.

    parley's own error, else the innermost one of Python, else the innermost cause in Java, else the
    first line.
    """
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith("at ")
    ]
    own = [line for line in lines if line.startswith("parley.")]
    python = [
        line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Interrupt)(: |$)", line)
    ]
    java = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    candidates = (
        own[-1:]
        or [line for line in python if not line.startswith(("org.", "java."))][-1:]
        or java[-1:]
    )
    found = (candidates or lines[:1] or ["no reason given"])[0]
    return found if len(found) <= _LONGEST else found[:_LONGEST] + " ..."


def in_keys(text: str) -> str:
    """Return what the data source advises in keys of a pipeline's file.

    >>> in_keys('If that is acceptable, set failOnDataLoss to "false" to go on.')
    'If that is acceptable, set on-data-loss to "continue" to go on.'
    """
    return text.replace('failOnDataLoss to "false"', 'on-data-loss to "continue"')


def remedy(text: str) -> str:
    """Return what helps against a failure, empty where nobody knows."""
    if _OTHER_STATE.search(text):
        return (
            "; the checkpoint has the state of another query: go back to that, or give the flow a "
            "new name, with which it reads from the beginning"
        )
    return ""
