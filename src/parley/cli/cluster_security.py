"""What `parley cluster start` writes for clients of a secured cluster: CA and client.properties."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from parley.cli.output import say
from parley.devcluster import AsyncLocalCluster, RegistryListener, Security
from parley.errors import ConfigError
from parley.types import Secret

PRIVATE = 0o600
PLAINTEXT = "PLAINTEXT"


def make_listeners(
    protocols: Sequence[str], users: Sequence[str], mechanisms: Sequence[str], client_auth: str
) -> dict[str, Security]:
    """Return a listener for each protocol, named like it; where a login is wanted and no user is
    named, there is one.

    With several listeners, users and mechanisms are for those with a login, `client_auth` for those
    with TLS. Raises ConfigError for options that do not fit together.
    """
    names = [protocol.upper() for protocol in protocols]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"--security-protocol names {name} twice; each listener has a protocol of its own"
            )
    known = parse_users(users)
    if not known and any(name.startswith("SASL") for name in names):
        known = parse_users(["client"])
    # without any, Security refuses them
    with_login = [name for name in names if name.startswith("SASL")] or names
    with_tls = [name for name in names if name.endswith("SSL")] or names
    return {
        name: Security(
            name,
            users=known if name in with_login else {},
            mechanisms=list(mechanisms) or None if name in with_login else None,
            client_auth=client_auth if name in with_tls else "none",
        )
        for name in names
    }


def read_users(entries: Sequence[str], file: Path | None) -> list[str]:
    """Return the users of the command line and of a file, which has one NAME:PASSWORD a line.

    Says so where a password stands on the command line, which every user of the machine can read.
    Raises ConfigError for a file that cannot be read; no password is shown.
    """
    if any(":" in entry for entry in entries):
        say(
            "warning: a password on the command line shows in the list of processes; "
            "--users-file keeps it private"
        )
    if file is None:
        return list(entries)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"--users-file {file} cannot be read: {reason}") from None
    return [*entries, *(line for line in lines if line.strip() and not line.startswith("#"))]


def parse_users(entries: Sequence[str]) -> dict[str, Secret]:
    """Return passwords by user name, from NAME:PASSWORD; a name alone gets a random password.

    Raises ConfigError that shows no password.
    """
    found: dict[str, Secret] = {}
    for entry in entries:
        name, colon, password = entry.partition(":")
        if not name or (colon and not password):
            raise ConfigError("a user is NAME:PASSWORD, or NAME for a random password")
        if name in found:
            raise ConfigError(f'the user "{name}" is named twice')
        found[name] = Secret(password or secrets.token_urlsafe(12))
    return found


def registry_listener(
    wanted: bool, port: int | None, listeners: Mapping[str, Security]
) -> RegistryListener | bool:
    """Return how the schema registry listens, False for none: as the first listener of the brokers.

    https where that speaks TLS, a login by name and password where that wants one.
    """
    if not wanted and port is None:
        return False
    return RegistryListener(next(iter(listeners.values())), port or 0)


def registry_file(cluster: AsyncLocalCluster, folder: Path) -> Path:
    """Write what clients of the schema registry need into a folder, and return the file's path."""
    config = cluster.schema_registry.client_config()
    ca = config.pop("ssl.truststore.certificates", None)
    if ca is not None:
        config["ssl.truststore.location"] = str(_write(folder / "ca.pem", ca))
        config["ssl.truststore.type"] = "PEM"
    if "basic.auth.user.info" in config:
        config["basic.auth.credentials.source"] = "USER_INFO"
    text = "".join(f"schema.registry.{name}={_escaped(one)}\n" for name, one in config.items())
    return _write(folder / "schema-registry.properties", text)


@contextmanager
def data_folder(data: Path | None) -> Iterator[Path]:
    """Yield the folder for the cluster's files: the data folder, else a private temporary one."""
    if data is not None:
        yield data
        return
    folder = Path(tempfile.mkdtemp(prefix="parley-cluster-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def client_files(cluster: AsyncLocalCluster, folder: Path) -> dict[str, Path]:
    """Write what clients need into a folder, and return the properties' paths by listener.

    Nothing for listeners in plaintext: clients need nothing but an address there.
    """
    secured = [
        name for name, security in cluster.listeners.items() if security.protocol != PLAINTEXT
    ]
    alone = len(cluster.listeners) == 1
    return {name: write_client_files(cluster, folder, None if alone else name) for name in secured}


def write_client_files(
    cluster: AsyncLocalCluster, folder: Path, listener: str | None = None
) -> Path:
    """Write client.properties and its PEM files, readable by this user only; return the path.

    With a listener's name the file is client.NAME.properties.
    """
    properties = cluster.client_properties(listener=listener)
    ca = properties.pop("ssl.truststore.certificates", None)
    if ca is not None:
        properties["ssl.truststore.location"] = str(_write(folder / "ca.pem", ca))
    chain = properties.pop("ssl.keystore.certificate.chain", None)
    if chain is not None:
        own = properties.pop("ssl.keystore.key") + chain
        properties["ssl.keystore.location"] = str(_write(folder / "client.pem", own))
    text = "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())
    return _write(
        folder / ("client.properties" if listener is None else f"client.{listener}.properties"),
        text,
    )


def _write(path: Path, text: str) -> Path:
    path = path.resolve()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with open(handle, "w", encoding="ascii") as file:
        os.fchmod(handle, PRIVATE)  # a file that was there already keeps its mode
        file.write(text)
    return path


def _escaped(value: str) -> str:
    """Return a value as Java reads it from a properties file."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(chr(number) if 32 <= number < 127 else f"\\u{number:04x}" for number in numbers)
