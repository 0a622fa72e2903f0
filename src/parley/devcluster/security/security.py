"""Listeners of the embedded cluster that want TLS, a login, or both.

Mechanisms come as they came to Kafka: PLAIN 0.10.0, SCRAM 0.10.2, OAUTHBEARER 2.0; sessions that
end (KIP-368) with 2.2. 0.9 has TLS, but no login that parley speaks.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from parley.devcluster.security.certificates import Certificate, CertificateAuthority
from parley.errors import ConfigError, nearest_hint
from parley.net import Clock, ServerSettings
from parley.net.options import SECURITY_PROTOCOLS
from parley.net.tls import server_tls
from parley.protocol import BrokerSasl
from parley.protocol.sasl import MECHANISMS, ServerCredentials, ServerMaker, ServerMechanism
from parley.types import Many, Secret, texts
from parley.versions.releases import Release, release_number

FIRST_RELEASE_OF_SESSIONS = "2.2"
CLIENT_AUTH = ("none", "requested", "required")
MAX_TOKEN_CHARS = 64 * 1024
"""Longer tokens are refused unread: HTTP servers take no header of that length either."""
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Security:
    """What every listener of a cluster wants of its clients; Kafka's names where it has them.

    `mechanisms` None offers what each broker's release knows. `principal_of` returns whose
    OAUTHBEARER token it is, or None to refuse it; without it unsecured tokens are read, as a broker
    does where nothing else is set up. Over TLS a throw-away CA is made (extra `tls`), unless
    `ssl_context` is given. Raises ConfigError for what cannot be.
    """

    protocol: str = "PLAINTEXT"
    _: KW_ONLY
    users: Mapping[str, Secret | str] = field(default_factory=dict)
    mechanisms: Many[str] | None = None
    principal_of: Callable[[str], str | None] | None = field(default=None, repr=False)
    session_lifetime_ms: int = 0
    client_auth: str = "none"
    hosts: Many[str] = _LOCAL_HOSTS
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", self.protocol.upper())
        _check_one_of("security protocol", self.protocol, SECURITY_PROTOCOLS)
        _check_one_of("client_auth", self.client_auth, CLIENT_AUTH)
        if self.mechanisms is not None:
            object.__setattr__(
                self, "mechanisms", texts("mechanisms", self.mechanisms, "mechanisms")
            )
        object.__setattr__(self, "hosts", texts("hosts", self.hosts, "hosts"))
        for mechanism in self.mechanisms or ():
            _check_one_of("mechanism", mechanism, tuple(MECHANISMS))
        object.__setattr__(
            self, "users", {name: Secret(password) for name, password in self.users.items()}
        )
        wants_login = self.users or self.mechanisms or self.principal_of or self.session_lifetime_ms
        if wants_login and not self.uses_sasl:
            raise ConfigError(
                f"users, mechanisms and logins need SASL_PLAINTEXT or SASL_SSL, not {self.protocol}"
            )
        if not self.uses_tls and (self.client_auth != "none" or self.ssl_context is not None):
            raise ConfigError(
                f"client_auth and ssl_context need SSL or SASL_SSL, not {self.protocol}"
            )
        by_password = [
            name for name in self.mechanisms or MECHANISMS if not MECHANISMS[name].uses_token
        ]
        if self.uses_sasl and not self.users and by_password:
            raise ConfigError(
                f'{self.protocol} needs users={{"name": "password"}}: without one nobody can log in'
            )
        if self.session_lifetime_ms < 0:
            raise ConfigError(
                f"session_lifetime_ms={self.session_lifetime_ms} is negative; 0 lets a login last"
            )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients must log in."""
        return self.protocol.startswith("SASL")


