"""Where a key of a TOML file stands: Python's parser does not say it. Pure.

Only what a file needs to be corrected is understood: headers of tables, keys at the beginning of a
line, keys of inline tables behind them. Who looks for more than there is gets the nearest line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?\s*(?P<path>[^\]]+?)\s*\]\]?\s*(#.*)?")
_KEY = re.compile(r"\s*(?P<path>(?:\"[^\"]*\"|'[^']*'|[\w.-]|\s*\.\s*)+?)\s*=")
_PART = re.compile(r"\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[\w-]+)")


def line_of(text: str, path: Sequence[str]) -> int:
    """Return the number of the line that has a key, or as much of its path as there is; 1 if none.

    >>> line_of('[flow.a]\\nkind = "copy"\\nto = { cluster = "b" }', ["flow", "a", "to", "cluster"])
    3
    """
    wanted, best, found = tuple(path), 0, 1
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _parts(header["path"])
            here = table
        elif key := _KEY.match(line):
            here = (*table, *_parts(key["path"]))
            rest = line[key.end() :]
            while len(here) < len(wanted) and here == wanted[: len(here)]:
                if not re.search(rf"[{{,\s\"']{re.escape(wanted[len(here)])}[\"']?\s*=", rest):
                    break
                here = wanted[: len(here) + 1]
        else:
            continue
        if here == wanted[: len(here)] and len(here) > best:
            best, found = len(here), number
    return found


def _parts(path: str) -> tuple[str, ...]:
    return tuple(
        found["double"] or found["single"] or found["bare"] or "" for found in _PART.finditer(path)
    )
