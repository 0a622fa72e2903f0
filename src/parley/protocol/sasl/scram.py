"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) for both ends.

    client first   n,,n=USER,r=CNONCE[,tokenauth=true]
    server first   r=CNONCE SNONCE,s=SALT,i=ITERATIONS
    client final   c=biws,r=CNONCE SNONCE,p=PROOF
    server final   v=SIGNATURE   (or e=REASON)

Both ends verify: the nonces (CVE-2024-56128 was a server that did not), the iteration count within
4096..16384 (Kafka's bounds; unbounded, a hostile server could keep a client's processor busy for
hours, CVE-2026-10143), and the client the server's signature. All comparisons are in constant time.

Names and passwords are UTF-8 as they are: Kafka's brokers, tools and clients do not prepare them by
SASLprep (RFC 4013), so whoever did would fail with a password that these accept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from parley.errors import AuthenticationError, printable
from parley.protocol.sasl.base import (
    REFUSED,
    ClientCredentials,
    Mechanism,
    ServerCredentials,
    ServerMaker,
    utf8,
)
from parley.types import Secret

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
_COUNT = re.compile(r"[1-9][0-9]{3,4}")  # RFC 5802's posit-number, as long as the bounds are
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password: enough to check, not to log in elsewhere."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def from_password(
        cls, mechanism: str, password: Secret, salt: bytes, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        """Return a password's credential. The salt is the caller's; 16 random bytes will do."""
        hash_name = HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(hash_name, utf8(password.reveal()), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        return cls(salt, stored_key, hmac.digest(salted, b"Server Key", hash_name), iterations)


class ScramClient:
    """The client's side of one login; `nonce` is a fresh printable text without commas.

    Its steps take the processor for milliseconds: up to 16,384 rounds of PBKDF2.
    """

    takes_long = True
    refusal = None

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: Secret,
        nonce: str,
        *,
        token_auth: bool = False,
    ) -> None:
        self.name = mechanism
        self._hash = HASHES[mechanism]
        utf8(password.reveal())
        self._password = password
        self._nonce = nonce
        escaped = utf8(username).decode().replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if token_auth else ""
        self._first_bare = f"n={escaped},r={nonce}{extension}"
        self._server_signature: bytes | None = None
        self.complete = False

    def first(self) -> bytes:
        """Return the client's first message."""
        return f"n,,{self._first_bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Answer the server's first message with the proof; check the signature in its last one."""
        if self._server_signature is None:
            return self._prove(challenge)
        fields = _fields(challenge, "the broker's last SCRAM message")
        if "e" in fields:
            raise AuthenticationError(
                f"the broker refused the {self.name} login: {printable(fields['e'], 200)}"
            )
        if not hmac.compare_digest(
            _unbase64(fields.get("v", ""), "signature"), self._server_signature
        ):
            raise AuthenticationError(
                f"the peer could not prove that it knows the {self.name} credentials: it may "
                "not be the broker"
            )
        self.complete = True
        return None

    def _prove(self, challenge: bytes) -> bytes:
        fields = _fields(challenge, "the broker's first SCRAM message")
        if "e" in fields:
            raise AuthenticationError(
                f"the broker refused the {self.name} login: {printable(fields['e'], 200)}"
            )
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) <= len(self._nonce):
            raise AuthenticationError(
                "the broker's SCRAM nonce does not continue ours: a replay or a broken server"
            )
        iterations = _iterations(fields.get("i", ""))
        salt = _unbase64(fields.get("s", ""), "salt")
        salted = hashlib.pbkdf2_hmac(self._hash, utf8(self._password.reveal()), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={nonce}"
        auth_message = b",".join((self._first_bare.encode(), challenge, without_proof.encode()))
        signature = hmac.digest(stored_key, auth_message, self._hash)
        self._server_signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self._hash), auth_message, self._hash
        )
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


