"""The name of a query that stays over restarts, made of its checkpoint location."""

from __future__ import annotations

import hashlib
import posixpath
import re

_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
"""What stands before the path of a location that is not on this machine."""


def checkpoint_prefix(location: str) -> str:
    """Return the prefix that a checkpoint location stands for, however it is spelt: Hadoop, which
    Spark asks for the folder, takes `a//b`, `a/./b` and `a/x/../b` for one, in stores too.

    >>> checkpoint_prefix("file:///data/q/") == checkpoint_prefix("/data/q")
    True
    >>> checkpoint_prefix("s3a://lake//x/../q") == checkpoint_prefix("s3a://lake/q")
    True
    """
    plain = re.sub(r"^file:/+", "/", location)
    store = _STORE.match(plain)
    start = "" if store is None else store[0]
    path = re.sub("//+", "/", plain[len(start) :])
    whole = start + (posixpath.normpath(path) if path else "")
    return f"parley-{hashlib.sha256(whole.rstrip('/').encode()).hexdigest()[:16]}"
