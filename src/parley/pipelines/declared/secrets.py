"""References in place of secrets: a file that is declared, and kept with the code, has none."""

from __future__ import annotations

import os
import re
from pathlib import Path

from parley.errors import ConfigError

_ENVIRONMENT, _FILE = "env:", "file:"
_SECRET = re.compile(r"password|secret|token|jaas|user\.info|credentials", re.IGNORECASE)


def resolved(name: str, value: object) -> object:
    """Return a setting's value, read from where it points to: `env:NAME`, `file:PATH`.

    Raises ConfigError for a secret that stands there itself, and for what is not there; neither
    shows a value.
    """
    if not isinstance(value, str):
        return value
    if value.startswith(_ENVIRONMENT):
        variable = value.removeprefix(_ENVIRONMENT)
        if variable not in os.environ:
            raise ConfigError(f"{name} points to the environment variable {variable}: set it")
        return os.environ[variable]
    if value.startswith(_FILE) and _SECRET.search(name):
        path = Path(value.removeprefix(_FILE))
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise ConfigError(f"{name} points to the file {path}: {reason}") from None
    if _SECRET.search(name) and value:
        raise ConfigError(
            f'{name} is a secret and must not stand in the file: give "env:NAME" or "file:PATH"'
        )
    return value
