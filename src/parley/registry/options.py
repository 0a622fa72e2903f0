"""How a schema registry is reached: Confluent's names and meanings, checked once.

Confluent's clients for Java and for Python spell some options differently; `from_config` takes both
spellings, with and without Java's prefix `schema.registry.`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias, TypedDict
from urllib.parse import unquote, urlsplit, urlunsplit

from parley.errors import ConfigError, nearest_hint
from parley.net.http_client import HttpTarget, no_url
from parley.net.options import ConnectOptions
from parley.net.tls import client_tls
from parley.types import Secret, shown

TokenSource: TypeAlias = Callable[[], Secret | str]

USER_INFO, FROM_URL = "USER_INFO", "URL"
STATIC_TOKEN, CUSTOM = "STATIC_TOKEN", "CUSTOM"
_PREFIX = "schema.registry."
_INT32_MAX = 2**31 - 1

_LIMITS = {
    "http_connect_timeout_ms": (1, _INT32_MAX),
    "http_read_timeout_ms": (1, _INT32_MAX),
    "max_retries": (0, 1_000),
    "retries_wait_ms": (0, _INT32_MAX),
    "retries_max_wait_ms": (0, _INT32_MAX),
    "max_answer_bytes": (1_024, _INT32_MAX),
}
_TEXTS = ("url", "bearer_auth_logical_cluster", "bearer_auth_identity_pool_id")
_TLS = ("ssl_cafile", "ssl_truststore_certificates", "ssl_certfile", "ssl_keyfile", "ssl_password")
_SECRETS = ("basic_auth_user_info", "bearer_auth_token", "ssl_password")
_SPELLINGS = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.truststore.certificates": "ssl_truststore_certificates",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
}
"""Spellings of Confluent's clients that are not the option's own name with dots."""
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")


class RegistryOptionValues(TypedDict, total=False):
    """The options of a registry's client by name, for type checkers."""

    basic_auth_credentials_source: str | None
    basic_auth_user_info: Secret | str | None
    bearer_auth_credentials_source: str | None
    bearer_auth_token: Secret | str | None
    bearer_auth_token_source: TokenSource | None
    bearer_auth_logical_cluster: str | None
    bearer_auth_identity_pool_id: str | None
    ssl_cafile: str | None
    ssl_truststore_certificates: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: Secret | str | None
    ssl_check_hostname: bool
    http_connect_timeout_ms: int
    http_read_timeout_ms: int
    max_retries: int
    retries_wait_ms: int
    retries_max_wait_ms: int
    max_answer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    """Where a registry is, who asks, and how long. Times in milliseconds, sizes in bytes.

    `url` may be several with commas, tried in order. A user name and password in it are used as
    `basic_auth_user_info` ("user:password") and are not kept in it. A bearer token is given as it
    is, or by a function that returns one for each request (`bearer_auth_token_source`).
    `bearer_auth_logical_cluster` and `bearer_auth_identity_pool_id` go along, as Confluent Cloud
    wants them. `ssl_certfile` and `ssl_keyfile` are for mutual TLS; all files are PEM. Of a request
    that fails and may succeed later all URLs are tried, `max_retries` times more, with growing
    pauses from `retries_wait_ms` on. Raises ConfigError for values that cannot be used.
    """

    url: str
    basic_auth_credentials_source: str | None = None
    basic_auth_user_info: Secret | str | None = field(default=None, repr=False)
    bearer_auth_credentials_source: str | None = None
    bearer_auth_token: Secret | str | None = field(default=None, repr=False)
    bearer_auth_token_source: TokenSource | None = field(default=None, repr=False)
    bearer_auth_logical_cluster: str | None = None
    bearer_auth_identity_pool_id: str | None = None
    ssl_cafile: str | None = None
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: Secret | str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    http_connect_timeout_ms: int = 60_000
    http_read_timeout_ms: int = 60_000
    max_retries: int = 3
    retries_wait_ms: int = 1_000
    retries_max_wait_ms: int = 20_000
    max_answer_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in _SECRETS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, Secret | str):
                raise ConfigError(f"{name} is a text or a Secret, not {type(value).__name__}")
            if isinstance(value, str):
                object.__setattr__(self, name, Secret(value))
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ConfigError(f"{name} is a text, not {type(value).__name__}")
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"{name}={shown(value)} is no whole number from {low} to {high}")
        self._take_credentials_from_url()
        for url in self.urls:
            HttpTarget(url)
        self._check_credentials()
        if not any(url.startswith("https:") for url in self.urls):
            given = [name for name in _TLS if getattr(self, name) is not None]
            if given:
                raise ConfigError(f"{given[0]} is given, and url has no https: {self.url}")

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> RegistryOptions:
        """Return the options that a configuration of Confluent's clients has.

        Raises ConfigError for a name that is none of theirs, with the nearest one.

        >>> options = RegistryOptions.from_config({"schema.registry.url": "http://a:8081"})
        >>> options.urls
        ('http://a:8081',)
        """
        known = cls._spellings()
        found: dict[str, object] = {}
        for dotted, value in config.items():
            short = dotted.removeprefix(_PREFIX)
            if short == "timeout" and isinstance(value, int | float):
                found["http_read_timeout_ms"] = int(value * 1000)
                continue
            if short in _STORE_TYPES:
                if str(value).upper() != "PEM":
                    raise ConfigError(f"{dotted}={shown(value)}: parley reads PEM files")
                continue
            if short not in known:
                raise ConfigError(
                    f"{dotted} is no option of a schema registry.{nearest_hint(short, known)}"
                )
            name = known[short]
            if short == "ssl.endpoint.identification.algorithm":
                value = str(value).lower() == "https"
            elif name in _LIMITS and isinstance(value, str) and value.strip().isdecimal():
                value = int(value)
            found[name] = value
        if "url" not in found:
            raise ConfigError("url is missing: where is the schema registry?")
        return cls(**found)  # type: ignore[arg-type]  # __post_init__ checks each

    @classmethod
    def secret_names(cls) -> frozenset[str]:
        """Return the options that hold secrets, in all spellings of `from_config`."""
        short = {spelling for spelling, name in cls._spellings().items() if name in _SECRETS}
        return frozenset(short | {_PREFIX + spelling for spelling in short})

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs in order, without credentials."""
        return tuple(one.strip().rstrip("/") for one in self.url.split(",") if one.strip())

    def targets(self) -> tuple[HttpTarget, ...]:
        """Return where requests go. Raises ConfigError for files that cannot be used."""
        context = None
        if any(url.startswith("https:") for url in self.urls):
            context = client_tls(
                ConnectOptions(
                    security_protocol="SSL",
                    ssl_cafile=self.ssl_cafile,
                    ssl_truststore_certificates=self.ssl_truststore_certificates,
                    ssl_certfile=self.ssl_certfile,
                    ssl_keyfile=self.ssl_keyfile,
                    ssl_key_password=self.ssl_password,
                    ssl_check_hostname=self.ssl_check_hostname,
                )
            )
        return tuple(
            HttpTarget(
                url,
                context if url.startswith("https:") else None,
                self.http_connect_timeout_ms,
                self.http_read_timeout_ms,
                self.max_answer_bytes,
            )
            for url in self.urls
        )

    @classmethod
    def _spellings(cls) -> dict[str, str]:
        return {one.name.replace("_", "."): one.name for one in fields(cls)} | _SPELLINGS

    def _take_credentials_from_url(self) -> None:
        """Keep what stands before `@` in the URLs apart, so that no error or repr has it."""
        cleaned, seen = [], set()
        for one in filter(None, map(str.strip, self.url.split(","))):
            try:
                parts = urlsplit(one)
            except ValueError:
                raise no_url(self.url) from None
            if "://" not in one:  # perhaps a piece of a password with a comma
                raise no_url(self.url)
            user, at, host = parts.netloc.rpartition("@")
            if at:
                seen.add(unquote(user))
            cleaned.append(urlunsplit(parts._replace(netloc=host)) if at else one)
        if not cleaned:
            raise ConfigError('url names no schema registry; "http://HOST:8081" is expected')
        object.__setattr__(self, "url", ",".join(cleaned))
        if not seen:
            if self.basic_auth_credentials_source == FROM_URL:
                raise ConfigError("basic_auth_credentials_source=URL, and url has no user:password")
            return
        if len(seen) > 1:
            raise ConfigError("the URLs hold several user names; one login is used for all of them")
        if self.basic_auth_user_info is not None:
            raise ConfigError("url holds a user name and basic_auth_user_info is given; give one")
        object.__setattr__(self, "basic_auth_user_info", Secret(seen.pop()))
        if self.basic_auth_credentials_source is None:
            object.__setattr__(self, "basic_auth_credentials_source", FROM_URL)

    def _check_credentials(self) -> None:
        basic, bearer = self.basic_auth_credentials_source, self.bearer_auth_credentials_source
        if basic not in (None, USER_INFO, FROM_URL):
            raise ConfigError(
                f"basic_auth_credentials_source={shown(basic)} cannot be used: give USER_INFO and "
                "basic_auth_user_info, or URL"
            )
        if bearer not in (None, STATIC_TOKEN, CUSTOM):
            raise ConfigError(
                f"bearer_auth_credentials_source={shown(bearer)} cannot be used: give "
                "STATIC_TOKEN and bearer_auth_token, or CUSTOM and a function as "
                "bearer_auth_token_source"
            )
        info = self.basic_auth_user_info
        if basic == USER_INFO and info is None:
            raise ConfigError("basic_auth_credentials_source=USER_INFO needs basic_auth_user_info")
        if isinstance(info, Secret) and ":" not in info.reveal():
            raise ConfigError("basic_auth_user_info is not of the form user:password")
        tokens = [self.bearer_auth_token, self.bearer_auth_token_source]
        if bearer is not None and tokens == [None, None]:
            needed = "token" if bearer == STATIC_TOKEN else "token_source"
            raise ConfigError(f"bearer_auth_credentials_source={bearer} needs bearer_auth_{needed}")
        given = sum(one is not None for one in (info, *tokens))
        if given > 1:
            raise ConfigError(
                "basic_auth_user_info, bearer_auth_token and bearer_auth_token_source exclude each "
                "other; give one"
            )
        source = self.bearer_auth_token_source
        if source is not None and not callable(source):
            raise ConfigError("bearer_auth_token_source is a function that returns a token")
