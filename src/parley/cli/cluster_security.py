"""What `parley cluster start` writes for clients of a secured cluster: the CA and a client.properties file."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from parley.devcluster import AsyncLocalCluster, Security
from parley.errors import ConfigError
from parley.types import Secret

PRIVATE = 0o600
PLAINTEXT = "PLAINTEXT"


def make_security(protocol: str, users: Sequence[str], mechanisms: Sequence[str], client_auth: str) -> Security:
    """Return what the options of the command say; where a login is wanted and no user is named, there is one.

    Raises ConfigError for options that do not fit together.
    """
    known = parse_users(users)
    if not known and protocol.upper().startswith("SASL"):
        known = parse_users(["client"])
    return Security(protocol, users=known, mechanisms=list(mechanisms) or None, client_auth=client_auth)


def parse_users(entries: Sequence[str]) -> dict[str, Secret]:
    """Return passwords by user name, from NAME:PASSWORD; a name alone gets a random password.

    Raises ConfigError that shows no password.
    """
    found: dict[str, Secret] = {}
    for entry in entries:
        name, colon, password = entry.partition(":")
        if not name or (colon and not password):
            raise ConfigError("--user expects NAME:PASSWORD, or NAME for a random password")
        if name in found:
            raise ConfigError(f'--user names "{name}" twice')
        found[name] = Secret(password or secrets.token_urlsafe(12))
    return found


@contextmanager
def data_folder(data: Path | None) -> Iterator[Path]:
    """Yield the folder for the cluster's files: the data folder, else a private one that is removed at the end."""
    if data is not None:
        yield data
        return
    folder = Path(tempfile.mkdtemp(prefix="parley-cluster-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def client_files(cluster: AsyncLocalCluster, protocol: str, folder: Path) -> Path | None:
    """Write what clients need into a folder, and return the properties' path.

    None where the cluster speaks plaintext: clients need nothing but an address then.
    """
    return None if protocol.upper() == PLAINTEXT else write_client_files(cluster, folder)


def write_client_files(cluster: AsyncLocalCluster, folder: Path) -> Path:
    """Write client.properties and the PEM files that it names, readable by this user only; return its path."""
    properties = cluster.client_properties()
    ca = properties.pop("ssl.truststore.certificates", None)
    if ca is not None:
        properties["ssl.truststore.location"] = str(_write(folder / "ca.pem", ca))
    chain = properties.pop("ssl.keystore.certificate.chain", None)
    if chain is not None:
        own = properties.pop("ssl.keystore.key") + chain
        properties["ssl.keystore.location"] = str(_write(folder / "client.pem", own))
    text = "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())
    return _write(folder / "client.properties", text)


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