class ScramServer:
    """The server's side of one login.

    `credential_of(user)` returns the stored credential or None; an unknown user goes through the
    same steps with a made-up one, so that an answer does not reveal which names exist.
    """

    def __init__(
        self, mechanism: str, credential_of: Callable[[str], ScramCredential | None], nonce: str
    ) -> None:
        self.name = mechanism
        self._hash = HASHES[mechanism]
        self._credential_of = credential_of
        self._nonce = nonce
        self._first_exchange: tuple[str, bytes] | None = None
        self._credential: ScramCredential | None = None
        self._username = ""
        self._full_nonce = ""
        self.complete = False
        self.principal: str | None = None

    def step(self, message: bytes) -> bytes:
        """Answer the first message, then check the proof. Raises AuthenticationError to refuse."""
        if self.complete:
            raise AuthenticationError(REFUSED)
        return self._challenge(message) if self._first_exchange is None else self._verify(message)

    def _challenge(self, message: bytes) -> bytes:
        header, _, bare = _decode(message).partition(",,")
        fields = _fields(bare.encode(), "the client's first SCRAM message")
        if header != "n" or not bare.startswith("n=") or not fields.get("r"):
            raise AuthenticationError(REFUSED)
        self._username = fields["n"].replace("=2C", ",").replace("=3D", "=")
        self._credential = self._credential_of(self._username)
        decoy = hashlib.sha256(self._username.encode()).digest()
        known = self._credential or ScramCredential(decoy[:16], decoy, decoy, MIN_ITERATIONS)
        self._full_nonce = fields["r"] + self._nonce
        salt = base64.b64encode(known.salt).decode()
        answer = f"r={self._full_nonce},s={salt},i={known.iterations}".encode()
        self._first_exchange = (bare, answer)
        return answer

    def _verify(self, message: bytes) -> bytes:
        assert self._first_exchange is not None
        fields = _fields(message, "the client's last SCRAM message")
        without_proof, separator, proof_text = _decode(message).rpartition(",p=")
        credential = self._credential
        if credential is None or not separator or fields.get("c") != "biws":
            raise AuthenticationError(REFUSED)
        if not hmac.compare_digest(fields.get("r", "").encode(), self._full_nonce.encode()):
            raise AuthenticationError(REFUSED)
        bare, challenge = self._first_exchange
        auth_message = b",".join((bare.encode(), challenge, without_proof.encode()))
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        proof = _unbase64(proof_text, "proof")
        if len(proof) != len(signature):
            raise AuthenticationError(REFUSED)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(
            hashlib.new(self._hash, client_key).digest(), credential.stored_key
        ):
            raise AuthenticationError(REFUSED)
        self.principal = self._username
        self.complete = True
        return b"v=" + base64.b64encode(
            hmac.digest(credential.server_key, auth_message, self._hash)
        )


def _decode(message: bytes) -> str:
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AuthenticationError("a SCRAM message is not UTF-8") from error


def _fields(message: bytes, what: str) -> dict[str, str]:
    fields = {}
    for part in _decode(message).split(","):
        name, separator, value = part.partition("=")
        if not separator or name in fields:
            raise AuthenticationError(f"{what} is malformed")
        fields[name] = value
    return fields


def _unbase64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationError(f"the SCRAM {what} is not base64") from error


def _iterations(text: str) -> int:
    """Return the count that a text says. It is compared as a number, and only if it is
    as short as the bounds are.
    """
    if not _COUNT.fullmatch(text) or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise AuthenticationError(
            f"the broker asks for {text[:20]!r} SCRAM iterations; {MIN_ITERATIONS} to "
            f"{MAX_ITERATIONS} are accepted"
        )
    return int(text)


def _client(name: str, given: ClientCredentials) -> ScramClient:
    return ScramClient(
        name, given.username, given.password, given.nonce, token_auth=given.token_auth
    )


def _server(name: str, known: ServerCredentials) -> ServerMaker:
    credentials = {
        user: ScramCredential.from_password(name, password, known.new_salt())
        for user, password in known.passwords.items()
    }
    return lambda nonce, now_s: ScramServer(name, credentials.get, nonce)


SCRAM_SHA_256, SCRAM_SHA_512 = (
    Mechanism(
        name=name,
        first_release="0.10.2",
        login_module="scram.ScramLoginModule",
        strength=strength,
        client=partial(_client, name),
        server=partial(_server, name),
    )
    for name, strength in (("SCRAM-SHA-256", 3), ("SCRAM-SHA-512", 4))
)
