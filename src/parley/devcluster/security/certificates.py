"""A throw-away certificate authority for TLS listeners: made for one cluster, never kept.

Needs the extra `tls` (cryptography), which is imported only when certificates are made.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.errors import ConfigError
from parley.types import Secret

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

VALID_DAYS = 365
_ORGANIZATION = "parley throw-away"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, as PEM texts."""

    certificate_pem: str
    key_pem: Secret

    @property
    def pem(self) -> Secret:
        """Key and certificate in one text, for tools that take one file."""
        return Secret(self.key_pem.reveal() + self.certificate_pem)


class CertificateAuthority:
    """Issues certificates of servers and clients; `ca_pem` is what their peers are to trust.

    Raises ConfigError naming the extra to install when `cryptography` is missing.
    """

    def __init__(self) -> None:
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise ConfigError(
                "TLS listeners need the package cryptography to make certificates: "
                'pip install "kafka-parley[tls]", or give an own ssl_context'
            ) from error
        self._x509 = x509
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = self._named("parley throw-away CA")
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._certificate = self._sign(builder.add_extension(self._usage(ca=True), critical=True))
        self.ca_pem = _pem(self._certificate)

    def server(self, hosts: Sequence[str]) -> Certificate:
        """Return the certificate of a server that is reached by these names and addresses."""
        return self._issue(
            "parley broker", [self._general_name(host) for host in hosts], server=True
        )

    def client(self, name: str) -> Certificate:
        """Return the certificate of a client; `name` becomes its subject's common name."""
        return self._issue(name, [], server=False)

    def _issue(self, name: str, hosts: Sequence[x509.GeneralName], *, server: bool) -> Certificate:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        x509 = self._x509
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self._named(name), key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(self._usage(ca=False), critical=True)
        purpose = (
            x509.oid.ExtendedKeyUsageOID.SERVER_AUTH
            if server
            else x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Certificate(_pem(self._sign(builder)), Secret(pem.decode()))

    def _builder(
        self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        from cryptography import x509

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
        )
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
        )
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, critical=False)

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        from cryptography.hazmat.primitives import hashes

        return builder.sign(self._key, hashes.SHA256())

    def _named(self, name: str) -> x509.Name:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        parts = ((NameOID.ORGANIZATION_NAME, _ORGANIZATION), (NameOID.COMMON_NAME, name))
        try:
            return x509.Name([x509.NameAttribute(kind, text) for kind, text in parts])
        except ValueError as error:
            raise ConfigError(f'"{name}" cannot be the name in a certificate: {error}') from error

    def _general_name(self, host: str) -> x509.GeneralName:
        try:
            return self._x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return self._x509.DNSName(host)

    def _usage(self, *, ca: bool) -> x509.KeyUsage:
        return self._x509.KeyUsage(
            digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return str(certificate.public_bytes(serialization.Encoding.PEM).decode())
