"""Addresses of brokers, from text and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parley.errors import ConfigError, printable

_MAX_HOST_CHARS = 255  # DNS has no longer names; an IPv6 address with its zone is shorter


class Address(NamedTuple):
    """A host (name or IP address, without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = printable(self.host)  # it may be what a peer advertises
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def fault(self) -> str | None:
        """Why nothing can be connected to it, None where something may.

        Brokers may advertise anything: socket calls would take port 110535 for 44999.
        """
        if not 0 < self.port < 65536:
            return f"the port is {self.port}, not one from 1 to 65535"
        if not self.host:
            return "the host name is empty"
        if len(self.host) > _MAX_HOST_CHARS or not self.host.isprintable() or " " in self.host:
            return "the host name is too long, or has a space or a character that cannot be printed"
        return None


def parse_address(text: str) -> Address:
    """Return the address that `host:port` names; an IPv6 address stands in brackets.

    Raises ConfigError that quotes the text.

    >>> parse_address("[::1]:9092")
    Address(host='::1', port=9092)
    """
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(
            f'"{text}" is not host:port: an IPv6 address needs brackets, as in [::1]:9092'
        )
    digits = port.isascii() and port.isdigit()
    if not colon or not host or not digits or not 0 < int(port) < 65536:
        raise ConfigError(
            f'"{text}" is not host:port with a port from 1 to 65535, as in localhost:9092'
        )
    return Address(host, int(port))


def parse_bootstrap(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """Return the addresses of `host:port,host:port`, repeated ones once.

    Raises ConfigError for an entry that is no address, or when there is none.
    """
    entries = servers.split(",") if isinstance(servers, str) else servers
    found = tuple(dict.fromkeys(parse_address(entry) for entry in entries if entry.strip()))
    if not found:
        raise ConfigError('bootstrap_servers names no broker; "host:port,host:port" is expected')
    return found
