"""The name of a query that stays over restarts, made of its checkpoint location."""

from __future__ import annotations

import hashlib
import re


def checkpoint_prefix(location: str) -> str:
    """Return the prefix that a checkpoint location stands for, however it is spelt.

    >>> checkpoint_prefix("file:///data/q/") == checkpoint_prefix("/data/q")
    True
    """
    plain = re.sub(r"^file:/+", "/", location).rstrip("/")
    return f"parley-{hashlib.sha256(plain.encode()).hexdigest()[:16]}"
