"""TLS and SASL options: Java's names and meanings, and what they become for a connection."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from parley.client.options.fields import OptionSet, option
from parley.client.options.jaas import OAUTHBEARER, PLAIN, SCRAM, JaasLogin, parse_jaas
from parley.client.options.token_sources import token_provider
from parley.errors import ConfigError
from parley.net.options import SASL_MECHANISMS, SECURITY_PROTOCOLS, ConnectOptions, TokenProvider
from parley.net.tls import client_tls
from parley.types import Secret

_MODULE_OF = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM, "OAUTHBEARER": OAUTHBEARER}


# ruff: noqa: RUF009 - option() makes a field like any other
@dataclass(frozen=True, kw_only=True, slots=True)
class SecurityOptions(OptionSet):
    """How brokers are spoken to: encrypted, and who this client is."""

    security_protocol: str = option("PLAINTEXT", "how brokers are spoken to", choices=SECURITY_PROTOCOLS)
    ssl_context: ssl.SSLContext | None = option(None, "an own context; the other ssl options are not looked at then")
    ssl_cafile: str | None = option(
        None, "PEM file of trusted certificates; None: the system's", kind=str, dotted="ssl.truststore.location"
    )
    ssl_truststore_certificates: str | None = option(None, "trusted certificates as PEM text", kind=str, shown=False)
    ssl_truststore_type: str | None = option(None, "PEM; parley reads no Java key stores", kind=str)
    ssl_certfile: str | None = option(
        None,
        "PEM file of this client's certificate chain, and its key where ssl_keyfile is not given",
        kind=str,
        dotted="ssl.keystore.location",
    )
    ssl_keyfile: str | None = option(None, "PEM file of this client's private key", kind=str)
    ssl_keystore_certificate_chain: str | None = option(
        None, "this client's certificate chain as PEM text", kind=str, shown=False
    )
    ssl_keystore_key: Secret | None = option(None, "this client's private key as PEM text", kind=Secret)
    ssl_keystore_type: str | None = option(None, "PEM; parley reads no Java key stores", kind=str)
    ssl_password: Secret | None = option(None, "password of the private key", kind=Secret, dotted="ssl.key.password")
    ssl_check_hostname: bool = option(True, "whether a broker's certificate must name its host")
    ssl_endpoint_identification_algorithm: str | None = option(
        None, "Java's spelling of ssl_check_hostname: https, or nothing for false", kind=str, choices=("https", "")
    )
    sasl_mechanism: str | None = option(None, "how this client proves who it is", kind=str, choices=SASL_MECHANISMS)
    sasl_plain_username: str | None = option(None, "user name, for PLAIN and SCRAM", kind=str)
    sasl_plain_password: Secret | None = option(None, "password, for PLAIN and SCRAM", kind=Secret)
    sasl_oauth_token_provider: TokenProvider | None = option(
        None, "OAUTHBEARER: a function, also an async one, that returns a fresh token", shown=False
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        None,
        "OAUTHBEARER: the https URL that gives tokens to a client id and secret (KIP-768), or file:///PATH of a token",
        kind=str,
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        None, "OAUTHBEARER: the client id for the token endpoint; clientId of sasl_jaas_config", kind=str
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        None, "OAUTHBEARER: the secret that goes with it; clientSecret of sasl_jaas_config", kind=Secret
    )
    sasl_oauthbearer_scope: str | None = option(
        None, "OAUTHBEARER: what the token is to allow; scope of sasl_jaas_config", kind=str
    )
    sasl_oauthbearer_header_urlencode: bool = option(
        False, "OAUTHBEARER: encode client id and secret before they go into the request's header"
    )
    sasl_login_callback_handler_class: str | None = option(
        None, "Java's name of the class that gets tokens; OAuthBearerLoginCallbackHandler is known", kind=str
    )
    sasl_login_connect_timeout_ms: int | None = option(
        None, "how long connecting to the token endpoint may take; None: 10 s", low=1, high=2**31 - 1, kind=int
    )
    sasl_login_read_timeout_ms: int | None = option(
        None, "how long the token endpoint's answer may take; None: 10 s", low=1, high=2**31 - 1, kind=int
    )
    sasl_login_retry_backoff_ms: int = option(
        100, "first pause before the token endpoint is asked again; it doubles", low=0, high=2**31 - 1
    )
    sasl_login_retry_backoff_max_ms: int = option(
        10_000, "how long the token endpoint is asked again", low=0, high=2**31 - 1
    )
    sasl_jaas_config: Secret | None = option(
        None, "Java's spelling of the credentials: CLASS required username=... password=...;", kind=Secret
    )
    allow_plaintext_password: bool = option(
        False, "yes to PLAIN without TLS, where everybody on the way can read the password (parley's own)"
    )

    def __post_init__(self) -> None:
        OptionSet.__post_init__(self)
        for name in ("ssl_truststore_type", "ssl_keystore_type"):
            kind = getattr(self, name)
            if kind is not None and kind.upper() != "PEM":
                raise ConfigError(
                    f'{name}="{kind}" cannot be used: parley reads PEM. "openssl pkcs12 -in STORE.p12 -out STORE.pem" '
                    'makes PEM of a PKCS#12 store, and "keytool -importkeystore" PKCS#12 of a JKS one'
                )
        if self.sasl_oauth_token_provider is not None and not callable(self.sasl_oauth_token_provider):
            raise ConfigError("sasl_oauth_token_provider must be a function that returns a token")
        if self.ssl_context is not None and not isinstance(self.ssl_context, ssl.SSLContext):
            raise ConfigError(f"ssl_context must be an ssl.SSLContext, not {type(self.ssl_context).__name__}")
        if self.sasl_jaas_config is not None:
            parse_jaas(self.sasl_jaas_config)


def security_arguments(options: SecurityOptions) -> dict[str, Any]:
    """Return the keyword arguments of ConnectOptions. Raises ConfigError where options contradict each other."""
    checks_name = options.ssl_check_hostname and options.ssl_endpoint_identification_algorithm != ""
    return {
        "security_protocol": options.security_protocol,
        "ssl_context": options.ssl_context,
        "ssl_cafile": options.ssl_cafile,
        "ssl_ca_pem": options.ssl_truststore_certificates,
        "ssl_certfile": options.ssl_certfile,
        "ssl_keyfile": options.ssl_keyfile,
        "ssl_certificate_pem": options.ssl_keystore_certificate_chain,
        "ssl_key_pem": options.ssl_keystore_key,
        "ssl_key_password": options.ssl_password,
        "ssl_check_hostname": checks_name,
        **_sasl_arguments(options),
        "allow_plaintext_password": options.allow_plaintext_password,
    }


def _sasl_arguments(options: SecurityOptions) -> dict[str, Any]:
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
                f"{names[0]} is given but security_protocol={options.security_protocol} uses no SASL; "
                "use SASL_SSL or SASL_PLAINTEXT"
            )
        return {}
    mechanism = _mechanism(options, jaas)
    if jaas is not None:
        username = jaas.username if username is None else username
        password = jaas.password if password is None else password
    if mechanism == "OAUTHBEARER":
        extensions = {} if jaas is None else jaas.extensions
        found = {"sasl_mechanism": mechanism, "sasl_token_provider": token_provider(options, jaas, _endpoint_tls(jaas))}
        return {**found, "sasl_extensions": extensions} if extensions else found
    missing = "sasl_plain_username" if username is None else "sasl_plain_password" if password is None else None
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
    """Return what verifies the token endpoint, from the `ssl.` options of the JAAS text; None where it has none."""
    if jaas is None or not jaas.endpoint_tls:
        return None
    made = SecurityOptions.from_properties({**jaas.endpoint_tls, "security.protocol": "SSL"})
    return client_tls(ConnectOptions(**security_arguments(made)))


def _mechanism(options: SecurityOptions, jaas: JaasLogin | None) -> str:
    mechanism = options.sasl_mechanism
    if mechanism is None and jaas is not None and jaas.module != SCRAM:
        mechanism = next(name for name, module in _MODULE_OF.items() if module == jaas.module)
    if mechanism is None:
        raise ConfigError(
            f"security_protocol={options.security_protocol} needs sasl_mechanism: one of {', '.join(SASL_MECHANISMS)}"
        )
    if jaas is not None and _MODULE_OF[mechanism] != jaas.module:
        raise ConfigError(f"sasl_jaas_config has a {jaas.module}, which does not fit sasl_mechanism={mechanism}")
    return mechanism
