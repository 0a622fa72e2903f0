"""How brokers are reached: typed once, checked once."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from parley.errors import ConfigError, nearest_hint
from parley.frames import DEFAULT_MAX_FRAME_BYTES
from parley.net.address import Address, parse_bootstrap
from parley.protocol.sasl import MECHANISMS
from parley.types import Secret
from parley.versions import MustNotUse, VersionRange, release

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = tuple(MECHANISMS)
_INT32_MAX = 2**31 - 1

_TLS_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
_TLS_TEXTS = (
    "ssl_truststore_certificates",
    "ssl_keystore_certificate_chain",
    "ssl_keystore_key",
    "ssl_key_password",
)

TokenProvider = Callable[[], Secret | str | Awaitable[Secret | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """What connecting to a broker needs to know. Times in milliseconds, sizes in bytes.

    `release` pins the brokers' release ("0.9", "2.4.1"): its version table is used and nothing is
    asked. `version_limits` narrows what parley may use, by API key; `must_not_use` takes versions
    out of it. `ssl_context` is used as it is; the other `ssl_` options make one;
    `ssl_truststore_certificates`, `ssl_keystore_certificate_chain` and `ssl_keystore_key` are PEM
    texts where no files are wanted.
    `sasl_token_auth` says that user name and password are those of a delegation token (SCRAM,
    KIP-48). `sasl_token_provider` is called before each OAUTHBEARER login and returns a fresh
    token, or an awaitable of one. Raises ConfigError for a value that cannot be used.
    """

    bootstrap_servers: str = "localhost:9092"
    client_id: str = "parley"
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    receive_buffer_bytes: int = -1  # -1: the system's choice, which on Linux grows by itself
    send_buffer_bytes: int = -1
    release: str | None = None
    probe_old_brokers: bool = True
    probe_ttl_ms: int = 20 * 60 * 1000
    version_limits: Mapping[int, VersionRange] = field(default_factory=dict)
    must_not_use: tuple[MustNotUse, ...] = ()
    security_protocol: str = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    ssl_cafile: str | None = None
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_keystore_key: Secret | str | None = field(default=None, repr=False)
    ssl_key_password: Secret | str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: Secret | str | None = field(default=None, repr=False)
    sasl_token_provider: TokenProvider | None = field(default=None, repr=False)
    sasl_extensions: Mapping[str, str] = field(default_factory=dict)
    sasl_token_auth: bool = False
    allow_plaintext_password: bool = False

    def __post_init__(self) -> None:
        _check_ranges(self)
        if self.security_protocol not in SECURITY_PROTOCOLS:
            hint = nearest_hint(self.security_protocol.upper(), SECURITY_PROTOCOLS)
            allowed = ", ".join(SECURITY_PROTOCOLS)
            raise ConfigError(
                f'security_protocol="{self.security_protocol}" is none of {allowed}.{hint}'
            )
        if not self.uses_tls and self._tls_options():
            raise ConfigError(
                f"{self._tls_options()[0]} is given but "
                f"security_protocol={self.security_protocol} uses no TLS; use SSL or SASL_SSL"
            )
        if self.ssl_context is not None and len(self._tls_options()) > 1:
            raise ConfigError(
                f"{self._tls_options()[1]} has no effect besides ssl_context, which is used "
                "as it is"
            )
        _check_sasl(self)
        for name in ("ssl_keystore_key", "ssl_key_password", "sasl_password"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Secret(getattr(self, name)))
        if self.release is not None:
            release(self.release)
        parse_bootstrap(self.bootstrap_servers)

    @property
    def servers(self) -> tuple[Address, ...]:
        """The addresses of `bootstrap_servers`."""
        return parse_bootstrap(self.bootstrap_servers)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections are authenticated by SASL."""
        return self.security_protocol.startswith("SASL")

    def _tls_options(self) -> list[str]:
        return [
            name
            for name in ("ssl_context", *_TLS_FILES, *_TLS_TEXTS)
            if getattr(self, name) is not None
        ]


_LIMITS = {
    "request_timeout_ms": (1, _INT32_MAX),
    "socket_connection_setup_timeout_ms": (1, _INT32_MAX),
    "reconnect_backoff_ms": (0, _INT32_MAX),
    "reconnect_backoff_max_ms": (0, _INT32_MAX),
    "connections_max_idle_ms": (-1, _INT32_MAX),
    "max_frame_bytes": (1024, _INT32_MAX),
    "receive_buffer_bytes": (-1, _INT32_MAX),
    "send_buffer_bytes": (-1, _INT32_MAX),
    "probe_ttl_ms": (0, _INT32_MAX),
}


def _check_ranges(options: ConnectOptions) -> None:
    for name, (low, high) in _LIMITS.items():
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{name}={value!r} is not a whole number from {low} to {high}")
    if len(options.client_id.encode()) > 0x7FFF:
        raise ConfigError("client_id is longer than 32767 bytes, which no request can carry")


def _check_sasl(options: ConnectOptions) -> None:
    names = ("sasl_mechanism", "sasl_username", "sasl_password", "sasl_token_provider")
    given = [name for name in names if getattr(options, name) is not None]
    if not options.uses_sasl:
        if given:
            raise ConfigError(
                f"{given[0]} is given but security_protocol={options.security_protocol} "
                "uses no SASL; use SASL_SSL or SASL_PLAINTEXT"
            )
        return
    mechanism = MECHANISMS.get(str(options.sasl_mechanism))
    if mechanism is None:
        hint = nearest_hint(str(options.sasl_mechanism).upper(), SASL_MECHANISMS)
        raise ConfigError(
            f"sasl_mechanism={options.sasl_mechanism!r} is "
            f"none of {', '.join(SASL_MECHANISMS)}.{hint}"
        )
    needed = (
        ("sasl_token_provider",) if mechanism.uses_token else ("sasl_username", "sasl_password")
    )
    missing = [name for name in needed if name not in given]
    if missing:
        raise ConfigError(f"sasl_mechanism={mechanism.name} needs {missing[0]}")
    if mechanism.shows_password and not options.uses_tls and not options.allow_plaintext_password:
        raise ConfigError(
            f"sasl_mechanism={mechanism.name} over SASL_PLAINTEXT shows the password to "
            "everybody on the way; use SASL_SSL, or SCRAM, or say allow_plaintext_password=True"
        )
