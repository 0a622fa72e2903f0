"""Where OAUTHBEARER tokens come from: a function, an endpoint, a file, or no signature at all."""

from __future__ import annotations

import ssl
from inspect import iscoroutinefunction
from pathlib import Path
from urllib.parse import unquote, urlsplit

from parley.client.options.jaas import JaasLogin, UnsecuredToken
from parley.client.options.security import SecurityOptions
from parley.errors import ConfigError
from parley.net.oauth import (
    DEFAULT_TIMEOUT_MS,
    EndpointTokens,
    FileToken,
    FunctionTokens,
    TokenEndpoint,
)
from parley.net.options import TokenProvider

_HANDLERS = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
"""Java's classes whose work parley does itself; any other would have to run here."""


def token_provider(
    options: SecurityOptions, jaas: JaasLogin | None, endpoint_tls: ssl.SSLContext | None
) -> TokenProvider:
    """Return what gives a token per login. Raises ConfigError for nothing, or too much.

    `endpoint_tls` verifies the token endpoint; None trusts the system's authorities.
    """
    url, given = options.sasl_oauthbearer_token_endpoint_url, options.sasl_oauth_token_provider
    if given is not None:
        if url is not None:
            raise ConfigError(
                "sasl_oauth_token_provider and sasl_oauthbearer_token_endpoint_url are "
                "given; give one"
            )
        call = getattr(given, "__call__", None)  # noqa: B004 - of an object, to look at it
        waits_by_itself = iscoroutinefunction(given) or iscoroutinefunction(call)
        return given if waits_by_itself else FunctionTokens(given)
    if url is not None:
        return _from_url(url, options, jaas or JaasLogin("none"), endpoint_tls)
    handler = (options.sasl_login_callback_handler_class or _HANDLERS[0]).rpartition(".")[2]
    if handler not in _HANDLERS:
        raise ConfigError(
            f'sasl_login_callback_handler_class="{options.sasl_login_callback_handler_class}" is '
            "a Java class, which cannot run here: give sasl_oauthbearer_token_endpoint_url "
            "(https:// or file://) or, in Python, sasl_oauth_token_provider"
        )
    if jaas is not None and jaas.claims:
        return UnsecuredToken(jaas.claims)
    raise ConfigError(
        "sasl_mechanism=OAUTHBEARER needs sasl_oauthbearer_token_endpoint_url (https://, or "
        "file:// for a file that holds the token), or sasl_oauth_token_provider"
    )


def _from_url(
    url: str, options: SecurityOptions, jaas: JaasLogin, endpoint_tls: ssl.SSLContext | None
) -> TokenProvider:
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise ConfigError(
                "sasl_oauthbearer_token_endpoint_url names no file of this machine: file:///PATH"
            )
        return FileToken(
            Path(unquote(parts.path)),
            options.sasl_login_retry_backoff_ms,
            options.sasl_login_retry_backoff_max_ms,
        )
    client_id = options.sasl_oauthbearer_client_credentials_client_id or jaas.client_id
    secret = options.sasl_oauthbearer_client_credentials_client_secret or jaas.client_secret
    if client_id is None or secret is None:
        missing = "clientId" if client_id is None else "clientSecret"
        raise ConfigError(
            f"sasl_oauthbearer_token_endpoint_url needs {missing} in sasl_jaas_config, or "
            "sasl_oauthbearer_client_credentials_client_id and ..._client_secret"
        )
    connect_ms, read_ms = options.sasl_login_connect_timeout_ms, options.sasl_login_read_timeout_ms
    endpoint = TokenEndpoint(
        url,
        client_id,
        secret,
        options.sasl_oauthbearer_scope or jaas.scope,
        options.sasl_oauthbearer_header_urlencode,
        DEFAULT_TIMEOUT_MS if connect_ms is None else connect_ms,
        DEFAULT_TIMEOUT_MS if read_ms is None else read_ms,
        options.sasl_login_retry_backoff_ms,
        options.sasl_login_retry_backoff_max_ms,
        endpoint_tls,
    )
    if endpoint.shows_secret and not options.allow_plaintext_password:
        raise ConfigError(
            "sasl_oauthbearer_token_endpoint_url is http, which shows the client's secret to "
            "everybody on the way; use https, or say allow_plaintext_password=True"
        )
    return EndpointTokens(endpoint)
