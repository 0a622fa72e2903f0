"""Errors and findings in the names of the command line: options are checked, and jobs planned, by
what Python programs call, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from parley.errors import ConfigError

RENAMED = {
    "bytes_per_second": "--rate",
    "from_timestamp_ms": "--from-datetime",
    "until_timestamp_ms": "--until-datetime",
}
NAMED_ALIKE = (
    "all_groups",
    "commit_interval_ms",
    "dead_letters",
    "delivery",
    "from_later_beginning",
    "group_protocol",
    "groups_interval_ms",
    "headers",
    "ignore_timestamps",
    "ignore_tombstones",
    "into_live",
    "isolation_level",
    "late_ms",
    "latest_per_key",
    "max_attempts",
    "name",
    "on_data_loss",
    "partition_by",
    "speed",
    "start",
    "timestamp_when_missing",
    "topics_pattern",
    "two_way",
)
"""Options of Python that commands have with hyphens."""
_VALUE = r"=(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>-?\w+(?:\.\w+)*))"
_OPTION = re.compile(
    rf"(?<![\w.\"'-])(?P<name>{'|'.join((*RENAMED, *NAMED_ALIKE))})(?![\w.\"'-])(?:{_VALUE})?"
)


def in_options(text: str) -> str:
    """Return a text about options as the command line writes them.

    >>> in_options('only delivery="at-least-once" is left; into_live=True writes headers')
    'only --delivery at-least-once is left; --into-live writes headers'
    >>> in_options("ignore_tombstones needs latest_per_key")
    '--ignore-tombstones needs --latest-per-key'
    """
    return _OPTION.sub(_in_option, text)


def _in_option(found: re.Match[str]) -> str:
    name = found["name"]
    value = found["double"] or found["single"] or found["bare"]
    if value is None and "_" not in name:
        return found[0]  # a word of the sentence
    option = RENAMED.get(name) or f"--{name.replace('_', '-')}"
    return option if value in (None, "True") else f"{option} {shlex.quote(value)}"


@contextmanager
def own_option_names() -> Iterator[None]:
    """Let errors of options have the names of the command line. Decorates commands, too."""
    try:
        yield
    except ConfigError as error:
        error.args = (in_options(str(error)),)
        raise
