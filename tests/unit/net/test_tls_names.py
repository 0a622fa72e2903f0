"""Which name of a broker's certificate counts: the alternative names, and without any
the common name, as for Java.
"""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from parley.errors import NetworkError
from parley.messages import FetchRequest
from parley.net import Address, ConnectOptions, open_connection, serve
from parley.protocol import ServeAll

from .conftest import Broker


def self_signed(common_name: str, path: Path, alternative: str | None = None) -> ssl.SSLContext:
    """Write a certificate that signs itself, as keytool -genkey makes it, and
    return a listener's context.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    )
    made = made.serial_number(7).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if alternative is not None:
        made = made.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(alternative)]), critical=False
        )
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    path.write_bytes(pem)
    own = path.with_suffix(".own")
    own.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + pem
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own)
    return context


@pytest.mark.parametrize(
    ("common_name", "alternative", "accepted"),
    [("localhost", None, True), ("elsewhere", None, False), ("localhost", "elsewhere", False)],
)
async def test_the_common_name_counts_only_where_there_is_no_other(
    tmp_path: Path, common_name: str, alternative: str | None, accepted: bool
) -> None:
    ca = tmp_path / "ca.pem"
    context = self_signed(common_name, ca, alternative)
    server = await serve("127.0.0.1", 0, Broker().serve, policy=ServeAll(), ssl_context=context)
    options = ConnectOptions(security_protocol="SSL", ssl_cafile=str(ca))
    place = Address("localhost", server.address.port)
    if accepted:
        connection = await open_connection(place, options)
        await connection.request(FetchRequest())
        await connection.close()
    else:
        with pytest.raises(NetworkError, match="by a name that the certificate holds"):
            await open_connection(place, options)
    await server.abort()
