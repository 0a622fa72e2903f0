"""From a user's security options to what a connection is made with."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from parley.client.options.jaas import MODULES, JaasLogin, parse_jaas
from parley.client.options.security import SecurityOptions
from parley.client.options.token_sources import token_provider
from parley.errors import ConfigError
from parley.net import ConnectOptions
from parley.net.tls import client_tls
from parley.protocol.sasl import MECHANISMS

if TYPE_CHECKING:
    from parley.net.options import TokenProvider
    from parley.types import Secret


class _SaslArguments(TypedDict, total=False):
    sasl_mechanism: str
    sasl_username: str | None
    sasl_password: Secret | str | None
    sasl_token_auth: bool
    sasl_token_provider: TokenProvider
    sasl_extensions: Mapping[str, str]


class SecurityArguments(_SaslArguments, total=False):
    """The arguments of ConnectOptions that security options become."""

    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_cafile: str | None
    ssl_truststore_certificates: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: Secret | str | None
    ssl_key_password: Secret | str | None
    ssl_check_hostname: bool
    allow_plaintext_password: bool


def security_arguments(options: SecurityOptions) -> SecurityArguments:
    """Return ConnectOptions' keyword arguments. Raises ConfigError for a contradiction."""
    _refuse_contradictions(options)
    checks_name = options.ssl_check_hostname and options.ssl_endpoint_identification_algorithm != ""
    return {
        "security_protocol": options.security_protocol,
        "ssl_context": options.ssl_context,
        "ssl_cafile": options.ssl_cafile,
        "ssl_truststore_certificates": options.ssl_truststore_certificates,
        "ssl_certfile": options.ssl_certfile,
        "ssl_keyfile": options.ssl_keyfile,
        "ssl_keystore_certificate_chain": options.ssl_keystore_certificate_chain,
        "ssl_keystore_key": options.ssl_keystore_key,
        "ssl_key_password": options.ssl_password,
        "ssl_check_hostname": checks_name,
        **_sasl_arguments(options),
        "allow_plaintext_password": options.allow_plaintext_password,
    }


def _refuse_contradictions(options: SecurityOptions) -> None:
    if options.ssl_keystore_key is not None and options.ssl_certfile is not None:
        raise ConfigError(
            "ssl_certfile and ssl_keystore_key are given; give certificate and key both as files "
            "(ssl_certfile, ssl_keyfile) or both as texts (ssl_keystore_certificate_chain, "
            "ssl_keystore_key)"
        )
    if not options.ssl_check_hostname and options.ssl_endpoint_identification_algorithm == "https":
        raise ConfigError(
            'ssl_check_hostname=False and ssl_endpoint_identification_algorithm="https" contradict '
            "each other: both say whether a broker's certificate must name its host; give one"
        )


def _sasl_arguments(options: SecurityOptions) -> _SaslArguments:
    jaas = None if options.sasl_jaas_config is None else parse_jaas(options.sasl_jaas_config)
    username, password = options.sasl_plain_username, options.sasl_plain_password
    given = {
        "sasl_mechanism": options.sasl_mechanism,
        "sasl_plain_username": username,
        "sasl_plain_password": password,
        "sasl_oauth_token_provider": options.sasl_oauth_token_provider,
        "sasl_oauthbearer_token_endpoint_url": options.sasl_oauthbearer_token_endpoint_url,
        "sasl_jaas_config": jaas,
    }
    names = [name for name, value in given.items() if value is not None]
    if not options.security_protocol.startswith("SASL"):
        if names:
            raise ConfigError(
                f"{names[0]} is given but security_protocol={options.security_protocol} "
                "uses no SASL; use SASL_SSL or SASL_PLAINTEXT"
            )
        return {}
    mechanism = _mechanism(options, jaas)
    if jaas is not None:
        username = jaas.username if username is None else username
        password = jaas.password if password is None else password
    if MECHANISMS[mechanism].uses_token:
        extensions = {} if jaas is None else jaas.extensions
        provider = token_provider(options, jaas, _endpoint_tls(jaas))
        found: _SaslArguments = {"sasl_mechanism": mechanism, "sasl_token_provider": provider}
        return {**found, "sasl_extensions": extensions} if extensions else found
    missing = (
        "sasl_plain_username"
        if username is None
        else "sasl_plain_password"
        if password is None
        else None
    )
    if missing is not None:
        raise ConfigError(f"sasl_mechanism={mechanism} needs {missing}")
    token_auth = jaas is not None and jaas.token_auth
    return {
        "sasl_mechanism": mechanism,
        "sasl_username": username,
        "sasl_password": password,
        "sasl_token_auth": token_auth,
    }


def _endpoint_tls(jaas: JaasLogin | None) -> ssl.SSLContext | None:
    """Return what verifies the token endpoint, by the JAAS text's `ssl.` options, or None."""
    if jaas is None or not jaas.endpoint_tls:
        return None
    made = SecurityOptions.from_properties({**jaas.endpoint_tls, "security.protocol": "SSL"})
    return client_tls(ConnectOptions(**security_arguments(made)))


def _mechanism(options: SecurityOptions, jaas: JaasLogin | None) -> str:
    mechanism = options.sasl_mechanism
    if mechanism is None and jaas is not None:
        possible = [name for name, module in MODULES.items() if module == jaas.module]
        mechanism = possible[0] if len(possible) == 1 else None  # SCRAM's module has two
    if mechanism is None:
        raise ConfigError(
            f"security_protocol={options.security_protocol} needs sasl_mechanism: one of "
            f"{', '.join(MECHANISMS)}"
        )
    if jaas is not None and MODULES[mechanism] != jaas.module:
        raise ConfigError(
            f"sasl_jaas_config has a {jaas.module}, which does not fit sasl_mechanism={mechanism}"
        )
    return mechanism