class ListenerSecurity:
    """A `Security` at work: its credentials, and what each broker's listener is made with.

    `authority` signs the brokers' certificates where the listener speaks TLS; without one a CA is
    made.
    """

    def __init__(
        self, security: Security, host: str, authority: CertificateAuthority | None = None
    ) -> None:
        self.security = security
        self.authority: CertificateAuthority | None = None
        self._tls = security.ssl_context
        if security.uses_tls and self._tls is None:
            self.authority = authority or CertificateAuthority()
            own = self.authority.server(list(dict.fromkeys([*security.hosts, host])))
            trusted = None if security.client_auth == "none" else self.authority.ca_pem
            self._tls = server_tls(
                own.pem, client_ca_pem=trusted, required=security.client_auth == "required"
            )
        users = {name: Secret(password) for name, password in security.users.items()}
        self._passwords: Mapping[str, Secret] = users
        given = security.principal_of
        principal_of = unsecured_principal if given is None else lambda token, now_s: given(token)
        known = ServerCredentials(users, principal_of, lambda: secrets.token_bytes(16))
        self._makers: dict[str, ServerMaker] = {
            name: MECHANISMS[name].server(known)
            for name in security.mechanisms or MECHANISMS
            if security.uses_sasl
        }

    def mechanisms_of(self, release: Release) -> list[str]:
        """Return what a release offers. Raises ConfigError for nothing, or less than asked for."""
        known = [
            name
            for name, one in MECHANISMS.items()
            if release.number >= release_number(one.first_release)
        ]
        if self.security.uses_sasl and not known:
            raise ConfigError(
                f"Kafka {release.name} has no SASL mechanism but GSSAPI; PLAIN came with 0.10.0"
            )
        for name in self.security.mechanisms or ():
            if name not in known:
                first = MECHANISMS[name].first_release
                raise ConfigError(
                    f"Kafka {release.name} does not know {name}; it came with {first}"
                )
        return [name for name in known if name in (self.security.mechanisms or known)]

    def made_for(
        self, release: Release, clock: Clock, now_ms: Callable[[], int], idle_timeout_ms: int
    ) -> tuple[ssl.SSLContext | None, ServerSettings]:
        """Return the TLS context and the settings of a broker's listener."""
        if not self.security.uses_sasl:
            return self._tls, ServerSettings(clock=clock, idle_timeout_ms=idle_timeout_ms)
        makers = {name: _maker(self._makers[name], now_ms) for name in self.mechanisms_of(release)}
        ends = release.number >= release_number(FIRST_RELEASE_OF_SESSIONS)
        sasl = BrokerSasl(makers, self.security.session_lifetime_ms if ends else 0)
        return self._tls, ServerSettings(sasl=sasl, clock=clock, idle_timeout_ms=idle_timeout_ms)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context of whoever listens, None where connections are not encrypted."""
        return self._tls

    def is_password_of(self, user: str, password: str) -> bool:
        """Return whether a user has this password."""
        known = self._passwords.get(user)
        return known is not None and hmac.compare_digest(known.reveal().encode(), password.encode())

    # -- for clients

    @property
    def ca_pem(self) -> str:
        """The CA's certificate. Raises ConfigError where the cluster made none."""
        return self._authority().ca_pem

    def client_certificate(self, name: str) -> Certificate:
        """Return a certificate for mutual TLS. Raises ConfigError where the cluster has no CA."""
        return self._authority().client(name)

    def _authority(self) -> CertificateAuthority:
        if self.authority is None:
            raise ConfigError(
                "this cluster has no certificate authority: it speaks no TLS, or has an own "
                "ssl_context"
            )
        return self.authority

    def client_properties(
        self, user: str | None, mechanism: str | None, releases: Sequence[Release]
    ) -> dict[str, str]:
        """Return a Java client's properties, the password among them."""
        security = self.security
        found = {"security.protocol": security.protocol}
        if self.authority is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ca_pem}
            if security.client_auth != "none":
                own = self.client_certificate(user or "client")
                found |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.certificate.chain": own.certificate_pem,
                    "ssl.keystore.key": own.key_pem.reveal(),
                }
        if security.uses_sasl:
            found |= self._login_properties(user, mechanism or self._best_mechanism(releases))
        return found

    def _best_mechanism(self, releases: Sequence[Release]) -> str:
        offered = [self.mechanisms_of(release) for release in releases]
        by_strength = sorted(MECHANISMS, key=lambda name: MECHANISMS[name].strength, reverse=True)
        usable = [name for name in by_strength if all(name in names for names in offered)]
        if not usable:
            raise ConfigError("no mechanism is offered by every broker of this cluster")
        return usable[0]

    def _login_properties(self, user: str | None, mechanism: str) -> dict[str, str]:
        name = next(iter(self._passwords), "client") if user is None else user
        if MECHANISMS[mechanism].uses_token:
            values = {"unsecuredLoginStringClaim_sub": name}
        elif name not in self._passwords:
            raise ConfigError(
                f'there is no user "{name}" at this cluster.{nearest_hint(name, self._passwords)}'
            )
        else:
            values = {"username": name, "password": self._passwords[name].reveal()}
        escaped = {
            key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in values.items()
        }
        credentials = " ".join(f'{key}="{value}"' for key, value in escaped.items())
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{_JAAS}.{MECHANISMS[mechanism].login_module} required "
            f"{credentials};",
        }


def _maker(make: ServerMaker, now_ms: Callable[[], int]) -> Callable[[], ServerMechanism]:
    return lambda: make(secrets.token_urlsafe(24), now_ms() // 1000)


def unsecured_principal(token: str, now_s: int) -> str | None:
    """Return the subject of an unsecured JSON web token, valid now; None for any other."""
    if len(token) > MAX_TOKEN_CHARS:
        return None
    try:
        header, claims = (
            json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]
        )
        subject, expires = claims["sub"], claims["exp"]
        signed = token.split(".")[2:] != [""] or header["alg"] != "none"
        valid = isinstance(subject, str) and subject != "" and expires > now_s
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return subject if valid and not signed else None


def _check_one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise ConfigError(
            f'{what} "{given}" is none of {", ".join(known)}.{nearest_hint(given, known)}'
        )
