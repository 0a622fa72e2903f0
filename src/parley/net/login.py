"""The SASL mechanism of one login, with its fresh nonce or token."""

from __future__ import annotations

import inspect
import secrets

from parley.errors import AuthenticationError, KafkaError
from parley.net.oauth import EndpointTokens, FileToken
from parley.net.options import ConnectOptions
from parley.protocol.sasl import MECHANISMS, ClientCredentials, ClientMechanism
from parley.protocol.sasl.base import NO_SECRET
from parley.types import Secret


async def make_mechanism(options: ConnectOptions) -> ClientMechanism | None:
    """Return the mechanism for one login, None on listeners without SASL.

    Raises AuthenticationError when the token provider fails, or a name or password cannot be sent;
    a KafkaError of the provider's own is raised as it is.
    """
    if not options.uses_sasl:
        return None
    mechanism = MECHANISMS[str(options.sasl_mechanism)]
    return mechanism.client(
        ClientCredentials(
            username=options.sasl_username or "",
            password=Secret(options.sasl_password or ""),
            token=await _token(options) if mechanism.uses_token else NO_SECRET,
            extensions=options.sasl_extensions or {},
            nonce=secrets.token_urlsafe(24),
            token_auth=options.sasl_token_auth,
        )
    )


def wants_token(options: ConnectOptions) -> bool:
    """Return whether a login begins with a token that somebody has to be asked for."""
    return options.uses_sasl and MECHANISMS[str(options.sasl_mechanism)].uses_token


def awaited_token(options: ConnectOptions) -> str:
    """Return who has not given the token of a login, and what was wrong before."""
    provider = options.sasl_token_provider
    if isinstance(provider, EndpointTokens | FileToken):
        return provider.waiting
    return "sasl_oauth_token_provider has not returned"


async def _token(options: ConnectOptions) -> Secret:
    provider = options.sasl_token_provider
    assert provider is not None  # the options were checked
    try:
        given = provider()
        token = await given if inspect.isawaitable(given) else given
    except KafkaError:
        raise  # in parley's own words, which show no secret
    except Exception as error:
        # Its text may hold the token, a password or an
        # answer of the token server, and would reach logs.
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = (
            "" if where is None else f" in {where.tb_frame.f_code.co_name}, line {where.tb_lineno}"
        )
        raise AuthenticationError(
            f"sasl_token_provider failed: {type(error).__name__}{line}. Its text may "
            "hold secrets and is not shown: catch and log it in the provider"
        ) from None
    if not isinstance(token, Secret | str):
        raise AuthenticationError(
            f"sasl_token_provider returned {type(token).__name__}, not a token"
        )
    return Secret(token)
