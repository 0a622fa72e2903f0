"""References in place of secrets: a file that is declared, and kept with the code, has none."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from parley.errors import ConfigError
from parley.types import Secret
from parley.types.secret_names import is_secret

_ENVIRONMENT, _FILE = "env:", "file:"


def resolved(name: str, value: object, *, secret: bool, from_file: bool = False) -> object:
    """Return a setting's value, read from where it points to: `env:NAME`, and of a `secret`, or of
    what may be `from_file`, `file:PATH`.

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
    if value.startswith(_FILE) and (secret or from_file):
        path = Path(value.removeprefix(_FILE))
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise ConfigError(f"{name} points to the file {path}: {reason}") from None
    if secret and value:
        raise ConfigError(
            f'{name} is a secret and must not stand in the file: give "env:NAME" or "file:PATH"'
        )
    return value


def handed_on(settings: object) -> object:
    """Return settings that go to a lake's library as they are, read from where they point to, as
    `Secret`s. What is no table is returned as it is.

    Raises as `resolved`, and for an address that holds a login.
    """
    if not isinstance(settings, dict):
        return settings
    found: dict[str, object] = {}
    for name, given in settings.items():
        value = resolved(name, given, secret=is_secret(name))
        if isinstance(value, str) and value != given:
            value = Secret(value)
        elif isinstance(value, str) and _has_login(value):
            raise ConfigError(f'{name} holds a login: give "env:NAME" for the whole address')
        found[name] = value
    return found


def _has_login(value: str) -> bool:
    try:
        return bool(urlsplit(value).password)
    except ValueError:  # no address
        return False
