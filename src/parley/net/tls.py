"""TLS contexts: TLS 1.2 or newer; on the client's side certificate and name are verified.

A key with a password and no `ssl_key_password` is an error here; OpenSSL itself would ask on the
terminal.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.errors import ConfigError
from parley.net.options import ConnectOptions
from parley.types import Secret

_log = logging.getLogger("parley.net")

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_ANOTHER_KEY = "KEY_VALUES_MISMATCH"
"""OpenSSL's reason for a key that was read, and is not the certificate's."""
_JKS, _PKCS12 = b"\xfe\xed\xfe\xed", b"\x30\x82"


def client_tls(options: ConnectOptions) -> ssl.SSLContext | None:
    """Return the context that connections use, None where they are not encrypted.

    Raises ConfigError when a certificate or key cannot be used.
    """
    if not options.uses_tls:
        return None
    if options.ssl_context is not None:
        return options.ssl_context
    context = _trusting(options)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not options.ssl_check_hostname:
        _log.warning(
            "ssl_check_hostname=False: any holder of a trusted certificate can pose as the broker"
        )
        context.check_hostname = False
    if options.ssl_keystore_certificate_chain is not None:
        _load_own_pem(context, options)
    elif options.ssl_certfile is not None:
        _load_own(context, options, options.ssl_certfile, options.ssl_keyfile)
    elif options.ssl_keyfile is not None or options.ssl_keystore_key is not None:
        given = "ssl_keyfile" if options.ssl_keyfile is not None else "ssl_keystore_key"
        raise ConfigError(f"{given} is given without ssl_certfile; a key alone proves nothing")
    return context


class ClientTls:
    """The context of one client's connections, made of its files as they are at each connection.

    Files that cannot be used leave the last good context in use: who replaces a certificate and its
    key writes twice, and connections are made meanwhile.
    """

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self._last_good: ssl.SSLContext | None = None
        self._warned = ""

    def context(self) -> ssl.SSLContext | None:
        """Return the context for one connection, as `client_tls` does.

        Raises ConfigError where the files cannot be used and never could.
        """
        try:
            context = client_tls(self._options)
        except ConfigError as error:
            if self._last_good is None:
                raise
            self._warn_once(str(error))
            return self._last_good
        self._last_good, self._warned = context, ""
        return context

    def _warn_once(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            _log.warning(
                "%s; connections go on with what was loaded before, until the files are whole", text
            )


def server_tls(
    own_pem: Secret, *, client_ca_pem: str | None = None, required: bool = False
) -> ssl.SSLContext:
    """Return a listener's context, from its key and certificate in one PEM text.

    With `client_ca_pem` clients may prove themselves by a certificate of that CA, with `required`
    they must.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _private_file(own_pem.reveal()) as path:
        context.load_cert_chain(path)
    if client_ca_pem is not None:
        context.load_verify_locations(cadata=client_ca_pem)
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def trusting_context(cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """Return a client's context that trusts what is given, else the system's authorities.

    It takes what Java takes, on every Python: authorities as keytool and openssl make them, which
    Python 3.13 refuses by default (VERIFY_X509_STRICT), and any certificate that is given as one,
    though it be no root, which those before 3.13 refuse (VERIFY_X509_PARTIAL_CHAIN).
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def pem_blocks(text: str) -> str:
    """Return PEM text with its blocks on lines of their own, as properties files do not keep them.

    >>> print(pem_blocks("-----BEGIN X----- QUJD -----END X-----"), end="")
    -----BEGIN X-----
    QUJD
    -----END X-----
    """
    blocks = []
    for kind, body in _BLOCK.findall(text):
        # old encrypted keys have header lines, which only exist where lines were kept
        if ":" not in body:
            letters = "".join(body.split())
            body = "\n" + "\n".join(letters[i : i + 64] for i in range(0, len(letters), 64)) + "\n"
        blocks.append(f"-----BEGIN {kind}-----{body}-----END {kind}-----\n")
    return "".join(blocks)


def _trusting(options: ConnectOptions) -> ssl.SSLContext:
    text = (
        None
        if options.ssl_truststore_certificates is None
        else pem_blocks(options.ssl_truststore_certificates)
    )
    name = f'ssl_cafile="{options.ssl_cafile}"' if text is None else "ssl_truststore_certificates"
    if text == "":
        raise ConfigError(f"{name} holds no usable CA certificates (no PEM block begins in it)")
    try:
        return trusting_context(cafile=options.ssl_cafile, cadata=text)
    except (OSError, ssl.SSLError, ValueError) as error:
        hint = "" if options.ssl_cafile is None else _store_hint(options.ssl_cafile)
        raise ConfigError(
            f"{name} holds no usable CA certificates ({_text(error)}){hint}"
        ) from error


def _load_own_pem(context: ssl.SSLContext, options: ConnectOptions) -> None:
    if options.ssl_certfile is not None or options.ssl_keyfile is not None:
        raise ConfigError(
            "ssl_keystore_certificate_chain and ssl_certfile or ssl_keyfile are given; give texts "
            "or files"
        )
    key = "" if options.ssl_keystore_key is None else Secret(options.ssl_keystore_key).reveal()
    try:
        with _private_file(
            pem_blocks(key) + pem_blocks(options.ssl_keystore_certificate_chain or "")
        ) as path:
            _load_own(context, options, path, None)
    except OSError as error:
        raise ConfigError(
            "ssl_keystore_certificate_chain needs a file for a moment, as OpenSSL reads "
            "certificates from files, and none can be written where TMPDIR points to "
            f"({_text(error)})"
        ) from error


def _load_own(
    context: ssl.SSLContext, options: ConnectOptions, certificate: str, key: str | None
) -> None:
    name = (
        f'ssl_certfile="{certificate}"'
        if options.ssl_keystore_certificate_chain is None
        else "ssl_keystore_certificate_chain"
    )
    its_key = "its key" if key is None else f'ssl_keyfile="{key}"'
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return Secret(options.ssl_key_password or "").reveal()

    try:
        context.load_cert_chain(certificate, key, password)
    except (OSError, ssl.SSLError, ValueError) as error:
        if asked and options.ssl_key_password is None:
            raise ConfigError(
                f"the private key of {name} has a password; give it as ssl_password"
            ) from None
        if asked and isinstance(error, ssl.SSLError) and error.reason != _ANOTHER_KEY:
            # what OpenSSL says of it ("PEM lib") would mean nothing to anybody
            where = "ssl_keystore_key" if options.ssl_keystore_key is not None else name
            raise ConfigError(
                f"ssl_password does not open the private key of {where if key is None else its_key}"
            ) from error
        hint = _store_hint(certificate)
        raise ConfigError(f"{name} or {its_key} cannot be used ({_text(error)}){hint}") from error


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Yield the path of a file for this user only; OpenSSL takes certificates from files."""
    handle, path = tempfile.mkstemp(prefix="parley-", suffix=".pem")
    try:
        with open(handle, "w", encoding="ascii", errors="replace") as file:
            file.write(text)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _store_hint(path: str) -> str:
    """Return how a Java key store becomes PEM, where the file is one."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(4)
    except OSError:
        return ""
    to_pem = f"openssl pkcs12 -in {path} -out STORE.pem"
    if head == _JKS:
        return (
            "; it is a Java key store: make PEM of it with keytool -importkeystore "
            f"-srckeystore {path} -destkeystore STORE.p12 -deststoretype PKCS12, then "
            "openssl pkcs12 -in STORE.p12 -out STORE.pem"
        )
    return (
        f"; it looks like a PKCS#12 store: make PEM of it with {to_pem}"
        if head[:2] == _PKCS12
        else ""
    )


def _text(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
