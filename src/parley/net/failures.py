"""Foreign exceptions become parley's here, with the address, the stage and the remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from parley.errors import NetworkError, printable
from parley.net.address import Address
from parley.versions import api_name

NAME_LOOKUP = "name lookup"
TOKEN = "token"
CONNECT = "connect"
TLS = "tls"
LISTEN = "listen"
VERSIONS = "versions"
AUTHENTICATION = "authentication"
REQUEST = "request"


_NO_TLS_REASONS = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}
)
"""OpenSSL's reasons, of several releases, for an answer that is not TLS."""


SILENCE_HINT = (
    "the broker is overloaded, or older than 0.10 (pin its release), or this "
    "listener wants TLS or SASL (security_protocol)"
)
"""What silence instead of an answer to ApiVersions can mean."""

NO_LOGIN_HINT = (
    "If that is so every time, this listener wants a login: security_protocol=SASL_SSL or "
    "SASL_PLAINTEXT"
)
"""A listener with SASL shows its versions to everybody, and closes at the first other request."""


def lost_request(api_key: int, error: Exception | None) -> str:
    """Return what became of a request whose connection ended before its answer."""
    name = api_name(api_key)
    text = f"{name} was not answered; whether the broker acted on the request is unknown"
    if not isinstance(error, NetworkError):
        return text
    return (
        f"{text}. If {name} ends every connection, the broker does not serve the version of "
        "it that it advertises: leave that out (must_not_use_versions)"
    )


@contextmanager
def network_errors(address: Address, stage: str) -> Iterator[None]:
    """Turn OSError, TLS and lookup errors inside the block into NetworkError(stage, address)."""
    try:
        yield
    except (OSError, ssl.SSLError, UnicodeError) as error:
        raise network_error(error, address, stage) from error


_OTHER_NAME = "connect by a name that the certificate holds"
_CERTIFICATE_REMEDIES = {
    9: "it is not valid yet: look at the clocks of this machine and of the one that made it",
    10: "the broker needs a new one (or the clock of this machine is wrong)",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""By OpenSSL's X509_V_ERR numbers: not yet valid, expired, another host name, another address."""


def network_error(error: Exception, address: Address, stage: str) -> NetworkError:
    """Return parley's error for a foreign one."""
    made = NetworkError(
        f"{address}: {explain(error, address, stage)}", address=str(address), stage=stage
    )
    if isinstance(error, ssl.SSLCertVerificationError) or _is_no_tls(error):
        made.retriable = False  # the same certificate comes again, or the same listener
    return made


def _is_no_tls(error: Exception) -> bool:
    """Whether the peer answered a TLS handshake with bytes that are none."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS_REASONS


def explain(error: Exception, address: Address, stage: str) -> str:
    """Return what a foreign exception means here, with the remedy."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return (
            f'the name "{printable(address.host)}" cannot be resolved ({_text(error)}); check '
            "its spelling and DNS"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = _CERTIFICATE_REMEDIES.get(error.verify_code, "give its CA as ssl_cafile")
        return f"the broker's certificate is not trusted: {error.verify_message}; {remedy}"
    if _is_no_tls(error):
        return (
            f"what answered the TLS handshake does not speak TLS ({_text(error)}): "
            "either this listener is plaintext (security_protocol=PLAINTEXT or "
            "SASL_PLAINTEXT), or the port is not a Kafka broker's"
        )
    if stage == TLS:
        return (
            f"the TLS handshake failed ({_text(error)}); if this listener is plaintext use "
            "security_protocol=PLAINTEXT, if it wants a client certificate give ssl_certfile"
        )
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused; no broker listens there, or a firewall says so"
    if stage == LISTEN:
        return (
            f"the address cannot be listened on ({_text(error)}); choose another port, or 0 for "
            "any free one"
        )
    if stage == CONNECT:
        return f"no connection could be made ({_text(error)})"
    return f"the connection was lost ({_text(error)})"


def _text(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return printable(
        strerror if isinstance(strerror, str) and strerror else (str(error) or type(error).__name__)
    )
