"""Addresses of brokers, from text and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parley.errors import ConfigError


class Address(NamedTuple):
    """A host (name or IP address, without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
        raise ConfigError(f'"{text}" is not host:port: an IPv6 address needs brackets, as in [::1]:9092')
    digits = port.isascii() and port.isdigit()
    if not colon or not host or not digits or not 0 < int(port) < 65536:
        raise ConfigError(f'"{text}" is not host:port with a port from 1 to 65535, as in localhost:9092')
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
