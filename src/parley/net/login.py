"""The SASL mechanism of one login, with its fresh nonce or token."""

from __future__ import annotations

import inspect
import secrets

from parley.errors import AuthenticationError
from parley.net.options import ConnectOptions
from parley.protocol.sasl import ClientMechanism, OAuthBearerClient, PlainClient, ScramClient
from parley.types import Secret


async def make_mechanism(options: ConnectOptions) -> ClientMechanism | None:
    """Return the mechanism for one login, None on listeners without SASL.

    Raises AuthenticationError when the token provider fails, or a name or password cannot be sent.
    """
    if not options.uses_sasl:
        return None
    if options.sasl_mechanism == "OAUTHBEARER":
        return OAuthBearerClient(await _token(options), options.sasl_extensions)
    username, password = options.sasl_username or "", Secret(options.sasl_password or "")
    if options.sasl_mechanism == "PLAIN":
        return PlainClient(username, password)
    mechanism, nonce = str(options.sasl_mechanism), secrets.token_urlsafe(24)
    return ScramClient(mechanism, username, password, nonce, token_auth=options.sasl_token_auth)


async def _token(options: ConnectOptions) -> Secret:
    provider = options.sasl_token_provider
    assert provider is not None  # the options were checked
    try:
        given = provider()
        token = await given if inspect.isawaitable(given) else given
    except Exception as error:
        raise AuthenticationError(f"sasl_token_provider failed: {type(error).__name__}: {error}") from error
    if not isinstance(token, Secret | str):
        raise AuthenticationError(f"sasl_token_provider returned {type(token).__name__}, not a token")
    return Secret(token)
