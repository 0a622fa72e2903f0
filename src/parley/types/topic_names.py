"""Names that Kafka accepts for topics (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re

LONGEST_NAME = 249
"""Of a file's 255, less "-" and the partition."""
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def name_refused(name: str) -> str | None:
    """Return why Kafka accepts no topic of this name, None where it does.

    >>> name_refused("..")
    "'.' or '..' is not allowed"
    """
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > LONGEST_NAME:
        return f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    if _NAME.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None
