"""TLS and SASL options: Java's names and meanings."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from parley.client.options.fields import OptionSet, option
from parley.client.options.jaas import parse_jaas
from parley.errors import ConfigError
from parley.net.options import SASL_MECHANISMS, SECURITY_PROTOCOLS, TokenProvider
from parley.types import Secret


# ruff: noqa: RUF009 - option() makes a field like any other
@dataclass(frozen=True, kw_only=True, slots=True)
class SecurityOptions(OptionSet):
    """How brokers are spoken to: encrypted, and who this client is."""

    security_protocol: str = option(
        "PLAINTEXT", "how brokers are spoken to", choices=SECURITY_PROTOCOLS
    )
    ssl_context: ssl.SSLContext | None = option(
        None, "an own context; the other ssl options are not looked at then"
    )
    ssl_cafile: str | None = option(
        None,
        "PEM file of trusted certificates; None: the system's",
        kind=str,
        dotted="ssl.truststore.location",
    )
    ssl_truststore_certificates: str | None = option(
        None, "trusted certificates as PEM text", kind=str, shown=False
    )
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
    ssl_keystore_key: Secret | None = option(
        None, "this client's private key as PEM text", kind=Secret
    )
    ssl_keystore_type: str | None = option(None, "PEM; parley reads no Java key stores", kind=str)
    ssl_password: Secret | None = option(
        None, "password of the private key", kind=Secret, dotted="ssl.key.password"
    )
    ssl_check_hostname: bool = option(True, "whether a broker's certificate must name its host")
    ssl_endpoint_identification_algorithm: str | None = option(
        None,
        "Java's spelling of ssl_check_hostname: https, or nothing for false",
        kind=str,
        choices=("https", ""),
    )
    sasl_mechanism: str | None = option(
        None, "how this client proves who it is", kind=str, choices=SASL_MECHANISMS
    )
    sasl_plain_username: str | None = option(None, "user name, for PLAIN and SCRAM", kind=str)
    sasl_plain_password: Secret | None = option(None, "password, for PLAIN and SCRAM", kind=Secret)
    sasl_oauth_token_provider: TokenProvider | None = option(
        None, "OAUTHBEARER: a function, also an async one, that returns a fresh token", shown=False
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        None,
        "OAUTHBEARER: the https URL that gives tokens to a client id and secret (KIP-768), "
        "or file:///PATH of a token",
        kind=str,
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        None,
        "OAUTHBEARER: the client id for the token endpoint; clientId of sasl_jaas_config",
        kind=str,
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        None,
        "OAUTHBEARER: the secret that goes with it; clientSecret of sasl_jaas_config",
        kind=Secret,
    )
    sasl_oauthbearer_scope: str | None = option(
        None, "OAUTHBEARER: what the token is to allow; scope of sasl_jaas_config", kind=str
    )
    sasl_oauthbearer_header_urlencode: bool = option(
        False, "OAUTHBEARER: encode client id and secret before they go into the request's header"
    )
    sasl_login_callback_handler_class: str | None = option(
        None,
        "Java's name of the class that gets tokens; OAuthBearerLoginCallbackHandler is known",
        kind=str,
    )
    sasl_login_connect_timeout_ms: int | None = option(
        None,
        "how long connecting to the token endpoint may take; None: 10 s",
        low=1,
        high=2**31 - 1,
        kind=int,
    )
    sasl_login_read_timeout_ms: int | None = option(
        None,
        "how long the token endpoint's answer may take; None: 10 s",
        low=1,
        high=2**31 - 1,
        kind=int,
    )
    sasl_login_retry_backoff_ms: int = option(
        100,
        "first pause before the token endpoint is asked, or the file is read, again; it doubles",
        low=0,
        high=2**31 - 1,
    )
    sasl_login_retry_backoff_max_ms: int = option(
        10_000,
        "how long the token endpoint is asked, or the file is read, again",
        low=0,
        high=2**31 - 1,
    )
    sasl_jaas_config: Secret | None = option(
        None,
        "Java's spelling of the credentials: CLASS required username=... password=...;",
        kind=Secret,
    )
    allow_plaintext_password: bool = option(
        False,
        "yes to PLAIN without TLS, where everybody on the way can read the password (parley's own)",
    )

    def __post_init__(self) -> None:
        OptionSet.__post_init__(self)
        for name in ("ssl_truststore_type", "ssl_keystore_type"):
            kind = getattr(self, name)
            if kind is not None and kind.upper() != "PEM":
                raise ConfigError(
                    f'{name}="{kind}" cannot be used: parley reads PEM. "openssl pkcs12 '
                    '-in STORE.p12 -out STORE.pem" makes PEM of a PKCS#12 store, and '
                    '"keytool -importkeystore" PKCS#12 of a JKS one'
                )
        if self.sasl_oauth_token_provider is not None and not callable(
            self.sasl_oauth_token_provider
        ):
            raise ConfigError("sasl_oauth_token_provider must be a function that returns a token")
        if self.ssl_context is not None and not isinstance(self.ssl_context, ssl.SSLContext):
            raise ConfigError(
                f"ssl_context must be an ssl.SSLContext, not {type(self.ssl_context).__name__}"
            )
        if self.sasl_jaas_config is not None:
            parse_jaas(self.sasl_jaas_config)
